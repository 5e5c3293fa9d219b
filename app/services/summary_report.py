"""Building a thread's summaries while the caller waits, and saying where they stand."""

import asyncio
from dataclasses import dataclass

from app.core.errors import ThreadNotFound
from app.core.model import Registry, Summary, SummaryState, ThreadKey
from app.core.ports import ThreadIndex
from app.core.window import summary_state
from app.services.ports import HistoryPorts
from app.services.summary import Builder, build_due

_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class SummaryReport:
    """Where a thread's summary stands. summary: the newest; built: made by this very call."""

    state: SummaryState
    summary: Summary | None
    built: int = 0


async def build_summary(
    key: ThreadKey, *, ports: HistoryPorts, index: ThreadIndex, builder: Builder
) -> SummaryReport:
    """Build what is due now; where another is at it, wait for that one.

    Errors: ThreadNotFound, StoreUnavailable. A useless model is none: the state then says so.
    """
    registry = await _registry(index, key)
    deadline = builder.clock() + builder.lease_seconds
    built = await build_due(key, builder)
    while built.busy and builder.clock() < deadline:
        # The lease may be another process's: nothing here tells when it is given back.
        await asyncio.sleep(_POLL_SECONDS)
        built = await build_due(key, builder)
    registry = await _registry(index, key)
    return SummaryReport(
        state=summary_state(ports.grid, registry),
        summary=await _newest(key, registry, ports),
        built=len(built.summaries),
    )


async def _registry(index: ThreadIndex, key: ThreadKey) -> Registry:
    registry = await index.get(key)
    if registry is None:
        raise ThreadNotFound
    return registry


async def _newest(key: ThreadKey, registry: Registry, ports: HistoryPorts) -> Summary | None:
    pointer = max(registry.summaries, key=lambda pointer: pointer.position, default=None)
    if pointer is None:
        return None
    return await ports.read_summary(key, pointer, registry, built=True)
