"""Requests of the checkpoint routes to what the store takes; every flaw is named by its place."""

import binascii
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from app.api.auth import Principal
from app.api.graphs_schemas import (
    ConfigIn,
    DeltaHistoryIn,
    ForgetRunsIn,
    ListIn,
    PruneIn,
    PutIn,
    PutWritesIn,
    TargetIn,
    TypedIn,
    unwrapped,
)
from app.api.paths import check_name, check_thread_id
from app.api.validation import validate
from app.core.errors import Flaw, InvalidPayload
from app.core.graphs import (
    EMPTY,
    MAX_NAME_BYTES,
    MAX_NS_BYTES,
    MAX_VERSION_BYTES,
    SPECIAL_INDEX,
    GraphBlob,
    GraphQuery,
    GraphWrite,
    NewGraph,
    NewGraphWrites,
    Typed,
    each_index_once,
    holds_nul,
    new_blob,
    write_index,
)
from app.core.model import ThreadKey

_CONFIGURABLE = "#/config/configurable"
_Model = TypeVar("_Model", bound=TargetIn)


@dataclass(frozen=True, slots=True)
class Target:
    """The checkpoint that a config names. None: the latest."""

    key: ThreadKey
    ns: str
    checkpoint_id: str | None


def parse_target(
    principal: Principal, model: type[_Model], body: Mapping[str, object]
) -> tuple[Target, _Model]:
    """Read a request about one checkpoint. Errors: InvalidPayload."""
    wanted = validate(model, unwrapped(body))
    named = wanted.config.configurable
    key = principal.key_of(check_thread_id(named.thread_id, f"{_CONFIGURABLE}/thread_id"))
    return Target(key, _ns(wanted.ns, wanted.config) or "", _checkpoint_id(wanted.config)), wanted


def parse_list(principal: Principal, body: Mapping[str, object]) -> GraphQuery:
    """Read what to list. Errors: InvalidPayload."""
    wanted = validate(ListIn, unwrapped(body))
    config = wanted.config
    thread_id = None if config is None else config.configurable.thread_id
    if thread_id is not None:
        check_thread_id(thread_id, f"{_CONFIGURABLE}/thread_id")
    if holds_nul(wanted.filter):
        raise _flawed("#/filter", "must not hold NUL characters")
    return GraphQuery(
        tenant_id=principal.tenant_id,
        owner_id=principal.thread_owner(),
        thread_id=thread_id,
        ns=_ns(wanted.ns, config),
        checkpoint_id=None if config is None else _checkpoint_id(config),
        before=_before(wanted.before),
        filter=wanted.filter,
        limit=wanted.limit,
        cursor=wanted.cursor,
    )


def parse_put(principal: Principal, body: Mapping[str, object]) -> NewGraph:
    """Read a checkpoint to be stored. Errors: InvalidPayload."""
    target, wanted = parse_target(principal, PutIn, body)
    for name in ("checkpoint", "metadata", "new_versions"):
        if holds_nul(getattr(wanted, name)):
            raise _flawed(f"#/{name}", "must not hold NUL characters; send such a value as a blob")
    checkpoint_id = _checked(wanted.checkpoint)
    if checkpoint_id == target.checkpoint_id:
        raise _flawed("#/checkpoint/id", "must not be its own parent")
    blobs = _blobs(wanted)
    return NewGraph(
        thread=target.key,
        ns=target.ns,
        checkpoint_id=checkpoint_id,
        parent_id=target.checkpoint_id,
        placing=wanted.parent or wanted.on_conflict,
        checkpoint=wanted.checkpoint,
        new_channels=tuple({*wanted.new_versions, *(blob.channel for blob in wanted.blobs)}),
        blobs=blobs,
        metadata=wanted.metadata,
    )


def parse_put_writes(principal: Principal, body: Mapping[str, object]) -> NewGraphWrites:
    """Read writes to be stored. Errors: InvalidPayload."""
    target, wanted = parse_target(principal, PutWritesIn, body)
    if target.checkpoint_id is None:
        raise _flawed(f"{_CONFIGURABLE}/checkpoint_id", "must name the checkpoint written on")
    task_id = short_name(wanted.task_id, "#/task_id")
    if holds_nul(wanted.task_path):
        raise _flawed("#/task_path", "must not hold NUL characters")
    special = all(write.channel in SPECIAL_INDEX for write in wanted.writes)
    overwrite = special if wanted.all_special is None else wanted.all_special
    writes = (
        GraphWrite(
            task_id=task_id,
            task_path=wanted.task_path,
            idx=write_index(write.channel, place) if write.idx is None else write.idx,
            channel=short_name(write.channel, f"#/writes/{place}/channel"),
            value=_typed(write, f"#/writes/{place}"),
        )
        for place, write in enumerate(wanted.writes)
    )
    return NewGraphWrites(
        thread=target.key,
        ns=target.ns,
        checkpoint_id=target.checkpoint_id,
        writes=each_index_once(writes, overwrite=overwrite),
        overwrite=overwrite,
    )


def parse_channels(
    principal: Principal, body: Mapping[str, object]
) -> tuple[Target, tuple[str, ...]]:
    """Read which channels are rebuilt where. Errors: InvalidPayload."""
    target, wanted = parse_target(principal, DeltaHistoryIn, body)
    for place, channel in enumerate(wanted.channels):
        short_name(channel, f"#/channels/{place}")
    return target, tuple(dict.fromkeys(wanted.channels))


