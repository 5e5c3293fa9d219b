"""LangGraph's own conformance suite, against a running service: every capability, every test."""

from collections.abc import AsyncIterator

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.report import CapabilityReport

from tests.service import Service
from threadkeep_client.langgraph import ThreadkeepSaver

pytestmark = pytest.mark.anyio

TESTS = {
    "put": 17,
    "put_writes": 10,
    "get_tuple": 10,
    "list": 16,
    "delete_thread": 5,
    "delete_for_runs": 7,
    "copy_thread": 8,
    "prune": 8,
}


@pytest.fixture(scope="module")
async def report(service: Service, api_keys: list[str], anyio_backend: object) -> CapabilityReport:
    """The suite's report; each capability is tested in a fresh tenant."""

    @checkpointer_test(name="ThreadkeepSaver")
    async def savers() -> AsyncIterator[ThreadkeepSaver]:
        async with ThreadkeepSaver.from_url(service.url, api_key=api_keys.pop()) as saver:
            yield saver

    return await validate(savers)


@pytest.mark.parametrize("capability", TESTS)
async def test_capability(report: CapabilityReport, capability: str) -> None:
    """Every test of this capability passes."""
    result = report.results[capability]

    assert result.failures == []
    assert (result.detected, result.tests_passed) == (True, TESTS[capability])


async def test_the_whole_suite_ran(report: CapabilityReport) -> None:
    """Eight capabilities are detected and eighty-one tests ran: none was left out unnoticed."""
    detected = [name for name, result in report.results.items() if result.detected]
    passed = sum(result.tests_passed for result in report.results.values())

    assert sorted(detected) == sorted(TESTS)
    assert (len(detected), passed) == (8, 81)
    assert report.conformance_level() == "FULL"
