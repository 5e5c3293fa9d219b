"""ThreadkeepSaver: LangGraph's checkpoints in Threadkeep, over HTTP.

    async with ThreadkeepSaver.from_url("http://127.0.0.1:8080") as checkpointer:
        graph = builder.compile(checkpointer=checkpointer)
        await graph.ainvoke(question, {"configurable": {"thread_id": "t1"}})

Needs `langgraph-checkpoint` only: `pip install threadkeep-client[langgraph]`.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Self

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from threadkeep_client.aio import AsyncThreadkeep
from threadkeep_client.client import Threadkeep
from threadkeep_client.errors import CheckpointNotFound, ThreadNotFound
from threadkeep_client.langgraph_clients import OwnClients, SomeClient, clients_of
from threadkeep_client.langgraph_values import PickledValue
from threadkeep_client.langgraph_wire import (
    ROUTES,
    Body,
    forget_bodies,
    histories_from,
    listing,
    prune_bodies,
    put_body,
    put_writes_body,
    target,
    tuple_from,
)
from threadkeep_client.wire import segment

__all__ = ["PickledValue", "ThreadkeepSaver"]

# A 404 of anything else on the way (a proxy, an older service) must not read as an empty thread.
_NOTHING_STORED = (ThreadNotFound, CheckpointNotFound)


class ThreadkeepSaver(BaseCheckpointSaver[str]):
    """A checkpointer whose store is a Threadkeep service.

    The plain methods use a `Threadkeep`, the `a` methods an `AsyncThreadkeep`. Clients that were
    handed in stay the caller's; those made by `from_url` are closed with the saver. It may be
    shared by threads, tasks and event loops.
    """

    def __init__(self, *clients: SomeClient, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._clients = clients_of(clients)

    @classmethod
    def from_url(
        cls,
        base_url: str = "http://127.0.0.1:8080",
        *,
        api_key: str | None = None,
        owner: str | None = None,
        timeout: float = 10.0,
        serde: SerializerProtocol | None = None,
    ) -> Self:
        """Make a saver with clients of its own, which connect when they are first needed."""
        own = OwnClients(
            lambda: Threadkeep(base_url, api_key=api_key, owner=owner, timeout=timeout),
            lambda: AsyncThreadkeep(base_url, api_key=api_key, owner=owner, timeout=timeout),
        )
        return cls(own, serde=serde)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def close(self) -> None:
        """Close the connections that the plain methods opened."""
        self._clients.close()

    async def aclose(self) -> None:
        """Close the connections that the saver opened, here and in the plain methods."""
        await self._clients.aclose()

    def get_next_version(self, current: str | int | None, channel: None) -> str:  # noqa: ARG002
        """Return the version after this one: a counter of 32 digits, a dot, a random fraction.

        Versions of two branches differ, and compare as text as their counters do.
        Source: BasePostgresSaver.get_next_version, so that a thread may move here from there.
        """
        counter = int(str(current or 0).partition(".")[0])
        return f"{counter + 1:032}.{random.random():016}"  # noqa: S311 (tells apart, no secret)

    # --- without asyncio ---

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that the config names, else the latest; None without one."""
        try:
            found = self._post("get-tuple", {"config": target(config)})
        except _NOTHING_STORED:
            return None
        return tuple_from(found, self.serde)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name for it
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, newest first; a page is fetched when the one before is used up."""
        wanted = listing(config, filter=filter, before=before, limit=limit)
        while wanted.open:
            for item in wanted.take(self._post("list", wanted.body())):
                yield tuple_from(item, self.serde)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint on top of the one that the config names; return its own config."""
        body = put_body(config, checkpoint, metadata, new_versions, self.serde)
        return _config(self._post("put", body))

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store what a task wrote, before the next checkpoint holds it."""
        if writes:
            self._post(
                "put-writes", put_writes_body(config, writes, task_id, task_path, self.serde)
            )

    def delete_thread(self, thread_id: str) -> None:
        """Delete every checkpoint of a thread; its turns stay."""
        self._clients.plain().request("DELETE", _thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that these runs made, with their writes."""
        for body in forget_bodies(run_ids):
            self._post("delete-for-runs", body)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy every checkpoint of a thread to another one, with its writes and parents."""
        self._post("copy-thread", _copying(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep each namespace's latest checkpoint (and what it is rebuilt from), or nothing."""
        for body in prune_bodies(thread_ids, strategy):
            self._post("prune", body)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return what these channels are rebuilt from at a checkpoint, in one call."""
        if not channels:
            return {}
        try:
            found = self._post("delta-history", _rebuilding(config, channels))
        except _NOTHING_STORED:
            return _no_histories(channels)
        return histories_from(found, channels, self.serde)

    # --- with asyncio; values are encoded and decoded in a thread, for they may be large ---

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that the config names, else the latest; None without one."""
        try:
            found = await self._apost("get-tuple", {"config": target(config)})
        except _NOTHING_STORED:
            return None
        return await asyncio.to_thread(tuple_from, found, self.serde)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name for it
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, newest first; a page is fetched when the one before is used up."""
        wanted = listing(config, filter=filter, before=before, limit=limit)
        while wanted.open:
            for item in wanted.take(await self._apost("list", wanted.body())):
                yield await asyncio.to_thread(tuple_from, item, self.serde)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint on top of the one that the config names; return its own config."""
        body = await asyncio.to_thread(
            put_body, config, checkpoint, metadata, new_versions, self.serde
        )
        return _config(await self._apost("put", body))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store what a task wrote, before the next checkpoint holds it."""
        if writes:
            body = await asyncio.to_thread(
                put_writes_body, config, writes, task_id, task_path, self.serde
            )
            await self._apost("put-writes", body)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete every checkpoint of a thread; its turns stay."""
        await self._clients.aio().request("DELETE", _thread(thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that these runs made, with their writes."""
        for body in forget_bodies(run_ids):
            await self._apost("delete-for-runs", body)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy every checkpoint of a thread to another one, with its writes and parents."""
        await self._apost("copy-thread", _copying(source_thread_id, target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep each namespace's latest checkpoint (and what it is rebuilt from), or nothing."""
        for body in prune_bodies(thread_ids, strategy):
            await self._apost("prune", body)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return what these channels are rebuilt from at a checkpoint, in one call."""
        if not channels:
            return {}
        try:
            found = await self._apost("delta-history", _rebuilding(config, channels))
        except _NOTHING_STORED:
            return _no_histories(channels)
        return await asyncio.to_thread(histories_from, found, channels, self.serde)

    def _post(self, route: str, body: Body) -> Any:
        return self._clients.plain().request("POST", f"{ROUTES}/{route}", json=body)

    async def _apost(self, route: str, body: Body) -> Any:
        return await self._clients.aio().request("POST", f"{ROUTES}/{route}", json=body)


def _config(answer: Mapping[str, Any]) -> RunnableConfig:
    config: RunnableConfig = answer["config"]
    return config


def _thread(thread_id: str) -> str:
    return f"{ROUTES}/threads/{segment(str(thread_id))}"


def _copying(source: str, copy: str) -> Body:
    return {"source": str(source), "target": str(copy)}


def _rebuilding(config: RunnableConfig, channels: Sequence[str]) -> Body:
    return {"config": target(config), "channels": [*channels]}


def _no_histories(channels: Sequence[str]) -> dict[str, DeltaChannelHistory]:
    return {channel: {"writes": []} for channel in channels}
