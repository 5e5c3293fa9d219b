"""The statements about graph checkpoints: functions, and lists composed of what is asked.

Each is one round trip. $1 is the tenant; the planner proves the partial indexes by the condition on
`ns`, which therefore stands in every list as it stands in the indexes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from app.adapters.sql import rows
from app.adapters.sql.tables import GRAPH_SPACES
from app.core.graphs import GraphQuery

PAGE_BYTES = 16 * 1024 * 1024
"""A page of a list ends with the checkpoint that reaches this, so an answer stays sendable."""

READ = "SELECT * FROM {schema}.read_graph_v1($1, $2, $3, $4, $5, $6)"
PUT = """
SELECT * FROM {schema}.put_graph_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)"""
PUT_WRITES = """
SELECT * FROM {schema}.put_graph_writes_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"""
BLOB = "SELECT * FROM {schema}.read_graph_blob_v1($1, $2, $3, $4, $5, $6, $7, $8)"
FORGET = "SELECT {schema}.forget_graph_thread_v1($1, $2, $3, $4)"
FORGET_RUNS = "SELECT {schema}.forget_graph_runs_v1($1, $2, $3, $4)"
COPY = "SELECT * FROM {schema}.copy_graph_v1($1, $2, $3, $4, $5)"
PRUNE = "SELECT {schema}.prune_graphs_v1($1, $2, $3, $4, $5)"
DELTA = "SELECT * FROM {schema}.delta_history_v1($1, $2, $3, $4, $5, $6, $7)"

_PAGE = """
WITH page AS MATERIALIZED (
  SELECT c.thread_id, c.ns, c.checkpoint_id
    FROM {schema}.checkpoints c{threads}
   WHERE c.tenant_id = $1 AND ({spaces}){conditions}
   ORDER BY c.checkpoint_id DESC, c.thread_id DESC, c.ns DESC LIMIT $4::integer + 1),
keys AS (
  SELECT count(*)::integer AS found, array_agg(p.thread_id ORDER BY {newest}) AS threads,
         array_agg(p.ns ORDER BY {newest}) AS spaces,
         array_agg(p.checkpoint_id ORDER BY {newest}) AS ids
    FROM page p)
SELECT k.found, {held} AS held, t.*
  FROM keys k
  LEFT JOIN LATERAL {schema}.graph_tuples_v1($1, k.threads, k.spaces, k.ids, $4, $5) AS t ON true"""
_OF_THREADS = """
    JOIN {schema}.threads t ON t.tenant_id = $1 AND t.thread_id = c.thread_id AND {visible}"""
_OF_ONE = """ AND c.thread_id = {thread} AND {seen}"""
_HELD = """
  EXISTS (SELECT FROM {schema}.checkpoints b
           WHERE b.tenant_id = $1 AND b.thread_id = {thread} AND ({b_spaces}){of_space}
             AND b.checkpoint_id = {before} AND {seen})"""
_SEEN = """EXISTS (
         SELECT FROM {schema}.threads t
          WHERE t.tenant_id = $1 AND t.thread_id = {thread} AND {visible})"""
_VISIBLE = """($2::text IS NULL OR t.owner_id = $2) AND t.deleted_at IS NULL
          AND (t.expires_at IS NULL OR t.expires_at > $3)"""


@dataclass(frozen=True, slots=True)
class Listing:
    """A list's statement and its parameters from the sixth on."""

    sql: str
    arguments: tuple[object, ...]


def listing(query: GraphQuery, after: tuple[str, str, str] | None) -> Listing:
    """Compose the statement of a list.

    Shape: $1 tenant, $2 owner, $3 now, $4 limit, $5 PAGE_BYTES.
    after: the (checkpoint id, thread, namespace) that the page before ended with.
    """
    given = _Given()
    thread = "" if query.thread_id is None else given.by(query.thread_id)
    space = "" if query.ns is None else given.by(query.ns)
    before = "" if query.before is None else given.by(query.before)
    conditions = [
        _OF_ONE if thread else "",
        f" AND c.ns = {space}" if space else "",
        f" AND c.checkpoint_id < {before}" if before else "",
        *_narrowed(query, after, given),
    ]
    parts = {
        "{threads}": "" if thread else _OF_THREADS,
        "{conditions}": "".join(conditions),
        "{held}": _HELD if thread and before else "true",
        "{newest}": "p.checkpoint_id DESC, p.thread_id DESC, p.ns DESC",
        "{seen}": _SEEN,
        "{visible}": _VISIBLE,
        "{of_space}": f" AND b.ns = {space}" if space else "",
        "{spaces}": GRAPH_SPACES.replace("ns ", "c.ns "),
        "{b_spaces}": GRAPH_SPACES.replace("ns ", "b.ns "),
        "{thread}": thread,
        "{before}": before,
    }
    sql = _PAGE
    for name, part in parts.items():
        sql = sql.replace(name, part)
    return Listing(sql, tuple(given.arguments))


class _Given:
    """The parameters of a statement as it is composed."""

    def __init__(self) -> None:
        self.arguments: list[object] = []

    def by(self, value: object) -> str:
        """Return the name of a parameter with this value."""
        self.arguments.append(value)
        return f"${5 + len(self.arguments)}"


def _narrowed(
    query: GraphQuery, after: tuple[str, str, str] | None, given: _Given
) -> Iterator[str]:
    if query.checkpoint_id is not None:
        yield f" AND c.checkpoint_id = {given.by(query.checkpoint_id)}"
    if query.filter:
        yield f" AND c.metadata @> {given.by(rows.encode(query.filter))}::jsonb"
    if after is not None:
        place = ", ".join(f"{given.by(name)}::text" for name in after)
        yield f" AND (c.checkpoint_id, c.thread_id, c.ns) < ({place})"
        # Said once more, since only a plain comparison bounds the range of an index.
        yield f" AND c.checkpoint_id <= {given.by(after[0])}"
