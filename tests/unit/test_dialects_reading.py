"""Every dialect is read as one neutral form, and the accessors say the same without it."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.dialects.neutral import (
    Call,
    Media,
    Other,
    Reasoning,
    Refusal,
    Result,
    Segment,
    Text,
)
from app.core.dialects.reading import read_message
from app.core.dialects.recognise import recognise
from app.core.dialects.roles import ROLES
from app.core.errors import InvalidPayload
from app.core.ingest import parse_message
from app.core.messages import (
    begins_exchange,
    calls_of,
    is_empty,
    parts_of,
    results_of,
    role_of,
    text_of,
)
from app.core.model import Body
from app.core.plain import plain_message
from app.core.tokens import message_tokens
from tests.unit.dialects import ARGUMENTS, DIALECTS, LANGCHAIN, PNG, langchain
from tests.unit.strategies import words


def segments(body: Body) -> tuple[Segment, ...]:
    return read_message(body).segments


def only(body: Body) -> Segment:
    (segment,) = segments(body)
    return segment


def part(**members: object) -> Segment:
    return only({"role": "user", "content": [members]})


def item(kind: str, **members: object) -> Body:
    return {"type": kind, **members}


@pytest.mark.parametrize("name", DIALECTS)
def test_one_conversation_reads_the_same(name: str) -> None:
    """What is asked, thought, called, found and answered is the same in every dialect."""
    read = [segment for body in DIALECTS[name] for segment in segments(body)]
    asked, picture, thought, call, result, answer = read

    assert isinstance(asked, Text)
    assert asked.text == "Where is this?"
    assert isinstance(picture, Media)
    assert (picture.kind, picture.data, picture.media_type) == ("image", PNG, "image/png")
    assert picture.url is None
    assert isinstance(thought, Reasoning)
    assert thought.text == "Looks like Peru."
    assert isinstance(call, Call)
    assert (call.id, call.name, call.arguments) == ("call_1", "weather", ARGUMENTS)
    assert not call.custom
    assert isinstance(result, Result)
    assert result.call_id == "call_1"
    assert [segment.text for segment in result.segments if isinstance(segment, Text)] == [
        "18 degrees"
    ]
    assert isinstance(answer, Text)
    assert answer.text == "Lima, 18 degrees."


@pytest.mark.parametrize("name", DIALECTS)
def test_accessors_understand_every_dialect(name: str) -> None:
    """Roles, calls, results, texts and exchanges are told without being told the dialect."""
    bodies = DIALECTS[name]
    asked, *_, answer = bodies

    assert [begins_exchange(body) for body in bodies] == [True] + [False] * (len(bodies) - 1)
    assert role_of(asked) == "user"
    assert role_of(answer) == "assistant"
    assert text_of(asked) == "Where is this?"
    assert text_of(answer) == "Lima, 18 degrees."
    assert [(call.id, call.name) for body in bodies for call in calls_of(body)] == [
        ("call_1", "weather")
    ]
    assert [call_id for body in bodies for call_id in results_of(body)] == ["call_1"]
    assert not any(is_empty(body) for body in bodies)


@pytest.mark.parametrize("name", DIALECTS)
def test_the_batch_tells_its_dialect(name: str) -> None:
    """The conversation is recognised, and each message of it is taken as it is."""
    bodies = DIALECTS[name]

    assert recognise(bodies) == name
    assert [parse_message(body, "#") for body in bodies] == bodies


@pytest.mark.parametrize("name", DIALECTS)
def test_raw_is_what_was_sent(name: str) -> None:
    """Reading changes nothing, and each segment keeps the part or item it was read from."""
    for body in DIALECTS[name]:
        before = copy.deepcopy(body)
        read = read_message(body)

        assert read.raw is body
        assert body == before
        for segment in read.segments:
            assert segment.raw is None or isinstance(segment.raw, dict)


@pytest.mark.parametrize("name", DIALECTS)
def test_the_summariser_reads_the_same(name: str) -> None:
    """No payload, no reasoning, a call by its name: the same words from every dialect."""
    plain = [plain_message(body) for body in DIALECTS[name] if body.get("type") != "reasoning"]

    assert plain == [
        {"role": "user", "content": "Where is this?\n[image]"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": "weather", "arguments": ARGUMENTS}}],
        },
        {"role": "user" if name == "anthropic" else "tool", "content": "18 degrees"},
        {"role": "assistant", "content": "Lima, 18 degrees."},
    ]


@pytest.mark.parametrize("name", DIALECTS)
def test_the_cost_is_about_the_same(name: str) -> None:
    """A conversation costs its words, call and picture, in whichever dialect it was stored."""
    costs = sum(message_tokens(body, words) - 3 for body in DIALECTS[name])

    assert costs == 3 + 1000 + 3 + 3 + 2 + 3 - (name in ("anthropic", "langchain"))


@pytest.mark.parametrize(
    ("bodies", "dialect"),
    [
        ([], "openai"),
        ([{"role": "user", "content": "hi"}], "openai"),
        ([{"role": "user", "content": [{"type": "text", "text": "hi"}]}], "openai"),
        ([{"role": "user", "content": "hi", "type": "message"}], "responses"),
        ([{"role": "user", "content": "hi"}, {"type": "item_reference", "id": "x"}], "responses"),
        ([{"role": "user", "content": [{"type": "document", "source": {}}]}], "anthropic"),
        ([{"role": "user", "content": [{"type": "image", "source": {}}]}], "anthropic"),
        ([{"role": "user", "content": [{"type": "image", "url": "https://x"}]}], "openai"),
        (
            [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": [{"type": "web_search_tool_result"}]},
            ],
            "anthropic",
        ),
        (
            [
                {"role": "assistant", "content": [{"type": "thinking", "thinking": []}]},
                {"role": "tool", "tool_call_id": "c", "content": "x"},
            ],
            "openai",
        ),
        ([langchain("human", "hi"), langchain("remove", "")], "langchain"),
    ],
    ids=str,
)
def test_recognise(bodies: list[Body], dialect: str) -> None:
    """One sign settles it for the batch; plain strings are openai, which is right for all."""
    assert recognise(bodies) == dialect


@pytest.mark.parametrize(
    ("body", "role", "call", "result"),
    [
        (item("function_call", call_id="c", name="f", arguments="{}"), "assistant", "c", None),
        (item("function_call_output", call_id="c", output="x"), "tool", None, "c"),
        (item("custom_tool_call", call_id="c", name="f", input="x"), "assistant", "c", None),
        (item("custom_tool_call_output", call_id="c", output="x"), "tool", None, "c"),
        (item("computer_call", id="cu", call_id="c", action={}), "assistant", "c", None),
        (item("computer_call_output", call_id="c", output={}), "tool", None, "c"),
        (item("local_shell_call", id="l", call_id="c", action={}), "assistant", "c", None),
        (item("local_shell_call_output", call_id="c", output="x"), "tool", None, "c"),
        (item("local_shell_call_output", id="c", output="x"), "tool", None, "c"),
        (item("shell_call", call_id="c", action={}), "assistant", "c", None),
        (item("shell_call_output", call_id="c", output=[]), "tool", None, "c"),
        (item("apply_patch_call", call_id="c", operation={}), "assistant", "c", None),
        (item("apply_patch_call_output", call_id="c", status="failed"), "tool", None, "c"),
        (item("mcp_approval_request", id="c", name="f", arguments="{}"), "assistant", "c", None),
        (item("mcp_approval_response", approval_request_id="c", approve=True), "tool", None, "c"),
        (item("tool_search_call", call_id="c", execution="client"), "assistant", "c", None),
        (item("tool_search_output", call_id="c", execution="client"), "tool", None, "c"),
        (item("tool_search_call", execution="server", arguments={}), "assistant", None, None),
        (item("tool_search_output", execution="server", tools=[]), "assistant", None, None),
        (item("reasoning", id="r", summary=[]), "assistant", None, None),
        (item("web_search_call", id="w", action={}, status="completed"), "assistant", None, None),
        (item("file_search_call", id="w", queries=["q"]), "assistant", None, None),
        (item("code_interpreter_call", id="w", code="1"), "assistant", None, None),
        (item("image_generation_call", id="w", result=PNG), "assistant", None, None),
        (item("mcp_list_tools", id="w", tools=[]), "assistant", None, None),
        (item("mcp_call", id="w", name="f", arguments="{}"), "assistant", None, None),
        (item("program", id="p", call_id="c", code="1"), "assistant", None, None),
        (item("program_output", id="p", call_id="c", result="1"), "assistant", None, None),
        (item("item_reference", id="msg_1"), "assistant", None, None),
        (item("compaction", encrypted_content="gA"), "assistant", None, None),
        (item("of_next_year", anything=1), "assistant", None, None),
    ],
    ids=str,
)
def test_responses_items(body: Body, role: str, call: str | None, result: str | None) -> None:
    """An item without a role is taken verbatim; only what the client answers is a call."""
    read = read_message(parse_message(body, "#"))
    (segment,) = read.segments

    assert read.raw == body
    assert segment.raw == body
    assert read.role == role_of(body) == role
    assert [one.id for one in calls_of(body)] == ([call] if call else [])
    assert results_of(body) == ([result] if result else [])
    assert isinstance(segment, Call) == (call is not None)
    assert isinstance(segment, Result) == (result is not None)
    assert not is_empty(body)


def test_custom_calls_carry_text() -> None:
    """A custom tool's input is no JSON, and is told apart from arguments that are."""
    chat: Body = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "sql", "input": "SELECT"}}],
    }
    responses = item("custom_tool_call", call_id="c", name="sql", input="SELECT")

    for body in (chat, responses):
        call = only(body)
        assert isinstance(call, Call)
        assert (call.id, call.name, call.arguments, call.custom) == ("c", "sql", "SELECT", True)


