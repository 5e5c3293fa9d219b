"""Requests and answers of `/v1/checkpoints` for what LangGraph asks of a saver: no I/O in here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_id,
    get_serializable_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from threadkeep_client.langgraph_values import divide, dump, load, load_blobs, plain

ROUTES: Final = "/v1/checkpoints"
PAGE_SIZE: Final = 20
"""Checkpoints fetched at a time; each comes with its values."""
BATCH: Final = 1000
"""Ids in one request; the service takes no more."""
PRUNE_STRATEGIES: Final = ("keep_latest", "delete")

Body = dict[str, object]


def target(config: RunnableConfig) -> Body:
    """Return the thread, namespace and (if given) checkpoint that a config names."""
    configurable = config["configurable"]
    named: dict[str, object] = {
        "thread_id": str(configurable["thread_id"]),
        "checkpoint_ns": configurable.get("checkpoint_ns") or "",
    }
    if checkpoint_id := get_checkpoint_id(config):
        named["checkpoint_id"] = checkpoint_id
    return {"configurable": named}


def put_body(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
    serde: SerializerProtocol,
) -> Body:
    """Return the body of a put. Errors: PickledValue.

    A fork may stand beside the checkpoint it was copied from instead of below it, so it brings all
    of its values: by its ancestors alone they could not be told from another branch's.
    """
    versions = checkpoint["channel_versions"]
    new = versions if metadata.get("source") == "fork" else new_versions
    stored = {channel: version for channel, version in versions.items() if channel in new}
    values = divide(checkpoint["channel_values"], stored, serde)
    return {
        "config": target(config),
        "checkpoint": {**checkpoint, "channel_values": values.inline},
        "blobs": [
            {"channel": channel, "version": stored[channel], **typed}
            for channel, typed in values.blobs.items()
        ],
        "metadata": plain(get_serializable_checkpoint_metadata(config, metadata)),
        "new_versions": new_versions,
    }


def put_writes_body(
    config: RunnableConfig,
    writes: Sequence[tuple[str, Any]],
    task_id: str,
    task_path: str,
    serde: SerializerProtocol,
) -> Body:
    """Return the body of a put-writes. Errors: PickledValue.

    A write's index is its place in the list, but fixed and negative for the special channels; only
    a call of nothing but special ones overwrites.   Source: langgraph.checkpoint.base.
    """
    return {
        "config": target(config),
        "task_id": task_id,
        "task_path": task_path,
        "writes": [
            {
                "channel": channel,
                "idx": WRITES_IDX_MAP.get(channel, index),
                **dump(serde, channel, value),
            }
            for index, (channel, value) in enumerate(writes)
        ],
        "all_special": all(channel in WRITES_IDX_MAP for channel, _ in writes),
    }


def tuple_from(wire: Mapping[str, Any], serde: SerializerProtocol) -> CheckpointTuple:
    """Return a checkpoint with its values and pending writes, as stored."""
    checkpoint: Checkpoint = wire["checkpoint"]
    versions = checkpoint["channel_versions"]
    inline = {
        name: value for name, value in checkpoint["channel_values"].items() if name in versions
    }
    return CheckpointTuple(
        config=wire["config"],
        checkpoint={
            **checkpoint,
            "channel_values": {**inline, **load_blobs(serde, wire["blobs"])},
        },
        metadata=wire["metadata"],
        parent_config=wire["parent_config"],
        pending_writes=_writes(wire["pending_writes"], serde),
    )


def histories_from(
    wire: Mapping[str, Any], channels: Sequence[str], serde: SerializerProtocol
) -> dict[str, DeltaChannelHistory]:
    """Return what each delta channel is rebuilt from: its writes, oldest first, and its seed."""
    histories: dict[str, DeltaChannelHistory] = {}
    for channel in channels:
        found = wire["channels"][channel]
        histories[channel] = {"writes": _writes(found["writes"], serde)}
        if found["found"]:
            histories[channel]["seed"] = load(serde, found["seed"])
    return histories


def batches(given: Sequence[str], name: str) -> list[list[str]]:
    """Return ids as text, as many at a time as the service takes; none for none.

    Errors: TypeError for one text, which is a sequence of letters.
    """
    if isinstance(given, str):
        raise TypeError(f"{name} must be a sequence of ids, not one text")
    every = [str(one) for one in given]
    return [every[first : first + BATCH] for first in range(0, len(every), BATCH)]


def forget_bodies(run_ids: Sequence[str]) -> list[Body]:
    """Return the bodies that delete what these runs made. Errors: TypeError."""
    return [{"run_ids": batch} for batch in batches(run_ids, "run_ids")]


def prune_bodies(thread_ids: Sequence[str], strategy: str) -> list[Body]:
    """Return the bodies of a prune. Errors: TypeError, ValueError for an unknown strategy."""
    if strategy not in PRUNE_STRATEGIES:
        raise ValueError(f"Unknown prune strategy {strategy!r}: 'keep_latest' or 'delete'")
    return [
        {"thread_ids": batch, "strategy": strategy} for batch in batches(thread_ids, "thread_ids")
    ]


@dataclass(slots=True)
class Listing:
    """Where a list of checkpoints stands: what to ask next, and when to stop asking."""

    criteria: Body
    remaining: int | None
    cursor: str | None = None
    ended: bool = False

    @property
    def open(self) -> bool:
        """Whether there may be more, and more is wanted."""
        return not self.ended and (self.remaining is None or self.remaining > 0)

    def body(self) -> Body:
        """Return the request for the next page, no longer than what is still wanted."""
        wanted = PAGE_SIZE if self.remaining is None else min(self.remaining, PAGE_SIZE)
        paging: Body = {"limit": wanted}
        if self.cursor is not None:
            paging["cursor"] = self.cursor
        return {**self.criteria, **paging}

    def take(self, page: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Return the checkpoints of a page, and move on behind it."""
        items: Sequence[Mapping[str, Any]] = page["items"]
        self.cursor, self.ended = page["next_cursor"], not page["has_more"]
        if self.remaining is not None:
            self.remaining -= len(items)
        return items


def listing(
    config: RunnableConfig | None,
    *,
    filter: Mapping[str, Any] | None,  # noqa: A002 - LangGraph's name for it
    before: RunnableConfig | None,
    limit: int | None,
) -> Listing:
    """Return the list that LangGraph asks for, at its beginning.

    Without a namespace in the config all of them are listed; without a config, all threads.
    """
    criteria: Body = {}
    if config is not None:
        criteria["config"] = _searched(config)
    if filter:
        criteria["filter"] = plain(filter)
    if before is not None and (checkpoint_id := get_checkpoint_id(before)):
        criteria["before"] = checkpoint_id
    return Listing(criteria, limit)


def _searched(config: RunnableConfig) -> Body:
    named = target(config)
    if config["configurable"].get("checkpoint_ns") is None and isinstance(
        configurable := named["configurable"], dict
    ):
        del configurable["checkpoint_ns"]
    return named


def _writes(wire: Sequence[Mapping[str, Any]], serde: SerializerProtocol) -> list[PendingWrite]:
    return [(write["task_id"], write["channel"], load(serde, write)) for write in wire]
