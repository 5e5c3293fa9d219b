"""ThreadIndex on a real PostgreSQL: one row, lists of threads, and raw messages page by page."""

import base64
from dataclasses import replace
from datetime import timedelta

import pytest

from app.adapters.sql.engine import Database
from app.adapters.sql.history import SqlHistoryStore
from app.adapters.sql.threads import SqlThreadIndex
from app.core.errors import InvalidPayload
from app.core.model import ThreadKey
from tests.factories import NOW, clock_at, new_turn, saved_turns
from tests.servers import in_schema

pytestmark = pytest.mark.anyio


async def listed(
    index: SqlThreadIndex, tenant: str, owner: str | None, limit: int
) -> list[list[str]]:
    pages: list[list[str]] = []
    cursor = None
    while True:
        items, cursor = await index.page(tenant, owner, limit=limit, cursor=cursor)
        pages.append([item.thread_id for item in items])
        if cursor is None:
            return pages


async def paged(
    index: SqlThreadIndex, key: ThreadKey, limit: int, *, newest_first: bool
) -> list[list[int]]:
    pages: list[list[int]] = []
    cursor = None
    while True:
        page = await index.messages(key, newest_first=newest_first, limit=limit, cursor=cursor)
        assert page is not None
        pages.append([message.position for message in page[0]])
        cursor = page[1]
        if cursor is None:
            return pages


async def test_one_thread_is_read_by_its_owner_alone(
    history_store: SqlHistoryStore, thread_index: SqlThreadIndex, tenant: str
) -> None:
    """The row is there for its owner and for an admin, for nobody else."""
    key = ThreadKey(tenant, "t1", "ann")
    assert await thread_index.get(key) is None
    await saved_turns(history_store, key, 2)

    found = await thread_index.get(key)

    assert found is not None
    assert (found.position, found.turns, found.tokens, found.summaries) == (4, 2, 20, ())
    assert await thread_index.get(replace(key, owner_id=None)) == found
    for stranger in (replace(key, owner_id="bob"), replace(key, tenant_id="x")):
        assert await thread_index.get(stranger) is None


async def test_threads_are_listed_newest_first(
    database: Database, thread_index: SqlThreadIndex, tenant: str
) -> None:
    """By creation, ties by id, in pages that neither skip nor repeat."""
    names = ["a", "b", "c", "d", "é/ü"]
    for number, name in enumerate(names):
        store = SqlHistoryStore(database, now=clock_at(NOW + timedelta(hours=number // 2)))
        await saved_turns(store, ThreadKey(tenant, name, "bob" if name == "b" else "ann"), 1)

    assert await listed(thread_index, tenant, None, 5) == [["é/ü", "d", "c", "b", "a"]]
    assert await listed(thread_index, tenant, None, 2) == [["é/ü", "d"], ["c", "b"], ["a"]]
    assert await listed(thread_index, tenant, "ann", 2) == [["é/ü", "d"], ["c", "a"]]
    assert await listed(thread_index, tenant, "", 2) == [[]]
    assert await listed(thread_index, f"{tenant}-2", None, 2) == [[]]


async def test_what_is_gone_is_not_listed(
    database: Database, history_store: SqlHistoryStore, thread_index: SqlThreadIndex, tenant: str
) -> None:
    """Neither tombstones nor expired threads show up."""
    for name, change in (("a", "deleted_at"), ("b", "expires_at"), ("c", "updated_at")):
        await saved_turns(history_store, ThreadKey(tenant, name), 1)
        sql = "UPDATE S.threads SET COLUMN = now() WHERE tenant_id = $1 AND thread_id = $2"
        await database.fetch(in_schema(sql.replace("COLUMN", change)), tenant, name)

    assert await listed(thread_index, tenant, None, 10) == [["c"]]
    assert await thread_index.get(ThreadKey(tenant, "a")) is None


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("limit", [1, 2, 3, 5, 8, 100])
async def test_messages_come_in_whole_pages(
    history_store: SqlHistoryStore,
    thread_index: SqlThreadIndex,
    key: ThreadKey,
    limit: int,
    newest_first: bool,
) -> None:
    """Every message of the current branch once, in order, in full pages, siblings left out."""
    first = await history_store.append(key, new_turn("1", "2"))
    await history_store.append(key, new_turn(*"xxxxx", expected=first.head))
    second = await history_store.append(
        key, new_turn("3", "4", "5", expected=first.head, on_conflict="branch")
    )
    await history_store.append(key, new_turn("6", expected=second.head))
    last = await history_store.append(
        key, new_turn("y", expected=second.head, on_conflict="branch")
    )
    await history_store.append(key, new_turn("7", expected=last.head))

    pages = await paged(thread_index, key, limit, newest_first=newest_first)

    order = [7, 6, 5, 4, 3, 2, 1] if newest_first else [1, 2, 3, 4, 5, 6, 7]
    assert pages == [order[start : start + limit] for start in range(0, 7, limit)]


async def test_a_page_goes_on_where_it_was_begun(
    history_store: SqlHistoryStore, thread_index: SqlThreadIndex, key: ThreadKey
) -> None:
    """A branch made between two pages does not mix into the list."""
    saved = await saved_turns(history_store, key, 3)
    page = await thread_index.messages(key, newest_first=False, limit=4, cursor=None)
    assert page is not None
    await history_store.append(key, new_turn("x", expected=saved[0].head, on_conflict="branch"))

    rest = await thread_index.messages(key, newest_first=False, limit=4, cursor=page[1])

    assert rest is not None
    assert [message.body["content"] for message in rest[0]] == ["question 2", "answer 2"]


async def test_messages_of_an_unknown_thread_are_none(
    history_store: SqlHistoryStore, thread_index: SqlThreadIndex, key: ThreadKey
) -> None:
    """Unknown is not empty, with a cursor too."""
    await saved_turns(history_store, key, 2)
    page = await thread_index.messages(key, newest_first=True, limit=1, cursor=None)
    assert page is not None
    stranger = replace(key, owner_id="bob")

    for cursor in (None, page[1]):
        for newest_first in (True, False):
            assert (
                await thread_index.messages(
                    stranger, newest_first=newest_first, limit=1, cursor=cursor
                )
                is None
            )


@pytest.mark.parametrize("content", ["", "x", "!!", "é", "{}", '["a"]', "[1, 2]", '["\\u0000", 1]'])
async def test_a_cursor_of_something_else_is_refused(
    history_store: SqlHistoryStore, thread_index: SqlThreadIndex, key: ThreadKey, content: str
) -> None:
    """A cursor that this list has not given is the caller's error, never a failure."""
    await saved_turns(history_store, key, 1)
    cursor = base64.urlsafe_b64encode(content.encode()).decode()

    for bad in (content or "=", cursor):
        with pytest.raises(InvalidPayload):
            await thread_index.page(key.tenant_id, None, limit=1, cursor=bad)
        with pytest.raises(InvalidPayload):
            await thread_index.messages(key, newest_first=True, limit=1, cursor=bad)
