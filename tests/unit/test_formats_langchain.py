"""LangChain messages: what `messages_to_dict` writes and `messages_from_dict` reads."""

import json
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_from_dict,
    messages_to_dict,
)

from app.core.context import assemble, assemble_given
from app.core.marker import marker_message, summary_message
from app.core.model import Body, Context
from tests.unit.providers import count_output, faults_of
from tests.unit.strategies import (
    QUESTION,
    assistant,
    calling,
    codes,
    count_openai,
    reading,
    result,
    tool_use,
    user,
    words,
)
from tests.unit.talks import recognised


def dumped(*messages: BaseMessage) -> list[Body]:
    bodies: list[Body] = json.loads(json.dumps(messages_to_dict(list(messages))))
    return bodies


def load(bodies: list[Body], form: str = "langchain", **options: Any) -> Context:
    context = assemble(recognised(bodies), reading(format=form, **options))
    assert faults_of(form, context.output) == []
    assert context.tokens.total == count_output(form, context.output, words)
    return context


def sent(context: Context) -> list[Any]:
    messages = context.output["messages"]
    assert isinstance(messages, list)
    return messages


def test_chat_messages_are_read_by_langchain() -> None:
    """Every role, call and result comes out as the message class that LangChain has for it."""
    call = [{"name": "find", "args": {"q": "x"}, "id": "c1", "type": "tool_call"}]
    thread = [user("q"), calling(["c1"], "Looking."), result("c1", "r"), assistant("a")]
    read = messages_from_dict(sent(load(thread, message=QUESTION)))

    assert read == [
        HumanMessage("q"),
        AIMessage("Looking.", tool_calls=call),
        ToolMessage("r", tool_call_id="c1"),
        AIMessage("a"),
        SystemMessage(str(marker_message()["content"]), name="threadkeep_marker"),
        HumanMessage("And now?"),
    ]


def test_loaded_list_sent_back() -> None:
    """Names tell what a load put in: the summary is the summary again, the marker is left out."""
    conversation = dumped(
        SystemMessage("Be brief."),
        SystemMessage("So far.", name="threadkeep_summary"),
        HumanMessage("q1"),
        AIMessage("a1"),
        SystemMessage("now", name="threadkeep_marker"),
        HumanMessage("q2"),
    )
    context = assemble_given(conversation, reading(marker=False))

    assert sent(context) == [
        {"role": "system", "content": "Be brief."},
        {**summary_message(""), "content": "So far."},
        user("q1"),
        assistant("a1"),
        user("q2"),
    ]


def test_own_messages_pass_untouched() -> None:
    """Metadata, ids, artifacts and repeated calls are LangChain's business."""
    extra = {"tool_calls": [{"id": "c1", "function": {"name": "find", "arguments": "{}"}}]}
    use = {"type": "tool_use", "id": "c1", "name": "find", "input": {}}
    thread = dumped(
        HumanMessage("q", id="h1", name="Ann"),
        AIMessage(
            [{"type": "text", "text": "Looking."}, use],
            tool_calls=[{"name": "find", "args": {}, "id": "c1", "type": "tool_call"}],
            additional_kwargs=extra,
            response_metadata={"model_name": "m"},
            id="run-1",
        ),
        ToolMessage("r", tool_call_id="c1", artifact={"rows": [1]}, name="find"),
    )
    context = assemble(recognised(thread), reading(format="langchain"))

    assert sent(context) == thread
    assert codes(context) == []
    # 3 for the reply, 3 a message, q, Ann and 1, Looking., find, {}, r, find and 1
    assert context.tokens.total == 3 + 3 * 3 + 1 + 2 + 1 + 1 + 1 + 1 + 2


def test_langchain_in_chat() -> None:
    """Arguments become JSON text; names stay with who has them."""
    thread = dumped(
        HumanMessage("q", name="Ann"),
        AIMessage("", tool_calls=[{"name": "find", "args": {"q": "x"}, "id": "c1"}]),
        ToolMessage("r", tool_call_id="c1", name="find"),
        AIMessage("a", name="my bot"),
    )
    context = load(thread, "openai")

    assert sent(context)[0] == {**user("q"), "name": "Ann"}
    assert sent(context)[2:] == [result("c1", "r"), assistant("a")]
    function = sent(context)[1]["tool_calls"][0]["function"]
    assert json.loads(function["arguments"]) == {"q": "x"}
    assert [warning["what"] for warning in context.warnings] == [["name"]]
    assert context.tokens.total == count_openai(sent(context), words)


