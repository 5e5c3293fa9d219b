"""Whose clients a saver uses, when they connect, and who closes them."""

import asyncio
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint

from tests.service import Service
from threadkeep_client import AsyncThreadkeep, Threadkeep, Unreachable
from threadkeep_client.langgraph import ThreadkeepSaver

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
METHODS = (
    "get_tuple",
    "list",
    "put",
    "put_writes",
    "delete_thread",
    "delete_for_runs",
    "copy_thread",
    "prune",
    "get_delta_channel_history",
)


def test_given_clients_stay_open(service: Service, api_key: str) -> None:
    """A client that was handed in is the caller's: closing the saver leaves it open."""
    with Threadkeep(service.url, api_key=api_key) as memory:
        with ThreadkeepSaver(memory) as saver:
            assert saver.get_tuple(CONFIG) is None
        assert ThreadkeepSaver(memory).get_tuple(CONFIG) is None


@pytest.mark.anyio
async def test_given_async_clients_stay_open(memory: AsyncThreadkeep) -> None:
    """The same for asyncio."""
    async with ThreadkeepSaver(memory) as saver:
        assert await saver.aget_tuple(CONFIG) is None
    assert await ThreadkeepSaver(memory).aget_tuple(CONFIG) is None


@pytest.mark.anyio
async def test_a_missing_client_is_named(memory: AsyncThreadkeep, sync_memory: Threadkeep) -> None:
    """A saver without the client that a method needs says which one, and how to give it."""
    with pytest.raises(TypeError, match="get_state need a Threadkeep and this saver has none"):
        ThreadkeepSaver(memory).get_tuple(CONFIG)
    with pytest.raises(TypeError, match="aget_state need an AsyncThreadkeep"):
        await ThreadkeepSaver(sync_memory).aget_tuple(CONFIG)


@pytest.mark.parametrize("given", [(), ("http://127.0.0.1:8080",), ("one", "two")])
def test_what_is_no_client_is_refused(given: Any) -> None:
    """An address is no client; the error names what makes a saver of one."""
    with pytest.raises(TypeError, match=r"ThreadkeepSaver\.from_url"):
        ThreadkeepSaver(*given)


def test_nothing_connects_before_it_is_needed() -> None:
    """A saver is made, and closed, without a service; only a call needs one."""
    with ThreadkeepSaver.from_url("http://127.0.0.1:9", timeout=0.5) as saver:
        assert saver.config_specs == []
        with pytest.raises(Unreachable):
            saver.get_tuple(CONFIG)


def test_one_saver_serves_loops_and_threads(service: Service, api_key: str) -> None:
    """One saver works in one `asyncio.run` after another and in threads between."""
    saver = ThreadkeepSaver.from_url(service.url, api_key=api_key)

    async def count() -> int:
        async with saver:
            await saver.aput(CONFIG, empty_checkpoint(), {}, {})
            return len([found async for found in saver.alist(CONFIG)])

    assert [asyncio.run(count()) for _ in range(2)] == [1, 2]
    with ThreadPoolExecutor(4) as pool:
        assert len({repr(found) for found in pool.map(saver.get_tuple, [CONFIG] * 8)}) == 1
    saver.close()


def test_every_method_is_its_own() -> None:
    """Each method of the protocol is defined on the class, where capability detection looks."""
    for name in METHODS:
        for method in (name, f"a{name}"):
            assert method in vars(ThreadkeepSaver)
            assert getattr(ThreadkeepSaver, method) is not getattr(BaseCheckpointSaver, method)


def test_versions_count_up_as_text() -> None:
    """The next version is greater as text, differs between branches, and goes on from integers."""
    saver = ThreadkeepSaver.from_url()
    versions = [None]
    for _ in range(12):
        versions.append(saver.get_next_version(versions[-1], None))  # type: ignore[arg-type]  # text after None

    assert versions[1:] == sorted(set(versions[1:]))  # type: ignore[type-var]
    assert saver.get_next_version(9, None).startswith(f"{10:032}.")
    assert saver.get_next_version(None, None) != saver.get_next_version(None, None)


def test_langgraph_itself_is_not_needed() -> None:
    """The saver imports where only `langgraph-checkpoint` is installed, as in a worker."""
    hidden = "langgraph.graph", "langgraph.pregel", "langgraph.channels", "langgraph.types"
    script = (
        f"import sys; sys.modules.update(dict.fromkeys({hidden!r}))\n"
        "from threadkeep_client.langgraph import ThreadkeepSaver; ThreadkeepSaver.from_url()"
    )
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}

    done = subprocess.run([sys.executable, "-c", script], check=False, env=environment)  # noqa: S603

    assert done.returncode == 0
