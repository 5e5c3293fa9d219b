"""Problems as exceptions: which class, what it carries, and what it must not carry."""

import logging
import pickle

import pytest

import threadkeep_client.errors
from app.core import errors as service_errors
from tests.client.scripted_server import Scripted, scripted_server
from threadkeep_client import AsyncThreadkeep, Problem, Threadkeep
from threadkeep_client.calls import save
from threadkeep_client.errors import (
    BY_SLUG,
    BY_STATUS,
    BadAnswer,
    Conflict,
    InvalidPayload,
    KeyReused,
    NotFound,
    ParentMoved,
    TurnSaved,
    Unauthenticated,
    problem_of,
)
from threadkeep_client.turn_state import TurnRequest

pytestmark = pytest.mark.anyio

PRIVATE = "tell nobody about the heron"


def slugs(kind: type[service_errors.ThreadkeepError]) -> set[str]:
    own = {kind.slug} if "slug" in vars(kind) else set()
    return own.union(*(slugs(below) for below in kind.__subclasses__()))


def test_every_slug_of_the_service_has_a_class() -> None:
    """A problem that the service knows is an exception of its own name."""
    for slug in slugs(service_errors.ThreadkeepError) - {"error"}:
        name = "".join(part.title() for part in slug.split("-"))
        assert BY_SLUG[slug] is getattr(threadkeep_client.errors, name)


def test_unknown_slugs_are_told_by_their_status() -> None:
    """A newer service's problem is the class that its status always was."""
    for status, kind in BY_STATUS.items():
        problem = problem_of({"type": "urn:threadkeep:problem:newer", "title": "New."}, status)
        assert type(problem) is kind
        assert (problem.type, str(problem)) == ("newer", "newer: New.")
    assert type(problem_of({"type": 7, "errors": 8}, 599)) is Problem
    assert str(problem_of({}, 599)) == "599: Unknown status"
    assert problem_of({"type": 7, "errors": 8}, 599).errors == []


def test_errors_survive_pickling() -> None:
    """A task queue can carry an error to another process as it is."""
    document = {"type": "urn:threadkeep:problem:parent-moved", "detail": "moved", "head": "h2"}
    moved = pickle.loads(pickle.dumps(problem_of(document, 409, 2.0)))  # noqa: S301 (our own bytes)
    assert type(moved) is ParentMoved
    assert (moved.head, moved.retry_after, moved.status) == ("h2", 2.0, 409)
    assert moved.extensions == {"head": "h2"}
    saved = pickle.loads(pickle.dumps(TurnSaved("c1")))  # noqa: S301 (our own bytes)
    assert saved.checkpoint_id == "c1"


async def test_real_problems(memory: AsyncThreadkeep) -> None:
    """What the service refuses is raised with its slug, its places and its members."""
    with pytest.raises(NotFound) as missing:
        await memory.thread("nowhere")
    assert (missing.value.type, missing.value.status) == ("thread-not-found", 404)
    with pytest.raises(InvalidPayload) as invalid:
        await memory.save("t", [{"role": "nobody", "content": PRIVATE}])
    assert invalid.value.errors[0]["pointer"] == "#/messages/0/role"
    first = await memory.save("t", [{"role": "user", "content": "a"}], key="k", parent=None)
    with pytest.raises(ParentMoved) as moved:
        await memory.save(
            "t", [{"role": "user", "content": "b"}], parent=None, on_conflict="reject"
        )
    assert moved.value.head == first["checkpoint_id"]
    with pytest.raises(KeyReused):
        await memory.save("t", [{"role": "user", "content": "c"}], key="k")
    assert issubclass(KeyReused, Conflict)


async def test_no_error_holds_what_was_sent(
    memory: AsyncThreadkeep, caplog: pytest.LogCaptureFixture
) -> None:
    """Message text is in no exception, no repr and no log line of the client."""
    caplog.set_level(logging.DEBUG)
    with pytest.raises(InvalidPayload) as invalid:
        await memory.save("t", [{"role": "user", "content": PRIVATE}, {"role": PRIVATE}])
    with pytest.raises(ValueError, match="surrogate") as broken:
        await memory.save("t", [{"role": "user", "content": f"{PRIVATE} \ud800"}])
    with (
        scripted_server(Scripted(200, b"<html>")) as server,
        Threadkeep(server.url) as other,
        pytest.raises(BadAnswer) as bad,
    ):
        other.load("t", PRIVATE)
    question = {"role": "user", "content": PRIVATE}
    shown = [
        *(repr(caught.value) + str(caught.value) for caught in (invalid, broken, bad)),
        repr(save("t", [question], None, None, {"metadata": {"note": PRIVATE}})),
        repr(TurnRequest("t", None, question, metadata={"note": PRIVATE})),
        repr(memory.turn("t", PRIVATE)),
        caplog.text,
    ]
    assert [text for text in shown if PRIVATE in text] == []
    assert broken.value.__context__ is None or broken.value.__suppress_context__


async def test_the_key_is_not_shown(memory: AsyncThreadkeep, api_key: str) -> None:
    """The API key stands in no repr of a client, sync or async."""
    for client in (memory, Threadkeep(api_key=api_key), memory.for_owner("ann")):
        assert api_key not in repr(client)
    assert "owner='ann'" in repr(memory.for_owner("ann"))


async def test_unknown_key_is_refused(memory: AsyncThreadkeep) -> None:
    """A key that the service does not know is Unauthenticated."""
    stranger = AsyncThreadkeep(memory._service.base_url, api_key="stranger", http=memory._http)
    with pytest.raises(Unauthenticated):
        await stranger.load("t")


@pytest.mark.parametrize("value", ["ann\r\nX-Admin: 1", "änn", "line\n"])
def test_headers_take_no_other_lines(value: str) -> None:
    """A key or an owner that no header can carry is refused before anything is sent."""
    with pytest.raises(ValueError, match="Threadkeep-Owner"):
        Threadkeep(owner=value)
    with pytest.raises(ValueError, match="Authorization") as caught:
        Threadkeep(api_key=value)
    assert value not in str(caught.value)