@pytest.mark.parametrize(
    ("body", "name", "arguments"),
    [
        (item("computer_call", call_id="c", action={"type": "wait"}), "computer", {"type": "wait"}),
        (item("computer_call", call_id="c", actions=[1]), "computer", [1]),
        (item("local_shell_call", call_id="c", action={"a": 1}), "local_shell", {"a": 1}),
        (item("apply_patch_call", call_id="c", operation={"a": 1}), "apply_patch", {"a": 1}),
        (item("mcp_approval_request", id="c", name="f", arguments='{"a": 1}'), "f", {"a": 1}),
    ],
)
def test_built_in_calls_have_a_name_and_arguments(body: Body, name: str, arguments: object) -> None:
    """A tool that the provider defined is called by its kind, what to do are its arguments."""
    call = only(body)

    assert isinstance(call, Call)
    assert call.name == name
    assert json.loads(call.arguments) == arguments


def test_built_in_outputs_have_words_and_pictures() -> None:
    """A screenshot is a picture; a shell's streams are text; a failed patch is an error."""
    url = "https://example.com/1.png"
    screenshot = {"type": "computer_screenshot", "image_url": url}
    shot = only(item("computer_call_output", call_id="c", output=screenshot))
    streams = [{"stdout": "a", "stderr": "b", "outcome": {"type": "exit", "exit_code": 1}}]
    shell = only(item("shell_call_output", call_id="c", output=streams))
    patch = only(item("apply_patch_call_output", call_id="c", status="failed", output="no"))

    assert isinstance(shot, Result)
    assert isinstance(shot.segments[0], Media)
    assert shot.segments[0].url == url
    assert isinstance(shell, Result)
    assert [one.text for one in shell.segments if isinstance(one, Text)] == ["a\nb"]
    assert isinstance(patch, Result)
    assert patch.is_error


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        (
            {"type": "image_url", "image_url": {"url": "https://x/1.png", "detail": "high"}},
            Media("image", url="https://x/1.png", detail="high"),
        ),
        ({"type": "image_url", "image_url": "https://x"}, Media("image", url="https://x")),
        (
            {"type": "input_audio", "input_audio": {"data": "AA", "format": "mp3"}},
            Media("audio", data="AA", media_type="audio/mpeg"),
        ),
        (
            {
                "type": "file",
                "file": {"file_data": "data:application/pdf;base64,AA", "filename": "a.pdf"},
            },
            Media("file", data="AA", media_type="application/pdf", filename="a.pdf"),
        ),
        ({"type": "file", "file": {"file_id": "file-1"}}, Media("file", file_id="file-1")),
        (
            {"type": "input_file", "file_url": "https://x/a.pdf", "filename": "a.pdf"},
            Media("file", url="https://x/a.pdf", filename="a.pdf"),
        ),
        (
            {"type": "input_image", "file_id": "f", "detail": "auto"},
            Media("image", file_id="f", detail="auto"),
        ),
        (
            {"type": "image", "source": {"type": "url", "url": "https://x"}},
            Media("image", url="https://x"),
        ),
        (
            {"type": "image", "source": {"type": "file", "file_id": "f"}},
            Media("image", file_id="f"),
        ),
        (
            {
                "type": "document",
                "title": "Notes",
                "source": {"type": "text", "media_type": "text/plain", "data": "words"},
            },
            Media("file", text="words", media_type="text/plain", filename="Notes"),
        ),
        (
            {
                "type": "document",
                "source": {"type": "content", "content": [{"type": "text", "text": "words"}]},
            },
            Media("file", text="words"),
        ),
        (
            {
                "type": "document",
                "source": {"type": "content", "content": [{"type": "image", "source": {}}]},
            },
            Media("file"),
        ),
        (
            {"type": "audio", "base64": "AA", "mime_type": "audio/wav"},
            Media("audio", data="AA", media_type="audio/wav"),
        ),
        ({"type": "video", "url": "https://x"}, Media("video", url="https://x")),
        (
            {"type": "file", "source_type": "base64", "data": "AA", "mime_type": "application/pdf"},
            Media("file", data="AA", media_type="application/pdf"),
        ),
        ({"type": "image", "source_type": "id", "id": "f"}, Media("image", file_id="f")),
        (
            {"type": "text-plain", "text": "words", "mime_type": "text/plain", "title": "T"},
            Media("file", text="words", media_type="text/plain", filename="T"),
        ),
        ({"type": "image_url", "image_url": {"url": "data:image/svg+xml,<svg>"}}, Media("image")),
    ],
    ids=str,
)
def test_media(members: Body, expected: Media) -> None:
    """A picture, sound or document is where its part says it is, as data never in an address."""
    found = part(**members)

    assert isinstance(found, Media)
    assert found.raw == members
    for name in ("kind", "url", "data", "media_type", "file_id", "text", "filename", "detail"):
        assert getattr(found, name) == getattr(expected, name), name


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"type": "text", "text": "a", "citations": [1]}, Text("a")),
        ({"type": "refusal", "refusal": "no"}, Refusal("no")),
        ({"type": "thinking", "thinking": "hm", "signature": "s=="}, Reasoning("hm")),
        ({"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, Reasoning("hm")),
        ({"type": "redacted_thinking", "data": "AA=="}, Reasoning("")),
        ({"type": "reasoning_content", "reasoning_content": {"text": "hm"}}, Reasoning("hm")),
        (
            {
                "type": "search_result",
                "title": "T",
                "source": "https://x",
                "content": [{"type": "text", "text": "words"}],
            },
            Text("T\nhttps://x\nwords"),
        ),
    ],
    ids=str,
)
def test_words(members: Body, expected: Text | Refusal | Reasoning) -> None:
    """Words are read from wherever their part keeps them; what goes with them stays in raw."""
    found = part(**members)

    assert type(found) is type(expected)
    assert isinstance(found, Text | Refusal | Reasoning)
    assert found.text == expected.text
    assert found.raw == members


