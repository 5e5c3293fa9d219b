"""Anthropic messages: system blocks, alternating turns, ids and arguments that the API takes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from app.core.context import assemble, assemble_given, assemble_text
from app.core.marker import marker_message, summary_message, unwrap, wrapped_text
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

MARKER = {"type": "text", "text": wrapped_text(marker_message())}


def text(words_of: str) -> Body:
    return {"type": "text", "text": words_of}


def load(bodies: list[Body], **options: Any) -> Context:
    context = assemble(recognised(bodies), reading(format="anthropic", **options))
    assert faults_of("anthropic", context.output) == []
    assert context.tokens.total == count_output("anthropic", context.output, words)
    return context


def turns(context: Context) -> list[tuple[str, Any]]:
    return [(str(message["role"]), message["content"]) for message in messages_of(context)]


def messages_of(context: Context) -> list[Body]:
    messages = context.output["messages"]
    assert isinstance(messages, list)
    return messages


def warned(context: Context, code: str) -> list[Mapping[str, object]]:
    return [warning for warning in context.warnings if warning["code"] == code]


def test_nothing_is_two_empty_lists() -> None:
    """An empty thread has no system and no messages."""
    assert load([]).output == {"system": [], "messages": []}


def test_marker_is_a_part_before_the_final_question() -> None:
    """The marker stands in the last user message, before its own words, as a part of its own."""
    context = load([user("q1"), assistant("a1")], message=QUESTION)

    assert turns(context) == [
        ("user", [text("q1")]),
        ("assistant", [text("a1")]),
        ("user", [MARKER, text("And now?")]),
    ]


def test_system_is_pinned_then_summary() -> None:
    """The caller's instructions come first, the summary is a block of its own, both cacheable."""
    block = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    conversation: list[Body] = [
        {"role": "system", "content": [block]},
        summary_message("So far."),
        *plain_thread(3),
    ]
    context = assemble_given(conversation, reading(format="anthropic"))

    assert context.output["system"] == [block, text(wrapped_text(summary_message("So far.")))]
    assert context.tokens.total == count_output("anthropic", context.output, words)


def test_summary_alone_is_system() -> None:
    """A stored thread's summary is the only system block."""
    branch = replace(recognised(plain_thread(6), start=2), summary=summary(2), state="fresh")
    context = assemble(branch, reading(format="anthropic"))

    assert context.output["system"] == [
        text(wrapped_text(summary_message("They spoke of flights.")))
    ]
    assert context.tokens.summary > 0


def test_history_text_is_the_users() -> None:
    """A pre-built history is quoted in a user's message: it has no say of its own."""
    context = assemble_text("User: a\nAssistant: b", reading(format="anthropic", message=QUESTION))
    ((role, parts),) = turns(context)

    assert (role, parts[1:]) == ("user", [MARKER, text("And now?")])
    assert unwrap(parts[0]["text"]) == {
        "role": "system",
        "name": "threadkeep_history",
        "content": "User: a\nAssistant: b",
    }


def test_loaded_list_sent_back() -> None:
    """A loaded list as a conversation: the marker is taken out of the message it stands in."""
    context = load([user("q1"), assistant("a1")], message=QUESTION)
    again = assemble_given(
        [*messages_of(context), assistant("a")], reading(format="anthropic", marker=False)
    )

    assert again.output["messages"] == [
        {"role": "user", "content": [text("q1")]},
        {"role": "assistant", "content": [text("a1")]},
        {"role": "user", "content": [text("And now?")]},
        {"role": "assistant", "content": [text("a")]},
    ]
    assert [warning["name"] for warning in again.warnings] == ["threadkeep_marker"]


def test_marker_alone_is_no_message() -> None:
    """A user's message that holds nothing but the marker is nobody's."""
    again = assemble_given([user([MARKER]), user("q")], reading())

    assert again.coverage.total == 1


def test_neighbours_of_one_role_are_merged() -> None:
    """Two questions in a row are one turn of two parts; so are two answers."""
    thread = [user("q1"), user("q2"), assistant("a1"), assistant("a2")]

    assert turns(load(thread, marker=False)) == [
        ("user", [text("q1"), text("q2")]),
        ("assistant", [text("a1"), text("a2")]),
    ]


def test_results_come_first_and_together() -> None:
    """Results of parallel calls are one message, before the words that followed them."""
    steps = [calling(["c1", "c2"], "Looking."), result("c1", "r1"), result("c2", "r2")]
    context = load([user("q"), *steps, user("q2")], marker=False)

    assert turns(context)[1:] == [
        (
            "assistant",
            [
                text("Looking."),
                {"type": "tool_use", "id": "c1", "name": "find", "input": {"q": "x"}},
                {"type": "tool_use", "id": "c2", "name": "find", "input": {"q": "x"}},
            ],
        ),
        (
            "user",
            [
                {"type": "tool_result", "tool_use_id": "c1", "content": "r1"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "r2"},
                text("q2"),
            ],
        ),
    ]


