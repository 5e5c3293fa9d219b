"""What follows each try of a call: another one, after how long, or the end. No I/O here."""

import random
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from threadkeep_client.errors import BadAnswer, Unreachable

RETRIED_STATUSES = frozenset({429, 502, 503, 504})
FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 5.0
# One knob for both: who waits longer for an answer also bears with more tries.
DEADLINE_TIMEOUTS = 3

# What no other try can mend.
_FINAL = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.ProxyError)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """timeout: seconds of each wait in a try. retries: tries after the first."""

    timeout: float
    retries: int

    @property
    def deadline(self) -> float:
        """Seconds from the first try after which no other one begins."""
        return DEADLINE_TIMEOUTS * self.timeout


class Tries:
    """The tries of one call."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._began = time.monotonic()
        self._made = 0

    def begin(self) -> float:
        """Count a try. Units: how long each of its waits may take, in seconds."""
        self._made += 1
        return max(min(self._policy.timeout, self._left()), 0.001)

    def after_error(self, error: httpx.RequestError) -> float:
        """Return the pause before the next try, in seconds. Errors: Unreachable, BadAnswer."""
        if not isinstance(error, httpx.TransportError):
            raise BadAnswer(_name(error)) from error
        pause = None if isinstance(error, _FINAL) else self._pause(0.0)
        if pause is None:
            raise Unreachable(f"no answer after {self._made} tries: {_name(error)}") from error
        return pause

    def after_answer(self, response: httpx.Response) -> float | None:
        """Return the pause before the next try, in seconds; None when the answer stands."""
        if response.status_code not in RETRIED_STATUSES:
            return None
        return self._pause(retry_after_of(response) or 0.0)

    def _pause(self, least: float) -> float | None:
        """Exponential, with full jitter; what the service asked for comes on top.

        Source: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
        """
        if self._made > self._policy.retries:
            return None
        longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** (self._made - 1))
        pause = least + random.uniform(0, longest)  # noqa: S311 (spreads load, guards nothing)
        return pause if pause < self._left() else None

    def _left(self) -> float:
        return self._began + self._policy.deadline - time.monotonic()


def retry_after_of(response: httpx.Response) -> float | None:
    """Read Retry-After, seconds or a date, as seconds from now; None without a usable one."""
    value = response.headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max((moment - datetime.now(UTC)).total_seconds(), 0.0)


def _name(error: httpx.RequestError) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