@pytest.mark.parametrize(
    "members",
    [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
        {"type": "code_execution_tool_result", "tool_use_id": "s1", "content": {}},
        {"type": "server_tool_call", "id": "s1", "name": "f", "args": {}},
        {"type": "server_tool_result", "tool_call_id": "s1", "status": "success"},
        {"type": "container_upload", "file_id": "f"},
        {"type": "threadkeep_ref", "bytes": 9},
        {"type": "non_standard", "value": {}},
    ],
    ids=lambda members: str(members["type"]),
)
def test_what_a_server_runs_is_no_call(members: Body) -> None:
    """What only one provider can read is kept verbatim, and is never waited for."""
    body: Body = {"role": "assistant", "content": [members]}

    assert part(**members) == Other(members)
    assert calls_of(body) == []
    assert results_of(body) == []
    assert calls_of(langchain("ai", [members])) == []


def test_results_hold_parts_and_errors() -> None:
    """A result in blocks keeps each; an error is one in Anthropic's and in LangChain's words."""
    blocks = [{"type": "text", "text": "no"}, {"type": "image", "source": {}}, {"type": "tool_use"}]
    anthropic = part(type="tool_result", tool_use_id="c", content=blocks, is_error=True)
    wrapped = only(langchain("tool", "no", tool_call_id="c", status="error"))
    empty = part(type="tool_result", tool_use_id="c")

    assert isinstance(anthropic, Result)
    assert [type(one) for one in anthropic.segments] == [Text, Media, Other]
    assert isinstance(wrapped, Result)
    assert anthropic.is_error
    assert wrapped.is_error
    assert isinstance(empty, Result)
    assert empty.segments == ()


