"""Responses items: easy messages, calls and outputs, and reasoning that keeps its follower."""

from dataclasses import replace
from typing import Any

import pytest

from app.core.context import assemble, assemble_given
from app.core.marker import marker_message, summary_message, wrapped_text
from app.core.model import Body, Context
from tests.unit.providers import count_output, faults_of
from tests.unit.strategies import (
    QUESTION,
    assistant,
    calling,
    codes,
    plain_thread,
    reading,
    result,
    summary,
    tool_results,
    tool_use,
    user,
    words,
)
from tests.unit.talks import recognised

REASONING: Body = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "gAAA",
}
ANSWER: Body = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "a", "annotations": []}],
}


def asked(question: str) -> Body:
    return {"role": "user", "content": [{"type": "input_text", "text": question}]}


def call(name: str, **more: object) -> Body:
    return {"type": "function_call", "call_id": name, "name": "find", "arguments": "{}", **more}


def output(name: str, said: object = "r") -> Body:
    return {"type": "function_call_output", "call_id": name, "output": said}


def load(bodies: list[Body], form: str = "responses", **options: Any) -> Context:
    context = assemble(recognised(bodies), reading(format=form, **options))
    assert faults_of(form, context.output) == []
    assert context.tokens.total == count_output(form, context.output, words)
    return context


def items(context: Context) -> list[Any]:
    messages = context.output["messages"]
    assert isinstance(messages, list)
    return messages


def test_order_and_system_items() -> None:
    """Summary and marker are system items, wrapped in their names, since items have none."""
    branch = replace(recognised(plain_thread(4), start=2), summary=summary(2), state="fresh")
    context = assemble(branch, reading(format="responses", message=QUESTION))

    told = wrapped_text(summary_message("They spoke of flights."))
    assert items(context) == [
        {"role": "system", "content": told},
        {"role": "user", "content": "msg 003"},
        {"role": "assistant", "content": "msg 004"},
        {"role": "system", "content": wrapped_text(marker_message())},
        {"role": "user", "content": "And now?"},
    ]
    assert context.tokens.total == count_output("responses", context.output, words)


def test_loaded_list_sent_back() -> None:
    """The summary is the summary again, the marker is left out, instructions stay pinned."""
    conversation: list[Body] = [
        {"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
        {"role": "system", "content": wrapped_text(summary_message("So far."))},
        asked("q1"),
        ANSWER,
        {"role": "system", "content": wrapped_text(marker_message())},
        asked("q2"),
    ]
    context = assemble_given(conversation, reading(format="responses"))
    openai = assemble_given(conversation, reading(marker=False))

    assert items(context) == [{"role": "system", "content": "Be brief."}, *conversation[1:]]
    assert items(openai)[:2] == [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
        summary_message("So far."),
    ]
    assert codes(context) == ["injected-left-out"]


def test_chat_messages_become_items() -> None:
    """Text, calls and outputs are items of their own, in the order they were said."""
    thread = [user("q"), calling(["c1"], "Looking."), result("c1", "r"), assistant("a")]

    assert items(load(thread)) == [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "Looking."},
        {"type": "function_call", "call_id": "c1", "name": "find", "arguments": '{"q": "x"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "r"},
        {"role": "assistant", "content": "a"},
    ]


def test_blocks_become_items() -> None:
    """Results of an Anthropic message come before its words; failures stay words."""
    mixed = user([*tool_results(["c1"])["content"], {"type": "text", "text": "and?"}])
    context = load([user("q"), tool_use(["c1"]), mixed])

    assert items(context)[-2:] == [
        {"type": "function_call_output", "call_id": "c1", "output": "found"},
        {"role": "user", "content": "and?"},
    ]


def test_custom_tools_keep_their_kind() -> None:
    """A custom tool's call and its output have types of their own; a later function's has not."""
    custom = {"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
    step: list[Body] = [
        {"role": "assistant", "content": None, "tool_calls": [custom]},
        result("c1", "1"),
    ]
    thread = [user("q"), *step, calling(["c1"]), result("c1", "r")]
    context = assemble(recognised(thread), reading(format="responses"))

    assert [item.get("type") for item in items(context)[1:]] == [
        "custom_tool_call",
        "custom_tool_call_output",
        "function_call",
        "function_call_output",
    ]
    assert items(context)[1]["input"] == "select 1"


def test_own_items_pass_untouched() -> None:
    """Ids, statuses, encrypted reasoning and items that came later are passed on as sent."""
    search: Body = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"q": "x"},
    }
    thread = [asked("q"), REASONING, call("c1", id="fc_1", status="completed"), output("c1")]
    thread += [search, ANSWER, user("plain"), {**asked("q2"), "type": "message"}]
    context = assemble(recognised(thread), reading(format="responses", marker=False))

    assert items(context) == thread
    assert codes(context) == []


