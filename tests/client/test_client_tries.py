"""When a call is tried again, and after how long: the rule alone."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from threadkeep_client.errors import BadAnswer, Unreachable
from threadkeep_client.retry import RetryPolicy, Tries, retry_after_of

LONG = RetryPolicy(timeout=1000, retries=10)
REFUSED = httpx.ConnectError("refused")


def answer(status: int, retry_after: str | None = None) -> httpx.Response:
    return httpx.Response(status, headers={"Retry-After": retry_after} if retry_after else {})


def pauses(policy: RetryPolicy) -> list[float]:
    tries = Tries(policy)
    found = []
    for _ in range(policy.retries):
        tries.begin()
        found.append(tries.after_error(REFUSED))
    return found


def test_pauses_grow_at_random() -> None:
    """A pause lies between nothing and a bound that doubles up to five seconds."""
    runs = [pauses(LONG) for _ in range(200)]
    for number, bound in enumerate([0.25, 0.5, 1, 2, 4, 5, 5, 5, 5, 5]):
        of_try = [run[number] for run in runs]
        assert 0 <= min(of_try) < bound / 4
        assert bound * 3 / 4 < max(of_try) <= bound


def test_tries_are_counted() -> None:
    """After the last retry an error is Unreachable, and an answer stands as it is."""
    tries = Tries(RetryPolicy(timeout=10, retries=1))
    tries.begin()
    tries.after_error(REFUSED)
    tries.begin()
    assert tries.after_answer(answer(503)) is None
    with pytest.raises(Unreachable, match="no answer after 2 tries: ConnectError: refused"):
        tries.after_error(REFUSED)


@pytest.mark.parametrize("status", [200, 204, 301, 400, 404, 409, 410, 422, 500])
def test_other_answers_stand(status: int) -> None:
    """Only the statuses that may pass by themselves are asked again."""
    tries = Tries(LONG)
    tries.begin()
    assert tries.after_answer(answer(status, "1")) is None


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_retry_after_is_waited_for(status: int) -> None:
    """The pause is what the service asks for, and a little that differs from client to client."""
    tries = Tries(LONG)
    tries.begin()
    pause = tries.after_answer(answer(status, "7"))
    assert pause is not None
    assert 7 <= pause <= 7.25


def test_no_pause_outlasts_the_deadline() -> None:
    """A Retry-After beyond the deadline ends the call at once, with the answer as it is."""
    tries = Tries(RetryPolicy(timeout=10, retries=3))
    tries.begin()
    assert tries.after_answer(answer(429, "31")) is None


def test_a_try_gets_what_is_left() -> None:
    """A try waits for its time-out at most, and for what the deadline leaves if that is less."""
    assert Tries(RetryPolicy(timeout=10, retries=3)).begin() == 10
    assert 0 < Tries(RetryPolicy(timeout=0, retries=3)).begin() <= 0.001


@pytest.mark.parametrize(
    "error", [httpx.UnsupportedProtocol("ftp"), httpx.LocalProtocolError("bad header")]
)
def test_own_mistakes_are_not_repeated(error: httpx.TransportError) -> None:
    """What no other try can mend is not tried again."""
    tries = Tries(LONG)
    tries.begin()
    with pytest.raises(Unreachable):
        tries.after_error(error)


def test_an_unreadable_answer_is_not_repeated() -> None:
    """A body that cannot be decoded is an answer, though not this service's."""
    tries = Tries(LONG)
    tries.begin()
    with pytest.raises(BadAnswer):
        tries.after_error(httpx.DecodingError("not gzip"))


def test_retry_after_is_read_in_both_forms() -> None:
    """Seconds and dates are understood, a moment that is past is now, anything else is nothing."""
    soon = datetime.now(UTC) + timedelta(seconds=90)
    assert retry_after_of(answer(503, "12")) == 12
    assert retry_after_of(answer(503, format_datetime(soon, usegmt=True))) == pytest.approx(
        90, abs=2
    )
    assert retry_after_of(answer(503, "Wed, 21 Oct 2015 07:28:00 -0000")) == 0
    for value in [None, "soon", "-3", "1.5", "²"]:
        assert (
            retry_after_of(httpx.Response(503, headers=[(b"Retry-After", (value or "").encode())]))
            is None
        )