@pytest.mark.parametrize(
    ("kind", "members", "role"),
    [
        ("human", {}, "user"),
        ("HumanMessageChunk", {}, "user"),
        ("ai", {}, "assistant"),
        ("AIMessageChunk", {}, "assistant"),
        ("system", {}, "system"),
        ("tool", {"tool_call_id": "c"}, "tool"),
        ("function", {"name": "f"}, "tool"),
        ("chat", {"role": "user"}, "user"),
        ("chat", {"role": "ai"}, "assistant"),
    ],
)
def test_langchain_roles(kind: str, members: Body, role: str) -> None:
    """The type tells who speaks; a chat message says it itself."""
    body = langchain(kind, "x", **members)

    assert role_of(body) == read_message(body).role == role


def test_langchain_says_a_call_three_times() -> None:
    """A call in tool_calls, additional_kwargs and content is one; what only one has counts too."""
    calls = [{"name": "f", "args": {}, "id": "c1"}]
    invalid = [{"name": "f", "args": "{", "id": "c2", "error": "e", "type": "invalid_tool_call"}]
    raw = [{"id": i, "function": {"name": "f", "arguments": "{}"}} for i in ("c1", "c3")]
    blocks: list[Body] = [
        {"type": "tool_use", "id": i, "name": "f", "input": {}} for i in ("c1", "c4")
    ]
    body = langchain(
        "ai",
        [{"type": "text", "text": "Looking."}, *blocks],
        tool_calls=calls,
        invalid_tool_calls=invalid,
        additional_kwargs={"tool_calls": raw, "function_call": {"name": "f", "arguments": "{}"}},
    )
    read = [one for one in segments(body) if isinstance(one, Call)]

    assert [one.id for one in read] == ["c1", "c2", "c3", "c4"]
    assert [one.id for one in calls_of(body)] == ["c1", "c2", "c3", "c4"]
    assert read[1].arguments == "{"
    assert [one for one in segments(body) if isinstance(one, Other)] == []
    assert parts_of(body) == [{"type": "text", "text": "Looking."}]