@pytest.mark.parametrize(
    ("part", "written"),
    [
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "image", "base64": "AAAA", "mime_type": "image/png"},
        ),
        (
            {"type": "image_url", "image_url": {"url": "https://e.org/1.png"}},
            {"type": "image", "url": "https://e.org/1.png"},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
            {"type": "audio", "base64": "AAAA", "mime_type": "audio/mpeg"},
        ),
        (
            {"type": "file", "file": {"file_id": "file-1", "filename": "a.pdf"}},
            {"type": "file", "file_id": "file-1", "filename": "a.pdf"},
        ),
        ({"type": "novel_part"}, None),
        ({"type": "image_url", "image_url": {"detail": "low"}}, None),
    ],
)
def test_media_are_standard_blocks(part: Body, written: Body | None) -> None:
    """Pictures, sounds and files become LangChain's own blocks, file ids of anyone's included."""
    see = {"type": "text", "text": "see"}
    thread = [user([see, part]), calling(["c1"]), result("c1", "r")]
    context = assemble(recognised(thread), reading(format="langchain"))

    assert sent(context)[0]["data"]["content"] == ([see, written] if written else "see")
    assert messages_to_dict(messages_from_dict(sent(context))) == sent(context)


@pytest.mark.parametrize(
    ("block", "written"),
    [
        (
            {"type": "image", "base64": "AAAA", "mime_type": "image/png", "extras": {}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        ),
        (
            {"type": "image", "url": "https://e.org/1.png", "extras": {"detail": "low"}},
            {"type": "image_url", "image_url": {"url": "https://e.org/1.png", "detail": "low"}},
        ),
        (
            {"type": "audio", "base64": "AAAA", "mime_type": "audio/wav"},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        ),
        (
            {"type": "file", "base64": "AAAA", "mime_type": "application/pdf"},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA"}},
        ),
        ({"type": "file", "file_id": "file-1"}, {"type": "file", "file": {"file_id": "file-1"}}),
        ({"type": "file", "url": "https://e.org/a.pdf"}, None),
        ({"type": "video", "url": "https://e.org/1.mp4"}, None),
        ({"type": "audio", "base64": "AAAA", "mime_type": "audio/ogg"}, None),
        ({"type": "image", "base64": "AAAA"}, None),
    ],
)
def test_blocks_in_chat(block: Body, written: Body | None) -> None:
    """Standard blocks become chat parts where chat completions have one."""
    see = {"type": "text", "text": "see"}
    context = load(dumped(HumanMessage([see, block])), "openai")

    assert sent(context) == [user([see, written] if written else "see")]
    assert codes(context) == ([] if written else ["not-carried"])


def test_citations_are_named() -> None:
    """Text is carried; what it cites is not, and is named; a cache mark goes without a word."""
    cited = {"type": "text", "text": "a", "citations": [{"cited_text": "x"}]}
    marked = {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    context = load([user([marked]), assistant([thinking, cited])])

    assert sent(context)[0]["data"]["content"] == "b"
    assert [warning["what"] for warning in context.warnings] == [["citations", "reasoning"]]


def test_refusals_and_failures_have_their_place() -> None:
    """A refusal is a block of its own; a failed result says so."""
    failed = {"type": "tool_result", "tool_use_id": "c1", "content": "no", "is_error": True}
    context = load([user("q"), tool_use(["c1"]), user([failed])])
    refused = assemble(
        recognised([user("q"), {**assistant(None), "refusal": "No."}]), reading(format="langchain")
    )

    assert sent(context)[2]["data"]["status"] == "error"
    assert sent(refused)[1]["data"]["content"] == [{"type": "refusal", "refusal": "No."}]


def test_langchain_as_text() -> None:
    """The text format writes LangChain's messages as it writes chat, tools by their names."""
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    thread = dumped(
        HumanMessage([{"type": "text", "text": "q"}, {"type": "image", "url": "https://e.org/1"}]),
        AIMessage([thinking], tool_calls=[{"name": "find", "args": {}, "id": "c1"}]),
        ToolMessage("r", tool_call_id="c1", name="find"),
        AIMessage([thinking]),
        AIMessage("a", name="bot"),
    )
    context = load(thread, "text")

    assert context.output["text"] == (
        "User: q\n[image]\n\nCall (c1): find {}\n\nTool (find): r\n\nAssistant (bot): a\n\n"
    )
    assert [warning["what"] for warning in context.warnings] == [["reasoning"]] * 2


def test_thoughts_are_no_text() -> None:
    """Thinking blocks are left out of a text, and a message of nothing else with them."""
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    said = {"type": "text", "text": "a"}
    context = load([user("q"), assistant([thinking]), assistant([thinking, said])], "text")

    assert context.output["text"] == "User: q\n\nAssistant: a\n\n"
    assert [warning["what"] for warning in context.warnings] == [["reasoning"]] * 2


def test_arguments_that_only_look_wrapped() -> None:
    """Only an object of that one member is unwrapped."""
    args = {"threadkeep_arguments": "x", "more": 1}
    thread = dumped(
        HumanMessage("q"),
        AIMessage("", tool_calls=[{"name": "find", "args": args, "id": "c1"}]),
        ToolMessage("r", tool_call_id="c1"),
    )
    function = sent(load(thread, "openai"))[1]["tool_calls"][0]["function"]

    assert json.loads(function["arguments"]) == args


def test_refusal_in_chat() -> None:
    """A refusal block of another dialect is a refusal part."""
    block = {"type": "refusal", "refusal": "No."}
    context = load(dumped(HumanMessage("q"), AIMessage([block])), "openai")

    assert sent(context)[1] == assistant([block])
