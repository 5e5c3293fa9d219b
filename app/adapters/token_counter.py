"""TokenCounter: quicktok with the tables it carries, tiktoken for every other encoding.

Linear in every text tried: a million of 'a', spaces, digits, Han or line breaks take quicktok 3 to
20 ms, random letters 120, dashes (its worst) 470; it lets go of the interpreter's lock meanwhile.
Its Unicode is version 16: of all code points only the 4,700 that version 17 added (2025: rare
scripts, CJK extension J) may count otherwise than in tiktoken, by a token or two.
"""

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Callable
from functools import lru_cache, partial

import quicktok
import tiktoken

from app.core.errors import Flaw, UnknownEncoding
from app.core.ports import Count

# o200k_harmony differs from o200k_base in control tokens alone, and those count as plain text here.
_CARRIED = {
    "o200k_base": "o200k_base",
    "cl100k_base": "cl100k_base",
    "o200k_harmony": "o200k_base",
}
_RETRY_SECONDS = 60.0
# tiktoken's pattern engine overflows its stack (and panics) on a long run of white space.
_PIECE_CHARACTERS = 100_000
_REMEMBERED_TEXTS = 1_000
_REMEMBERED_CHARACTERS = 8_000


class EncodingTokenCounter:
    """Exact counts by encoding name; what is carried never touches the network.

    wait_seconds: how long one request waits for tiktoken to fetch a table it has not got.
    clock: monotonic seconds.
    """

    def __init__(
        self, *, wait_seconds: float = 3.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._wait_seconds = wait_seconds
        self._clock = clock
        self._counts: dict[str, Count] = {}
        self._failed_at: dict[str, float] = {}
        self._loading: dict[str, asyncio.Task[Count]] = {}
        # Asked once: tiktoken's own lock is held for as long as any table is being fetched.
        self._names = frozenset(tiktoken.list_encoding_names()) | _CARRIED.keys()

    async def counter(self, encoding: str) -> Count:
        """Return the counting function of an encoding; it takes any text and never raises.

        Errors: UnknownEncoding for a name nobody knows, and when its table cannot be had; then for
            a minute without waiting again.
        """
        count = self._counts.get(encoding)
        if count is not None:
            return count
        if encoding not in self._names:
            raise _unknown("There is no such encoding.")
        if self._clock() - self._failed_at.get(encoding, -math.inf) < _RETRY_SECONDS:
            raise _unknown("The encoding's table cannot be had here.")
        return await self._load(encoding)

    async def _load(self, encoding: str) -> Count:
        task = self._loading.get(encoding)
        if task is None:
            task = asyncio.ensure_future(_in_daemon_thread(lambda: _make(encoding)))
            task.add_done_callback(lambda done: self._loaded(encoding, done))
            self._loading[encoding] = task
        wait_seconds = None if encoding in _CARRIED else self._wait_seconds
        try:
            # Shielded: whoever waits in vain leaves the fetch running for the next one.
            return await asyncio.wait_for(asyncio.shield(task), wait_seconds)
        except Exception as error:
            self._failed_at[encoding] = self._clock()
            raise _unknown("The encoding's table cannot be had here.") from error

    def _loaded(self, encoding: str, task: asyncio.Task[Count]) -> None:
        del self._loading[encoding]
        if not task.cancelled() and task.exception() is None:
            self._counts[encoding] = task.result()


def _unknown(detail: str) -> UnknownEncoding:
    return UnknownEncoding([Flaw("#/encoding", detail)])


async def _in_daemon_thread(make: Callable[[], Count]) -> Count:
    # Not the loop's executor: closing the loop would wait for a fetch that has no time-out.
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Count] = loop.create_future()

    def run() -> None:
        try:
            settle = partial(_settle, future, result=make())
        except Exception as error:  # noqa: BLE001 - whatever a fetch or a damaged table raises
            settle = partial(_settle, future, error=error)
        with contextlib.suppress(RuntimeError):  # the loop has closed meanwhile
            loop.call_soon_threadsafe(settle)

    threading.Thread(target=run, daemon=True, name="encoding-table").start()
    return await future


def _settle(
    future: asyncio.Future[Count], *, result: Count | None = None, error: Exception | None = None
) -> None:
    if future.cancelled():
        return
    if result is not None:
        future.set_result(result)
    elif error is not None:
        future.set_exception(error)


def _make(encoding: str) -> Count:
    if encoding in _CARRIED:
        return _remembering(_carried(_CARRIED[encoding]))
    return _remembering(_fetched(tiktoken.get_encoding(encoding)))


def _remembering(count: Count) -> Count:
    """Count a text of usual length once while it is in use: every load counts its summary again."""
    recent = lru_cache(_REMEMBERED_TEXTS)(count)
    return lambda text: recent(text) if len(text) <= _REMEMBERED_CHARACTERS else count(text)


def _carried(name: str) -> Count:
    tokenizer = quicktok.get_encoding(name)

    def count(text: str) -> int:
        try:
            return int(tokenizer.count(text))
        except TypeError:  # a lone surrogate
            return int(tokenizer.count(_mended(text)))

    return count


def _fetched(tokenizer: tiktoken.Encoding) -> Count:
    def count(text: str) -> int:
        mended = _mended(text)
        starts = range(0, len(mended), _PIECE_CHARACTERS)
        pieces = (mended[start : start + _PIECE_CHARACTERS] for start in starts)
        return sum(len(tokenizer.encode_ordinary(piece)) for piece in pieces)

    return count


def _mended(text: str) -> str:
    """Return the text with every lone surrogate replaced by U+FFFD, as tiktoken itself does."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
