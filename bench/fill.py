"""Threads of any length, copied in as the service would have written them turn by turn."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import asyncpg
import quicktok

from app.adapters.sql import rows
from app.adapters.sql.engine import driver_dsn
from app.core.digest import checkpoint_suffix
from app.core.ingest import parse_batch
from app.core.markup import make_profile, strip_message
from app.core.model import NewTurn, ThreadKey
from app.core.saving import Costing, SaveRequest, plan_anchored
from app.core.tokens import message_tokens, rules_id
from bench.texts import Message, Writer

SCHEMA = "threadkeep"
TENANT = "default"
IMAGE_TOKENS = 1_000
_PLACE = "@thread@"
_NOTHING = r"\N"
_THREADS = (
    "tenant_id thread_id owner_id head position turns tokens bytes created_at updated_at"
    " summary_epoch"
)
_TURNS = (
    "tenant_id thread_id ns checkpoint_id parent_id identity digest step tokens created_at"
    " checkpoint"
)


@dataclass(frozen=True, slots=True)
class Template:
    """A thread's rows with a place for its id. Units: text_bytes, of the messages' own text."""

    turns: bytes
    registry: bytes
    messages: int
    text_bytes: int


def costing() -> Costing:
    """Return how the service counts what it stores, by its defaults."""
    profile = make_profile()
    count = quicktok.get_encoding("o200k_base").count
    return Costing(
        rules=rules_id(profile.version, IMAGE_TOKENS),
        strip=partial(strip_message, profile=profile),
        cost=partial(message_tokens, count=count, image_tokens=IMAGE_TOKENS),
    )


def template(messages: int, writer: Writer) -> Template:
    """Write a thread of so many messages, a turn being a question and its answer."""
    key, costs = ThreadKey(TENANT, _PLACE), costing()
    now = datetime.now(UTC).isoformat()
    lines: list[str] = []
    parent, tokens, size, text_bytes = _NOTHING, 0, 0, 0
    for step in range(messages // 2):
        said = writer.turn()
        turn = _planned(key, said, step, costs)
        payload = rows.encode_turn(turn)
        tokens += sum(message.tokens for message in turn.messages)
        head = f"{2 * (step + 1):010d}-{checkpoint_suffix(turn.identity)}"
        lines.append(
            _line(
                *(TENANT, _PLACE, "~turns", head, parent, _hex(turn.identity), _hex(turn.digest)),
                *(step, tokens, now, payload.decode().replace("\\", "\\\\")),
            )
        )
        parent, size = head, size + len(payload)
        text_bytes += sum(len(str(message["content"]).encode()) for message in said)
    registry = _line(TENANT, _PLACE, "", parent, messages, messages // 2, tokens, size, now, now, 1)
    return Template("".join(lines).encode(), registry.encode(), messages, text_bytes)


def _planned(key: ThreadKey, said: list[Message], step: int, costs: Costing) -> NewTurn:
    request = SaveRequest(key, parse_batch(said, "#/messages"), key=f"turn-{step}")
    turn = plan_anchored(request, costs).turn
    if turn is None:
        raise ValueError("a turn without messages")
    return turn


def _line(*values: object) -> str:
    return "\t".join(str(value) for value in values) + "\n"


def _hex(data: bytes) -> str:
    return r"\\x" + data.hex()


async def fill(database_url: str, threads: Sequence[tuple[str, Template]]) -> None:
    """Copy threads in, each under its id, and let the planner know of them."""
    connection = await asyncpg.connect(driver_dsn(database_url))

    async def written(part: str) -> AsyncIterator[bytes]:
        for thread_id, made in threads:
            yield getattr(made, part).replace(_PLACE.encode(), thread_id.encode())

    try:
        for table, part, columns in (
            ("threads", "registry", _THREADS),
            ("checkpoints", "turns", _TURNS),
        ):
            await connection.copy_to_table(
                table, schema_name=SCHEMA, columns=columns.split(), source=written(part)
            )
            await connection.execute(f"VACUUM ANALYZE {SCHEMA}.{table}")
    finally:
        await connection.close()
