"""The two clients, and the two turns, are the same but for `async`."""

import inspect
import re

import pytest

import threadkeep_client
from threadkeep_client import AsyncThreadkeep, AsyncTurn, Threadkeep, Turn

TWINS = {"aclose": "close", "__aenter__": "__enter__", "__aexit__": "__exit__"}
PAIRS = [(AsyncThreadkeep, Threadkeep), (AsyncTurn, Turn)]


def methods(kind: type) -> dict[str, str]:
    """Name and signature of every method, as text."""
    found = inspect.getmembers(kind, inspect.isfunction)
    return {
        TWINS.get(name, name): plain(str(inspect.signature(function)))
        for name, function in found
        if not name.startswith("_") or name in TWINS or name in TWINS.values() or name == "__init__"
    }


def plain(signature: str) -> str:
    text = re.sub(r"[\w.]*Awaitable\[(\w+)\]", r"\1", signature)
    return text.replace("Async", "").replace("aio.", "client.")


@pytest.mark.parametrize(("asynchronous", "synchronous"), PAIRS)
def test_same_methods(asynchronous: type, synchronous: type) -> None:
    """Every method of one is a method of the other, with the same parameters and defaults."""
    assert methods(asynchronous) == methods(synchronous)
    assert len(methods(asynchronous)) >= 10


@pytest.mark.parametrize(("asynchronous", "synchronous"), PAIRS)
def test_nothing_to_await_in_the_sync_one(asynchronous: type, synchronous: type) -> None:
    """The sync twin has no coroutines."""
    assert not [
        name
        for name, function in inspect.getmembers(synchronous, inspect.isfunction)
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    ]


def test_public_names() -> None:
    """The package names what it exports, sorted, and everything it names is there."""
    names = threadkeep_client.__all__
    assert [name for name in names if not hasattr(threadkeep_client, name)] == []
    assert len(set(names)) == len(names)
