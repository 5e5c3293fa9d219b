"""Every error has a status, a slug of its own and a document that any client can parse."""

from collections import Counter
from collections.abc import Iterator

import orjson
import pytest

from app.api.problems import STATUS, internal_problem, problem_of, status_of
from app.core import errors
from app.core.errors import Flaw, InvalidPayload, StoreUnavailable, ThreadkeepError, Unauthenticated
from app.telemetry import describe_error


def subclasses(kind: type[ThreadkeepError]) -> Iterator[type[ThreadkeepError]]:
    for below in kind.__subclasses__():
        yield below
        yield from subclasses(below)


LEAVES = [kind for kind in subclasses(ThreadkeepError) if "slug" in vars(kind)]


@pytest.mark.parametrize("kind", LEAVES)
def test_every_error_is_mapped(kind: type[ThreadkeepError]) -> None:
    """Every error that can be raised has a status of its own kind and a sentence as its title."""
    assert status_of(kind) in set(STATUS.values())
    assert (kind.__doc__ or "").splitlines()[0].endswith(".")


def test_slugs_are_unique_and_documented() -> None:
    """No two errors share a slug, and each stands in the tree that the module draws."""
    assert {1} == set(Counter(kind.slug for kind in LEAVES).values())
    assert all(kind.__name__ in (errors.__doc__ or "") for kind in LEAVES)


def test_document() -> None:
    """A problem has the five members of RFC 9457 and the flaws of the payload."""
    response = problem_of(InvalidPayload([Flaw("#/messages/0/role", "must be known")]), "r1")

    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    assert orjson.loads(response.body) == {
        "type": "urn:threadkeep:problem:invalid-payload",
        "title": "The payload is malformed.",
        "status": 422,
        "detail": "#/messages/0/role: must be known",
        "instance": "r1",
        "errors": [{"pointer": "#/messages/0/role", "detail": "must be known"}],
    }


def test_headers() -> None:
    """A 401 says how to authenticate, a 503 when to come back."""
    assert "Bearer" in problem_of(Unauthenticated(), "r1").headers["www-authenticate"]
    assert problem_of(StoreUnavailable(), "r1").headers["retry-after"].isdecimal()


def test_extensions_do_not_replace_members() -> None:
    """What an error adds stands beside the standard members, never in their place."""
    document = orjson.loads(problem_of(ThreadkeepError("x", status=200, head="c1"), "r1").body)

    assert (document["status"], document["head"]) == (500, "c1")


@pytest.mark.parametrize("odd", ["\ud800", 2**70, {1, 2}], ids=ascii)
def test_odd_members_still_give_a_document(odd: object) -> None:
    """The document is valid UTF-8 JSON even if an error carries what JSON cannot."""
    body = bytes(problem_of(ThreadkeepError("x", odd=odd), "r1").body)

    assert orjson.loads(body)["detail"] == "x"


def test_internal_error_says_nothing() -> None:
    """An unforeseen error is answered without a word about it."""
    document = orjson.loads(internal_problem("r1").body)

    assert (document["title"], document["detail"]) == ("Internal error", "Internal error")


def test_described_without_its_text() -> None:
    """A log line tells an error's types and where it came from, never its text."""

    def fail() -> None:
        try:
            dict[str, int]()["ZEBRA-77"]
        except KeyError as error:
            raise ValueError("ZEBRA-77") from error

    with pytest.raises(ValueError, match="ZEBRA") as caught:
        fail()
    described = describe_error(caught.value)

    assert "ZEBRA" not in described
    assert "builtins.ValueError" in described
    assert "builtins.KeyError" in described
    assert "test_problems.py" in described
