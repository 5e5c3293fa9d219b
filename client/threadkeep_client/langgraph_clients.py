"""The two clients behind one saver: made when first needed, closed by whoever made them."""

import asyncio
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TypeAlias
from weakref import WeakKeyDictionary

from threadkeep_client.aio import AsyncThreadkeep
from threadkeep_client.client import Threadkeep


class GivenClients:
    """Clients that the caller made, and closes."""

    def __init__(self, clients: Sequence[object]) -> None:
        plain = [client for client in clients if isinstance(client, Threadkeep)]
        aio = [client for client in clients if isinstance(client, AsyncThreadkeep)]
        if not clients or len(plain) > 1 or len(aio) > 1 or len(plain) + len(aio) < len(clients):
            raise TypeError(
                "a saver takes a Threadkeep, an AsyncThreadkeep, or one of each; "
                "for an address there is ThreadkeepSaver.from_url"
            )
        self._plain = plain[0] if plain else None
        self._aio = aio[0] if aio else None

    def plain(self) -> Threadkeep:
        """Return the client for code without asyncio. Errors: TypeError when none was given."""
        if self._plain is None:
            raise TypeError(_missing("invoke, stream and get_state", "Threadkeep"))
        return self._plain

    def aio(self) -> AsyncThreadkeep:
        """Return the client for asyncio. Errors: TypeError when none was given."""
        if self._aio is None:
            raise TypeError(_missing("ainvoke, astream and aget_state", "AsyncThreadkeep"))
        return self._aio

    def close(self) -> None:
        """Close nothing: the clients are the caller's."""

    async def aclose(self) -> None:
        """Close nothing: the clients are the caller's."""


class OwnClients:
    """Clients made when first needed, and closed here.

    Connections belong to the event loop they were opened in, so every loop has a client of its own:
    a saver may serve one `asyncio.run` after another. Those of a loop that has ended went with it.
    """

    def __init__(
        self, make_plain: Callable[[], Threadkeep], make_aio: Callable[[], AsyncThreadkeep]
    ) -> None:
        self._make_plain = make_plain
        self._make_aio = make_aio
        self._lock = Lock()
        self._plain: Threadkeep | None = None
        self._aio: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncThreadkeep] = (
            WeakKeyDictionary()
        )

    def plain(self) -> Threadkeep:
        """Return the client for code without asyncio; one for all threads."""
        with self._lock:
            if self._plain is None:
                self._plain = self._make_plain()
            return self._plain

    def aio(self) -> AsyncThreadkeep:
        """Return the client of the running event loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop not in self._aio:
                self._aio[loop] = self._make_aio()
            return self._aio[loop]

    def close(self) -> None:
        """Close the connections of code without asyncio."""
        with self._lock:
            plain, self._plain = self._plain, None
        if plain is not None:
            plain.close()

    async def aclose(self) -> None:
        """Close those connections, and the ones of the running event loop."""
        self.close()
        with self._lock:
            aio = self._aio.pop(asyncio.get_running_loop(), None)
        if aio is not None:
            await aio.aclose()


SomeClient: TypeAlias = Threadkeep | AsyncThreadkeep | OwnClients


def clients_of(given: Sequence[SomeClient]) -> GivenClients | OwnClients:
    """Return the pair that these clients make. Errors: TypeError for no pair."""
    if len(given) == 1 and isinstance(given[0], OwnClients):
        return given[0]
    return GivenClients(given)


def _missing(methods: str, client: str) -> str:
    return (
        f"{methods} need {'an' if client[0] == 'A' else 'a'} {client} and this saver has none: "
        "give it both clients, as ThreadkeepSaver(client, async_client), or make it with "
        "ThreadkeepSaver.from_url"
    )