def parse_runs(body: Mapping[str, object]) -> list[str]:
    """Read the ids of runs. Errors: InvalidPayload."""
    wanted = validate(ForgetRunsIn, body)
    return [check_name(run, f"#/run_ids/{place}") for place, run in enumerate(wanted.run_ids)]


def parse_prune(body: Mapping[str, object]) -> tuple[list[str], bool]:
    """Read which threads to prune, and whether nothing is to stay. Errors: InvalidPayload."""
    wanted = validate(PruneIn, body)
    threads = [
        check_thread_id(thread_id, f"#/thread_ids/{place}")
        for place, thread_id in enumerate(wanted.thread_ids)
    ]
    return threads, wanted.strategy == "delete"


def short_name(name: str, pointer: str, most: int = MAX_NAME_BYTES) -> str:
    """Return a name that fits into the key of an index. Errors: InvalidPayload."""
    check_name(name, pointer)
    if len(name.encode()) > most:
        raise _flawed(pointer, f"must have at most {most} bytes of UTF-8")
    return name


def checked_ns(ns: str, pointer: str) -> str:
    """Return a namespace of LangGraph's. Errors: InvalidPayload, for those of turns too."""
    if ns:
        if ns.startswith("~"):
            raise _flawed(pointer, "must not begin with ~: such namespaces are not LangGraph's")
        if len(ns.encode()) > MAX_NS_BYTES:
            raise _flawed(pointer, f"must have at most {MAX_NS_BYTES} bytes of UTF-8")
        if holds_nul(ns):
            raise _flawed(pointer, "must not hold NUL characters")
    return ns


def _ns(beside: str | None, config: ConfigIn | None) -> str | None:
    inside = None if config is None else config.configurable.checkpoint_ns
    if beside is not None and inside is not None and beside != inside:
        raise _flawed("#/ns", "must equal the config's checkpoint_ns, if both are sent")
    if beside is not None:
        return checked_ns(beside, "#/ns")
    return None if inside is None else checked_ns(inside, f"{_CONFIGURABLE}/checkpoint_ns")


def _checkpoint_id(config: ConfigIn, pointer: str = _CONFIGURABLE) -> str | None:
    """Return the id; an empty one is none, as LangGraph has it."""
    given = config.configurable.checkpoint_id
    return short_name(given, f"{pointer}/checkpoint_id") if given else None


def _before(given: object) -> str | None:
    """Return the id; a config that names none is refused, for everything would be listed."""
    if isinstance(given, dict):
        inner = given.get("configurable", given)
        given = inner.get("checkpoint_id", inner) if isinstance(inner, dict) else inner
    if given is not None and not isinstance(given, str):
        raise _flawed("#/before", "must be a checkpoint's id, or a config that names one")
    return None if given is None else short_name(given, "#/before")


def _checked(checkpoint: Mapping[str, object]) -> str:
    """Return the checkpoint's id. Errors: InvalidPayload."""
    given = checkpoint.get("id")
    if not isinstance(given, str):
        raise _flawed("#/checkpoint/id", "must be a string")
    if not isinstance(checkpoint.get("channel_values"), dict):
        raise _flawed("#/checkpoint/channel_values", "must be an object")
    versions = _versions(checkpoint)
    if any(isinstance(v, bool) or not isinstance(v, str | int | float) for v in versions.values()):
        raise _flawed("#/checkpoint/channel_versions", "must hold strings or numbers")
    return short_name(given, "#/checkpoint/id")


def _versions(checkpoint: Mapping[str, object]) -> Mapping[str, str | float]:
    versions = checkpoint.get("channel_versions")
    if not isinstance(versions, dict):
        raise _flawed("#/checkpoint/channel_versions", "must be an object")
    return versions


def _blobs(wanted: PutIn) -> tuple[GraphBlob, ...]:
    """Return the values; one of type `empty` says that its channel holds none."""
    versions = _versions(wanted.checkpoint)
    blobs: dict[str, GraphBlob] = {}
    for place, blob in enumerate(wanted.blobs):
        pointer = f"#/blobs/{place}"
        channel = short_name(blob.channel, f"{pointer}/channel")
        if channel in blobs:
            raise _flawed(f"{pointer}/channel", "must not be sent twice")
        version = versions.get(channel)
        if version is None or version != blob.version or isinstance(blob.version, bool):
            raise _flawed(
                f"{pointer}/version", "must be the channel's in #/checkpoint/channel_versions"
            )
        if isinstance(version, str):
            short_name(version, f"{pointer}/version", MAX_VERSION_BYTES)
        blobs[channel] = new_blob(channel, version, _typed(blob, pointer))
    return tuple(blob for blob in blobs.values() if blob.value.type != EMPTY)


def _typed(given: TypedIn, pointer: str) -> Typed:
    """Return the bytes. Errors: InvalidPayload, for a pickle too: reading one back runs code."""
    if given.type.lower().startswith("pickle"):
        raise _flawed(f"{pointer}/type", "must not be a pickle: reading one back runs code")
    check_name(given.type, f"{pointer}/type")
    try:
        return Typed(given.type, b64decode(given.data or "", validate=True))
    except (binascii.Error, ValueError):
        raise _flawed(f"{pointer}/data", "must be base64") from None


def _flawed(pointer: str, detail: str) -> InvalidPayload:
    return InvalidPayload([Flaw(pointer, detail)])
