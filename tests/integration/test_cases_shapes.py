"""The shapes of a request as they went wrong elsewhere: replays, opaque strings, odd arrays."""

from collections.abc import Mapping

import pytest

from app.core.messages import calls_of, results_of
from tests.integration.cases import (
    Check,
    Run,
    history,
    is_injected,
    no_more,
    run_case,
    said,
    source_of,
    texts,
)
from tests.integration.conftest import MakeClient

pytestmark = pytest.mark.anyio


async def empty_array(run: Run) -> None:
    """An empty conversation is an empty history; the stored thread is neither sent nor touched."""
    assert run.loaded[0].json()["messages"] == []
    assert run.loaded[0].json()["shape"] == 3


async def history_string_empty(run: Run) -> None:
    """A blank string is no history: no message, no marker, no summary."""
    body = run.loaded[0].json()

    assert body["messages"] == []
    assert (body["summary"]["state"], body["tokens"]["marker"]) == ("none", 0)


async def history_string_is_opaque(run: Run) -> None:
    """The string is one block; no line of it becomes a message, and nothing is stored."""
    given = run.steps[0]["history_string"]
    block, marker, question = run.loaded[0].json()["messages"]

    assert (block["role"], block["content"]) == ("system", given["text"])
    assert marker["name"] == "threadkeep_marker"
    assert said(question) == {"role": "user", "content": given["message"]}
    assert (await run.client.get("/v1/threads")).json()["items"] == []


async def system_in_middle(run: Run) -> None:
    """One system message, first, with both instructions in order; the others keep their order."""
    messages = run.loaded[0].json()["messages"]
    own = [message for message in messages if not is_injected(message)]

    assert [message["role"] for message in own] == ["system", "user", "assistant", "user"]
    assert own[0]["content"] == "Be brief.\n\nAnswer in French."
    assert own[1:] == run.expected(["u1", "a1", "u2"])


async def thread_and_array_both(run: Run) -> None:
    """The array wins, and nothing of the thread is joined to it; only the head is the thread's."""
    assert history(run.loaded[0]) == run.expected(["u1", "a1", "u2"])
    assert run.loaded[0].json()["shape"] == 3
    assert run.loaded[0].json()["head"] == run.saved[0].json()["checkpoint_id"]


async def thread_id_types(run: Run) -> None:
    """A number is refused, and ids in answers are strings."""
    as_number = run.loaded[0]
    as_string = await run.load("653247040368672768")

    assert as_number.status_code == 422
    assert as_number.json()["errors"][0]["pointer"] == "#/thread_id"
    assert as_string.json()["thread_id"] == run.saved[0].json()["thread_id"] == "653247040368672768"
    assert texts(as_string) == ["x"]


async def tool_result_in_user_role(run: Run) -> None:
    """A result in role user begins no turn: the one turn is kept whole, over the window."""
    question, calling, *results, answer = history(run.loaded[0])

    assert [question, answer] == run.expected(["u1", "a2"])
    assert [call.id for call in calls_of(calling)] == ["c1", "c2"]
    assert [name for result in results for name in results_of(result)] == ["c1", "c2"]


CHECKS: Mapping[str, Check] = {
    "shapes-array-equal-to-tail": no_more,
    "shapes-array-identical-repeats": no_more,
    "shapes-array-windowed-resend": no_more,
    "shapes-empty-array": empty_array,
    "shapes-history-string-empty": history_string_empty,
    "shapes-history-string-is-opaque": history_string_is_opaque,
    "shapes-system-in-middle": system_in_middle,
    "shapes-thread-and-array-both": thread_and_array_both,
    "shapes-thread-id-types": thread_id_types,
    "shapes-tool-result-in-user-role": tool_result_in_user_role,
}
BY_HAND: list[str] = []


@pytest.mark.parametrize("name", CHECKS, ids=source_of)
async def test_case(name: str, make_client: MakeClient, tenant: str) -> None:
    """A case's steps are answered as it expects, and its properties hold."""
    await run_case(name, CHECKS[name], make_client, tenant)
