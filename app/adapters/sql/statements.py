"""The hot statements as the driver gets them: a text per schema, parsed and kept once a connection.

Each is one round trip and names tenant ($1), thread ($2) and owner ($3, null: any) by parameter.
"""

from dataclasses import dataclass

_PARTS = {
    "{columns}": """
       c.checkpoint_id, c.parent_id, c.step, c.tokens, c.created_at, c.identity AS raw,
       c.checkpoint AS payload, c.metadata""",
    "{turns_of_thread}": "c.tenant_id = $1 AND c.thread_id = $2 AND c.ns = '~turns'",
    "{visible}": """EXISTS (
       SELECT FROM {schema}.threads t
        WHERE t.tenant_id = $1 AND t.thread_id = $2 AND ($3::text IS NULL OR t.owner_id = $3)
          AND t.deleted_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > $4))""",
}

_LOAD = "SELECT * FROM {schema}.load_recent_v2($1, $2, $3, $4, $5, $6, $7)"

_SAVE = """
SELECT * FROM {schema}.save_turn_v2($1, $2, $3, $4, $5, $6, $7, $8, $9, $10,
                                    $11, $12, $13, $14, $15, $16, $17, $18, $19)"""

_STAGE = """
SELECT * FROM {schema}.stage_writes_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"""

_DISCARD = "SELECT * FROM {schema}.discard_writes_v1($1, $2, $3, $4, $5)"

_LOCK = """
SELECT FROM {schema}.threads t
 WHERE t.tenant_id = $1 AND t.thread_id = $2 AND ($3::text IS NULL OR t.owner_id = $3) FOR UPDATE"""

_TURNS = """
SELECT {columns}
  FROM {schema}.checkpoints c
 WHERE {turns_of_thread} AND {visible}
   AND c.checkpoint_id >= lpad(($6::bigint + 1)::text, 10, '0') AND c.checkpoint_id <= $5
 ORDER BY c.checkpoint_id"""

_VALUES = """
SELECT b.channel, b.version, b.data
  FROM unnest($5::text[], $6::text[]) AS w(channel, version)
  JOIN {schema}.checkpoint_blobs b
    ON b.tenant_id = $1 AND b.thread_id = $2 AND b.ns = '~turns'
   AND b.channel = w.channel AND b.version = w.version
 WHERE {visible}"""

# Back over parents, as far as the page needs: a recursion runs only while rows are asked for.
_BACKWARDS = """
WITH RECURSIVE chain AS (
  SELECT c.* FROM {schema}.checkpoints c
   WHERE {turns_of_thread} AND c.checkpoint_id = $5 AND {visible}
   UNION ALL
  SELECT c.* FROM chain JOIN {schema}.checkpoints c
      ON {turns_of_thread} AND c.checkpoint_id = chain.parent_id)
SELECT {columns} FROM chain c LIMIT $6"""

# Forwards there is no link to follow: ids are collected back from the head, payloads for the page.
_FORWARDS = """
WITH RECURSIVE chain AS (
  SELECT c.checkpoint_id, c.parent_id FROM {schema}.checkpoints c
   WHERE {turns_of_thread} AND c.checkpoint_id = $5 AND {visible}
   UNION ALL
  SELECT c.checkpoint_id, c.parent_id FROM chain JOIN {schema}.checkpoints c
      ON {turns_of_thread} AND c.checkpoint_id = chain.parent_id
     AND c.checkpoint_id >= lpad(($6::bigint + 1)::text, 10, '0'))
SELECT {columns}
  FROM {schema}.checkpoints c
 WHERE {turns_of_thread}
   AND c.checkpoint_id IN (SELECT chain.checkpoint_id FROM chain
                            WHERE chain.checkpoint_id >= lpad(($6::bigint + 1)::text, 10, '0')
                            ORDER BY chain.checkpoint_id LIMIT $7)
 ORDER BY c.checkpoint_id"""


@dataclass(frozen=True, slots=True)
class Statements:
    """The texts for one schema."""

    load: str
    save: str
    stage: str
    discard: str
    lock: str
    turns: str
    values: str
    backwards: str
    forwards: str


def statements(schema: str) -> Statements:
    """Write the statements for a schema, given quoted."""
    texts = (_LOAD, _SAVE, _STAGE, _DISCARD, _LOCK, _TURNS, _VALUES, _BACKWARDS, _FORWARDS)
    return Statements(*(_written(text, schema) for text in texts))


def _written(text: str, schema: str) -> str:
    for name, part in _PARTS.items():
        text = text.replace(name, part)
    return text.replace("{schema}", schema)
