"""Every case from the field is run by a test, or it is said where, or when, it is."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.integration import (
    test_cases_checkpoint,
    test_cases_concurrency,
    test_cases_encoding,
    test_cases_load,
    test_cases_save,
    test_cases_security,
    test_cases_shapes,
    test_cases_summary,
    test_cases_trim,
)
from tests.integration.cases import CASES

HERE = (
    test_cases_checkpoint,
    test_cases_concurrency,
    test_cases_encoding,
    test_cases_load,
    test_cases_save,
    test_cases_security,
    test_cases_shapes,
    test_cases_summary,
    test_cases_trim,
)
TESTS = Path(__file__).parents[1]

ELSEWHERE: Mapping[str, str] = {
    "shapes-content-types": "integration/test_bad_input.py",
    "shapes-nan-in-body": "integration/test_bad_input.py",
    "shapes-role-aliases": "integration/test_bad_input.py",
    "enc-lone-surrogate": "integration/test_bad_input.py",
    "enc-thread-id-hostile": "integration/test_thread_ids.py",
    "sec-owner-from-token-not-body": "integration/test_tenancy.py",
    "sec-sql-in-ids": "integration/test_tenancy.py",
    "summary-older-run-cannot-overwrite": "integration/test_summary_trouble.py",
    "summary-partial-or-empty-not-used": "integration/test_summary_trouble.py",
    "trim-counts-summary-and-marker": "unit/test_trim.py",
    "trim-final-turn-with-tools-too-big": "unit/test_trim.py",
    "trim-fits-unchanged": "unit/test_trim.py",
    "trim-grapheme-boundary": "unit/test_shorten.py",
    "trim-monotone": "unit/test_trim.py",
    "trim-single-message-over-budget": "unit/test_trim.py",
    "trim-whole-turns-oldest-first": "unit/test_trim.py",
}
"""Cases that a test of another file is about; it names them."""

LATER: Mapping[str, str] = {
    "summary-invalidated-by-delete": "the route that redacts a message is not served yet",
}
"""Cases of routes that do not stand yet."""

BY_AREA = {"strip": "unit/test_markup.py runs all of them from the data"}


def run_here() -> set[str]:
    return {name for module in HERE for name in (*module.CHECKS, *module.BY_HAND)}


def test_every_case_is_accounted_for() -> None:
    """Each case is run by a test, or is listed with the file or the reason; nothing is twice."""
    by_area = {name for name, case in CASES.items() if case["area"] in BY_AREA}
    tables = [run_here(), set(ELSEWHERE), set(LATER), by_area]

    assert set().union(*tables) == set(CASES)
    assert sum(map(len, tables)) == len(CASES)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_elsewhere_is_there(name: str) -> None:
    """The file that is said to run a case names it."""
    assert name in (TESTS / ELSEWHERE[name]).read_text()