def test_what_the_api_refuses_is_left_out() -> None:
    """Null members of a dump, a client's own members, and ids that are not the API's."""
    dumped = {**REASONING, "content": None, "status": None, "created_at": 1}
    own = {**asked("q"), "id": "m1", "created_at": 1, "metadata": {}}

    assert items(load([own, dumped, {**ANSWER, "phase": None}])) == [asked("q"), REASONING, ANSWER]


def test_reasoning_goes_with_its_follower() -> None:
    """Reasoning whose call was left out for want of a result is left out too, and named."""
    other = {**REASONING, "id": "rs_2"}
    context = load([asked("q"), REASONING, call("c1"), other, ANSWER])

    assert items(context) == [asked("q"), other, ANSWER]
    assert sorted(map(str, codes(context))) == ["call-without-result", "reasoning-left-out"]


def test_reasoning_of_other_dialects_is_named() -> None:
    """Thoughts cannot be proven elsewhere, so they are not carried over."""
    thinking = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    context = load([user("q"), assistant([thinking, {"type": "text", "text": "a"}])])

    assert items(context)[1] == {"role": "assistant", "content": "a"}
    assert [warning["what"] for warning in context.warnings] == [["reasoning"]]


@pytest.mark.parametrize("form", ["openai", "anthropic", "langchain"])
def test_parallel_items_are_one_chat_message(form: str) -> None:
    """Text and parallel calls are one message there, or the first call's result would be late."""
    step = [REASONING, ANSWER, call("c1"), call("c2"), output("c1"), output("c2")]
    context = load([asked("q"), *step, asked("q2")], form, marker=False)
    roles = [message.get("role") or message["type"] for message in items(context)]

    expected = {
        "openai": ["user", "assistant", "tool", "tool", "user"],
        "anthropic": ["user", "assistant", "user"],
        "langchain": ["human", "ai", "tool", "tool", "human"],
    }
    assert roles == expected[form]


@pytest.mark.parametrize("form", ["openai", "anthropic", "langchain", "responses"])
def test_outputs_follow_their_calls(form: str) -> None:
    """An output that came after other items is put right behind its call, where chat wants it."""
    step = [call("c1"), ANSWER, output("c1"), call("c2"), call("c3"), output("c3"), output("c2")]
    context = load([asked("q"), *step, ANSWER], form)

    assert codes(context) == []


def test_items_of_a_server_are_not_carried() -> None:
    """What OpenAI ran itself has no form elsewhere; the answer it led to has."""
    search: Body = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}}
    context = load([asked("q"), search, ANSWER], "openai")

    assert items(context) == [user("q"), assistant("a")]
    assert [warning["what"] for warning in context.warnings] == [["web_search_call"]]