def test_stored_results_behind_words_are_put_first() -> None:
    """A message stored in this dialect is put in the API's order; its parts stay as they are."""
    answer = {"type": "tool_result", "tool_use_id": "c1", "content": [text("r1"), text(" ")]}
    context = load([user("q"), tool_use(["c1"]), user([text("go on"), answer])], marker=False)

    assert turns(context)[2] == ("user", [{**answer, "content": [text("r1")]}, text("go on")])


def test_opening_of_the_assistant_is_left_out() -> None:
    """The first message is the user's: a greeting before it is left out, and named."""
    context = load([assistant("Hello!"), user("q"), assistant("a"), user("q2")])

    assert [role for role, _ in turns(context)] == ["user", "assistant", "user"]
    assert warned(context, "opening-left-out")[0]["position"] == 1
    assert (context.coverage.window, context.coverage.total) == (4, 4)


def test_opening_takes_its_results_along() -> None:
    """Results that answer a call of the opening go with it; the user's words beside them stay."""
    answer = [*tool_results(["c1"])["content"], text("and?")]
    context = load([tool_use(["c1"]), user(answer), assistant("a")])

    assert turns(context) == [("user", [text("and?")]), ("assistant", "a")]
    assert codes(context) == ["opening-left-out"]


def test_no_marker_where_only_the_opening_stood() -> None:
    """What was left out is nothing to be marked off."""
    context = load([assistant("Hello!"), user("q")])

    assert turns(context) == [("user", [text("q")])]
    assert context.tokens.marker == 0


def test_thread_of_an_opening_alone() -> None:
    """Nothing of the user's, nothing to send."""
    assert turns(load([assistant("Hello!")])) == []


def test_ids_that_the_api_refuses_are_mapped_alike() -> None:
    """A call and its result get the same id, always the same one."""
    thread = [user("q"), calling(["search:0"]), result("search:0", "r")]
    first, second = load(thread), load(thread)
    use, answer = turns(first)[1][1][0], turns(first)[2][1][0]

    assert use["id"] == answer["tool_use_id"]
    assert use["id"].startswith("search_0_")
    assert first.output == second.output


def test_ids_that_are_used_again_become_unique() -> None:
    """The second use of an id, within or across messages, gets a name of its own, results too."""
    step = [calling(["c1", "c1"]), result("c1", "r1"), result("c1", "r2")]
    context = load([user("q"), *step, user("q2"), *step], marker=False)
    named = [
        part.get("id") or part.get("tool_use_id")
        for _, parts in turns(context)
        for part in parts
        if part["type"] != "text"
    ]

    assert named == ["c1", "c1_2", "c1", "c1_2", "c1_3", "c1_4", "c1_3", "c1_4"]


def test_ids_in_other_blocks_are_left_alone() -> None:
    """Renaming touches calls and results only."""
    odd = {"type": "novel", "id": ["c1"]}
    use = tool_use(["c1"])["content"][1]
    thread: list[Body] = [user("q"), tool_use(["c1"]), tool_results(["c1"])]
    thread += [assistant([odd, use]), tool_results(["c1"])]
    messages = messages_of(assemble(recognised(thread), reading(format="anthropic")))

    assert messages[3]["content"] == [odd, {**use, "id": "c1_2"}]


@pytest.mark.parametrize(
    ("arguments", "written", "wrapped"),
    [
        ("", {}, False),
        ('{"a": 1.5}', {"a": 1.5}, False),
        ('{"broken', {"threadkeep_arguments": '{"broken'}, True),
        ("[1]", {"threadkeep_arguments": "[1]"}, True),
        ('{"a": NaN}', {"threadkeep_arguments": '{"a": NaN}'}, True),
        ('{"a": 1e999}', {"threadkeep_arguments": '{"a": 1e999}'}, True),
        (f'{{"a": {10**30}}}', {"threadkeep_arguments": f'{{"a": {10**30}}}'}, True),
        ('{"a": "\\ud800"}', {"threadkeep_arguments": '{"a": "\\ud800"}'}, True),
        ('{"a":' * 70 + "1" + "}" * 70, None, True),
        ('{"a":' * 9999 + "1" + "}" * 9999, None, True),
    ],
)
def test_arguments_are_an_object(arguments: str, written: Body | None, wrapped: bool) -> None:
    """What is no JSON object, or could not be written again, is wrapped in one and named."""
    call = calling(["c1"])
    call["tool_calls"][0]["function"]["arguments"] = arguments
    context = load([user("q"), call, result("c1", "r")])
    sent = turns(context)[1][1][0]["input"]

    assert sent == (written if written is not None else {"threadkeep_arguments": arguments})
    assert [w["tool_call_ids"] for w in warned(context, "arguments-wrapped")] == [["c1"]] * wrapped


