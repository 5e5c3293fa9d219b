"""Loads as they went wrong elsewhere: order, window, pairs, and what must not be sent."""

from collections.abc import Mapping

import httpx
import pytest

from tests.integration.callers import QUESTION, bearer
from tests.integration.cases import (
    Check,
    Run,
    Sent,
    history,
    numbered,
    playing,
    run_case,
    source_of,
    texts,
)
from tests.integration.conftest import MakeClient, StartService

pytestmark = pytest.mark.anyio


async def client_times_are_kept(run: Run) -> None:
    """Arrival rules the order; the clients' own times are kept as data."""
    times = [message["created_at"][11:] for message in await run.raw()]

    assert times == ["11:00:00Z", "10:00:01Z", "10:00:05Z", "10:00:06Z"]


async def empty_assistant_message(run: Run) -> None:
    """Nothing empty is sent, the rest is in order, and the raw still has the empty reply."""
    assert history(run.loaded[0]) == run.expected(["u1", "u2", "a2"])
    assert [message["content"] for message in await run.raw()] == ["q", "", "q2", "r2"]
    assert coverage(run)["window"] == 4
    assert "empty-message" in {w["code"] for w in run.loaded[0].json()["warnings"]}


async def marker_once(run: Run) -> None:
    """One marker, right before the last question; two loads are the same bytes."""
    first, second = run.loaded
    names = [message.get("name") for message in first.json()["messages"]]

    assert names == [None, None, "threadkeep_marker", None, None]
    assert first.content == second.content
    assert first.json()["messages"][3]["content"] == "q2"


async def newest_not_oldest(run: Run) -> None:
    """Exactly m141..m200, ascending, and coverage that adds up to 200.

    Until the background build is through, the window may reach back to the summary before.
    """
    await run.build_summary()
    settled = await run.load(window=60)

    assert texts(run.loaded[0])[-60:] == texts(settled) == numbered(range(141, 201))
    for response in run.loaded:
        found = response.json()["coverage"]
        assert found["summarized"] + found["window"] + found["trimmed"] == 200
        assert found["window"] == len(texts(response))
    assert (coverage(run)["summarized"], coverage(run)["from_position"]) == (140, 141)


async def null_content_with_calls(run: Run) -> None:
    """Null comes back as null, and an empty result is kept."""
    messages = history(run.loaded[0])

    assert messages[1]["content"] is None
    assert (messages[2]["role"], messages[2]["content"]) == ("tool", "")


async def orphan_tool_at_window_start(run: Run) -> None:
    """No result without its call, and a user message first, whatever the window."""
    for response in run.loaded:
        roles = [message["role"] for message in history(response)]
        assert roles == ["user", "assistant"]


async def partial_parallel_results(run: Run) -> None:
    """The call without a result is left out; its siblings keep theirs, before the next question."""
    _, calling, one, three, question = history(run.loaded[0])

    assert [call["id"] for call in calling["tool_calls"]] == ["c1", "c3"]
    assert [(m["tool_call_id"], m["content"]) for m in (one, three)] == [("c1", "x"), ("c3", "z")]
    assert question["content"] == "go on"
    assert len((await run.raw())[1]["tool_calls"]) == 3


async def same_order_after_a_restart(run: Run) -> None:
    """Every load gives the same order, after a restart too."""
    await run.start()
    again = await run.load()

    assert {response.content for response in run.loaded} == {again.content}


async def starts_with_user(run: Run) -> None:
    """The window begins with a question, ends with the newest, and 60 is a hard cap."""
    await run.build_summary()
    by_strides = await run.load(window=60)
    by_twos = await run.load(window=60, stride=2)

    for response in (by_strides, by_twos):
        messages = history(response)
        assert messages[0]["role"] == "user"
        assert messages[-1]["content"] == "msg 075"
        assert len(messages) <= 60
        assert response.json()["summary"]["state"] == "fresh"
    assert texts(by_twos) == numbered(range(17, 76))
    assert texts(by_strides) == numbered(range(21, 76))


async def tool_id_reused(run: Run) -> None:
    """Each result follows the call it answers, though the ids are the same."""
    assert [message["content"] for message in history(run.loaded[0])][2::2] == ["x", "y"]


async def unknown_thread(run: Run) -> None:
    """An empty history, and no thread comes to be by being looked at."""
    body = run.loaded[0].json()

    assert (body["messages"], body["head"]) == ([], None)
    assert (await run.client.get("/v1/threads")).json()["items"] == []


async def window_exact_and_zero(run: Run) -> None:
    """A window is exact; none and less than none are refused, and so is one without bounds."""
    four, none, negative, huge = run.loaded

    assert texts(four) == numbered(range(7, 11))
    assert [none.status_code, negative.status_code, huge.status_code] == [422] * 3


CHECKS: Mapping[str, Check] = {
    "load-client-clock-skew": client_times_are_kept,
    "load-empty-assistant-message": empty_assistant_message,
    "load-marker-once": marker_once,
    "load-newest-not-oldest": newest_not_oldest,
    "load-null-content-with-calls": null_content_with_calls,
    "load-orphan-tool-at-window-start": orphan_tool_at_window_start,
    "load-partial-parallel-results": partial_parallel_results,
    "load-same-timestamp-order": same_order_after_a_restart,
    "load-starts-with-user": starts_with_user,
    "load-tool-id-reused-across-turns": tool_id_reused,
    "load-unknown-thread": unknown_thread,
    "load-window-exact-and-zero": window_exact_and_zero,
}
BY_HAND = ["load-read-your-writes"]


def coverage(run: Run) -> Sent:
    """The coverage of the last load."""
    found: Sent = run.loaded[-1].json()["coverage"]
    return found


@pytest.mark.parametrize("name", CHECKS, ids=source_of)
async def test_case(name: str, make_client: MakeClient, tenant: str) -> None:
    """A case's steps are answered as it expects, and its properties hold."""
    await run_case(name, CHECKS[name], make_client, tenant)


async def test_read_your_writes(
    make_client: MakeClient, start_service: StartService, tenant: str
) -> None:
    """A load right after a save shows it, also where another process did the save.

    Source: langchain-ai/langgraph#4985 (load-read-your-writes).
    """
    async with playing("load-read-your-writes", make_client, tenant) as run:
        await run.play()
        await run.check_data()
        with start_service(THREADKEEP_API_KEYS=run.keys) as other:
            elsewhere = httpx.AsyncClient(base_url=other.url, headers=bearer("key"))
            async with elsewhere:
                body = {"thread_id": "t1"}
                seen = await elsewhere.post("/v1/context", json=body)
                await run.save({"thread": "t1", "key": "k3", "messages": [QUESTION]})
                then = await elsewhere.post("/v1/context", json=body)

        assert history(seen) == history(run.loaded[-1])
        assert history(then) == [*history(seen), QUESTION]