@pytest.mark.parametrize(
    ("part", "written"),
    [
        (
            {"type": "image", "source": {"type": "url", "url": "https://e.org/1.png"}},
            {"type": "input_image", "detail": "auto", "image_url": "https://e.org/1.png"},
        ),
        (
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"},
                "title": "a.pdf",
            },
            {
                "type": "input_file",
                "file_data": "data:application/pdf;base64,AAAA",
                "filename": "a.pdf",
            },
        ),
        (
            {"type": "document", "source": {"type": "url", "url": "https://e.org/a.pdf"}},
            {"type": "input_file", "file_url": "https://e.org/a.pdf"},
        ),
        (
            {"type": "document", "source": {"type": "text", "data": "plain"}},
            {"type": "input_text", "text": "plain"},
        ),
        ({"type": "document", "source": {"type": "file", "file_id": "file_1"}}, "file"),
        ({"type": "image", "source": {"type": "file", "file_id": "file_1"}}, "image"),
        ({"type": "container_upload", "file_id": "file_1"}, "container_upload"),
    ],
)
def test_blocks_of_anthropic(part: Body, written: object) -> None:
    """Pictures and documents are translated; an id of another provider's file means nothing."""
    see = {"type": "text", "text": "see"}
    context = load([user([see, part])])
    (message,) = items(context)

    if isinstance(written, str):
        assert message["content"] == "see"
        assert [warning["what"] for warning in context.warnings] == [[written]]
    else:
        assert message["content"] == [{"type": "input_text", "text": "see"}, written]


@pytest.mark.parametrize(
    ("part", "written"),
    [
        (
            {"type": "file", "file": {"file_id": "file-1"}},
            {"type": "input_file", "file_id": "file-1"},
        ),
        (
            {"type": "file", "file": {"file_data": "AAAA", "filename": "a.pdf"}},
            {"type": "input_file", "file_data": "AAAA", "filename": "a.pdf"},
        ),
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}, None),
        ({"type": "video_url", "video_url": {"url": "https://e.org/1.mp4"}}, None),
    ],
)
def test_parts_of_chat(part: Body, written: Body | None) -> None:
    """Files of the same provider keep their ids and data."""
    context = load([user([{"type": "text", "text": "see"}, part]), calling(["c"]), result("c", "")])
    content = items(context)[0]["content"]

    assert content == ([{"type": "input_text", "text": "see"}, written] if written else "see")


def test_custom_items_in_chat() -> None:
    """A custom tool stays one in chat completions; a name has no place in items."""
    custom: Body = {"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "select"}
    answer: Body = {"type": "custom_tool_call_output", "call_id": "c1", "output": "1"}
    chat = load([asked("q"), custom, answer], "openai")
    named = load([{**user("q"), "name": "Ann"}])

    assert items(chat)[1]["tool_calls"] == [
        {"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "select"}}
    ]
    assert [warning["what"] for warning in named.warnings] == [["name"]]


def test_items_as_text() -> None:
    """The text format writes items as it writes chat; what a server ran is named in brackets."""
    picture = {"type": "input_image", "image_url": "https://e.org/1.png", "detail": "auto"}
    words_of = {"type": "input_text", "text": "q"}
    question: Body = {"role": "user", "content": [words_of, picture]}
    search: Body = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    thread = [question, REASONING, call("c1"), output("c1", [{"type": "input_text", "text": "r"}])]
    context = load([*thread, search, REASONING, ANSWER], "text")

    assert context.output["text"] == (
        "User: q\n[input_image]\n\nCall (c1): find {}\n\nTool (c1): r\n\n"
        "Assistant: [web_search_call]\n\nAssistant: a\n\n"
    )
    assert [warning["what"] for warning in context.warnings] == [["reasoning"]] * 2


def test_refusal_and_long_ids() -> None:
    """A refusal is carried as words; an id beyond 64 characters is mapped alike in both places."""
    thread = [user("q"), {**assistant(None), "refusal": "No."}]
    long = "x" * 65
    context = load([*thread, calling([long]), result(long, "r")])

    assert items(context)[1] == {"role": "assistant", "content": "No."}
    assert items(context)[2]["call_id"] == items(context)[3]["call_id"]
    assert len(items(context)[2]["call_id"]) == 64


def test_foreign_message_in_a_batch_of_items() -> None:
    """A chat message that slipped into a batch of items is written as items all the same."""
    mixed = [asked("q"), user([{"type": "text", "text": "q"}]), user(["bare"])]
    thread = [*mixed, {**calling(["c1"]), "content": "x"}, result("c1", "r")]
    context = load(thread, marker=False)

    assert items(context)[1:3] == [user("q"), user("bare")]