def test_custom_tool_is_wrapped() -> None:
    """A custom tool's text is no object either."""
    custom = {"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
    call: Body = {"role": "assistant", "content": None, "tool_calls": [custom]}
    context = load([user("q"), call, result("c1", "1")])

    assert turns(context)[1][1][0]["input"] == {"threadkeep_arguments": "select 1"}


def test_own_blocks_pass_untouched() -> None:
    """Thinking with its signature, cache marks and blocks that came later are passed on as sent."""
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "AAAA"},
        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
        {"type": "novel_block", "value": {"n": 1}},
    ]
    branch = recognised(
        [user("q"), {**assistant(content), "id": "msg_1", "stop_reason": "end_turn"}]
    )
    context = assemble(branch, reading(format="anthropic"))

    assert turns(context)[1] == ("assistant", content)
    assert codes(context) == []


@pytest.mark.parametrize(
    ("part", "written"),
    [
        (
            {"type": "image_url", "image_url": {"url": "https://e.org/1.png"}},
            {"type": "image", "source": {"type": "url", "url": "https://e.org/1.png"}},
        ),
        (
            {"type": "image_url", "image_url": {"url": "data:image/webp;base64,AAAA"}},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/webp", "data": "AAAA"},
            },
        ),
        (
            {
                "type": "file",
                "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"},
            },
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"},
                "title": "a.pdf",
            },
        ),
        ({"type": "image_url", "image_url": {"url": "data:image/bmp;base64,AAAA"}}, "image"),
        ({"type": "file", "file": {"file_id": "file-1"}}, "file"),
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}, "audio"),
        ({"type": "novel_part"}, "novel_part"),
    ],
)
def test_media_of_other_dialects(part: Body, written: object) -> None:
    """Pictures and documents are translated; what has no form is left out and named."""
    body = {**user([text("see"), part]), "tool_calls": []}
    branch = recognised([body, assistant("a")])
    messages = [replace(message, dialect="openai") for message in branch.messages]
    context = assemble(replace(branch, messages=messages), reading(format="anthropic"))
    lost = [warning["what"] for warning in warned(context, "not-carried")]

    if isinstance(written, str):
        assert (turns(context)[0][1], lost) == ([text("see")], [[written]])
    else:
        assert (turns(context)[0][1], lost) == ([text("see"), written], [])


def test_documents_of_langchain() -> None:
    """A plain text is a document; a file id of anyone's may be one of Anthropic's."""
    blocks = [
        {"type": "text-plain", "text": "plain words"},
        {"type": "file", "file_id": "file_1"},
    ]
    thread: list[Body] = [{"type": "human", "data": {"content": blocks}}]
    ((_, parts),) = turns(load(thread))

    assert parts == [
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "plain words"},
        },
        {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
    ]


def test_foreign_message_in_a_batch_of_blocks() -> None:
    """A chat message that slipped into a batch of blocks is written as blocks all the same."""
    thread = [user("q"), calling(["c1"]), result("c1", "r")]
    branch = recognised([*thread, tool_use(["c2"]), tool_results(["c2"], [text("r")])])
    messages = [replace(message, dialect="anthropic") for message in branch.messages]
    context = assemble(replace(branch, messages=messages), reading(format="anthropic"))

    assert faults_of("anthropic", context.output) == []
    assert [role for role, _ in turns(context)] == ["user", "assistant"] * 2 + ["user"]


def test_blank_instructions_are_no_block() -> None:
    """A blank part among the caller's instructions is left out."""
    conversation: list[Body] = [
        {"role": "system", "content": [text(" "), text("Be brief.")]},
        {"role": "system", "content": [text(wrapped_text(marker_message())), text("In French.")]},
    ]
    context = assemble_given(conversation, reading(format="anthropic"))

    assert context.output["system"] == [text("Be brief."), text("In French.")]


def test_message_of_which_nothing_is_carried() -> None:
    """It is named, counts in coverage, and is sent as nothing."""
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}
    context = load([user("q"), assistant("a"), user([sound])])

    assert turns(context) == [("user", [text("q")]), ("assistant", [text("a")])]
    assert codes(context) == ["not-carried"]
    assert context.tokens.marker == 0


def test_what_stands_beside_a_message_is_named() -> None:
    """Reasoning and names of other dialects have no place; a result's picture and failure have."""
    picture = {"type": "image_url", "image_url": {"url": "https://e.org/1.png"}}
    call = {**calling(["c1"]), "reasoning_content": "hm"}
    failed = {**result("c1", [text("see"), picture]), "status": "error"}
    context = load([{**user("q"), "name": "Ann"}, call, failed])

    assert [warning["what"] for warning in context.warnings] == [["name"], ["reasoning"]]
    assert turns(context)[2][1] == [
        {
            "type": "tool_result",
            "tool_use_id": "c1",
            "content": [
                text("see"),
                {"type": "image", "source": {"type": "url", "url": "https://e.org/1.png"}},
            ],
            "is_error": True,
        }
    ]