def test_langchain_of_old() -> None:
    """Calls that only additional_kwargs has count: legacy functions, and ids that are null."""
    legacy = langchain(
        "ai", "", additional_kwargs={"function_call": {"name": "f", "arguments": ""}}
    )
    nameless = langchain("ai", "", tool_calls=[{"name": "f", "args": {}, "id": None}])

    assert [(call.id, call.name) for call in calls_of(legacy)] == [("", "f")]
    assert [(call.id, call.name) for call in calls_of(nameless)] == [("", "f")]


def test_blank_messages_are_empty_in_every_dialect() -> None:
    """A message that says nothing is told, wherever its content stands."""
    for body in (
        {"role": "user", "content": [{"type": "input_text", "text": " "}]},
        {"type": "message", "role": "assistant", "content": []},
        langchain("human", ""),
        langchain("ai", [], tool_calls=[]),
    ):
        assert is_empty(body)


_ids = st.sampled_from(["c1", "c2", "", None, 7])
_texts = st.sampled_from(["", "words", " \n"])
_scalars = st.none() | st.booleans() | st.integers(-1, 1) | _texts
_members = st.sampled_from(
    [
        "type", "id", "call_id", "name", "text", "input", "args", "arguments", "output", "content",
        "source", "file", "image_url", "data", "url", "thinking", "summary", "tool_use_id",
        "status", "refusal", "input_audio", "reasoning", "extras", "function", "custom", "base64",
    ]
)  # fmt: skip
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_members, inner, max_size=3),
    max_leaves=6,
)
_part_types = st.sampled_from(
    [
        "text", "input_text", "output_text", "refusal", "thinking", "reasoning", "image_url",
        "input_image", "input_audio", "file", "input_file", "image", "document", "audio", "video",
        "text-plain", "search_result", "tool_use", "tool_result", "tool_call", "function_call",
        "server_tool_use", "web_search_tool_result", "novel",
    ]
)  # fmt: skip
_parts = _texts | st.builds(
    lambda kind, ids, rest: {**rest, **ids, "type": kind},
    _part_types,
    st.fixed_dictionaries({}, optional={"id": _ids, "tool_use_id": _ids, "call_id": _ids}),
    st.dictionaries(_members, _values, max_size=4),
)
_contents = st.none() | _texts | st.lists(_parts, max_size=3)
_calls = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "id": _ids,
            "type": st.sampled_from(["function", "custom", "tool_call"]),
            "name": _texts,
            "args": st.just({"a": 1}) | _texts,
            "function": st.just({"name": "f", "arguments": "{}"}) | _values,
            "custom": st.just({"name": "f", "input": "x"}) | _values,
        },
    ),
    max_size=2,
)
_chat = st.fixed_dictionaries(
    {"role": st.sampled_from(sorted(ROLES)), "content": _contents},
    optional={
        "tool_calls": _calls,
        "tool_call_id": _ids,
        "name": _ids,
        "refusal": _texts,
        "audio": _values,
        "function_call": st.just({"name": "f", "arguments": "{}"}),
        "reasoning_content": _values,
        "type": st.just("message"),
    },
)
_items = st.builds(
    lambda kind, call_id, rest: {**rest, "call_id": call_id, "type": kind},
    st.sampled_from(
        [
            "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output",
            "computer_call", "computer_call_output", "local_shell_call", "local_shell_call_output",
            "shell_call", "shell_call_output", "apply_patch_call", "apply_patch_call_output",
            "mcp_approval_request", "mcp_approval_response", "tool_search_call", "reasoning",
            "web_search_call", "item_reference", "compaction", "novel",
        ]
    ),
    _ids,
    st.dictionaries(_members, _values | _contents, max_size=5),
)  # fmt: skip
_langchain = st.builds(
    lambda kind, data: {"type": kind, "data": data},
    st.sampled_from(["human", "ai", "system", "tool", "function", "chat", "AIMessageChunk"]),
    st.fixed_dictionaries(
        {"content": _contents},
        optional={
            "tool_calls": _calls,
            "invalid_tool_calls": _calls,
            "tool_call_id": _ids,
            "additional_kwargs": _values
            | st.fixed_dictionaries({"tool_calls": _calls, "function_call": _values}),
            "role": st.sampled_from(sorted(ROLES)),
            "status": _texts,
            "name": _ids,
            "id": _ids,
        },
    ),
)


@given(_chat | _items | _langchain)
def test_whatever_is_taken_can_be_read(body: Body) -> None:
    """Reading never fails for what a save takes, and agrees with the accessors."""
    try:
        taken = parse_message(body, "#")
    except InvalidPayload:
        return
    before = json.dumps(taken)
    read = read_message(taken)

    assert read.role == role_of(taken)
    assert sorted((one.id, one.name) for one in read.segments if isinstance(one, Call)) == sorted(
        (one.id, one.name) for one in calls_of(taken)
    )
    assert [one.call_id for one in read.segments if isinstance(one, Result)] == results_of(taken)
    assert plain_message(taken)["role"] == read.role
    assert message_tokens(taken, words) > 0
    assert recognise([taken]) in DIALECTS
    assert json.dumps(taken) == before


def test_messages_of_langchain_keep_everything() -> None:
    """Artifacts, usage and chunks are kept in raw though no other dialect knows them."""
    tool, answer = LANGCHAIN[2:]

    assert read_message(tool).raw["data"] == tool["data"]
    assert read_message(answer).raw == answer
