"""Strip: the cases from the field, what must hold for every text, and messages with parts."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.markup import DEFAULT, VERSION, Profile, make_profile, strip_message, strip_text
from app.core.model import Body
from tests.unit.dialects import langchain

DATA = Path(__file__).parents[1] / "data"
DIRTY = "Fine.<!-- id=1 -->"
CLEAN = "Fine."

MUSTS: Mapping[str, Callable[[str], bool]] = {
    "strip(output) == output": lambda output: strip_text(output) == output,
    "output contains no '[[' and no URL": lambda output: "[[" not in output and "://" not in output,
}

FRAGMENTS = [
    *("\u3010", "\u3011", "\u2020source", "4:0", "\u30101\u2020source\u3011", "turn0search0"),
    *("\ue200", "\ue201", "\ue202", "\ue203", "\ue204", "cite", 'entity\ue202["a","Paris"]'),
    *(":contentReference", "[oaicite:1]", "{index=1}", "[cite: 1]", "[cite_start]"),
    *("[[", "3", "]]", "](https://a.b)", "(", "[", '<cite index="1">', "</cite>"),
    *('<div data-ui="x">', "<div>", "</div>", '<artifact identifier="a">', "</artifact>"),
    *(":::artifact{a}\n", "\n:::\n", ":::note\n", ":antCitation[w]{citations=1}"),
    *("<think>", "</think>", "\n</think>\n", "<Thinking>", "</thinking>", "<reasoning/>"),
    *('<details type="r">', "<details>", "</details>", "<!--", "-->", "<!-", "- -->"),
    *("`", "``", "\n```\n", "\n~~~\n", "$", "$$", "\\(", "\\)", "\\", "<pre>", "</pre>"),
    *("<code>", "</code>", "\n", "\n\n", "\r\n", "\t", " ", "    ", "> ", "- ", "1. ", "# "),
    *("|", "---", ".", ",", "*", "word", "<x@y>", "https://a.b/", "<ui-card>", "</ui-card>"),
]
marked_up = st.lists(st.sampled_from(FRAGMENTS), max_size=40).map("".join)
profiles = st.sampled_from([DEFAULT, make_profile(["ui-card"]), make_profile((), ["ui-card"])])

HOSTILE = [
    *(
        "\u3010",
        "\u30101",
        "\u3010x\u3011\u2020",
        "\u30101\u2020source\u3011",
        " \u30101\u2020a\u3011b",
    ),
    *("<think>", "<think>a</think>", "<think><think></think>", "</think>\n", "\ue200cite\ue202"),
    *("`", "` `` ", "<!--", "<!---->", " <!-- -->*", "<!--\n", '<cite index="1">', "</cite>"),
    *(":::artifact{", ":::artifact{}\n", ":::artifact{}\n:::\n", "[", "[[3]](", "[[ ]](", "](a "),
    *("]((\u2020", '](a "\u2020', "<a ", '<a b="', "<div data-ui>", '<details type="r">', "<a>"),
    *("$", "$a", "$$\n\n", "\\[\n\n", "\\(", "citeturn0search0", "[cite: 1", ":antCitation["),
    *("> ", "- ", "1. ", "```a\n", "\n", "\t", "<pre>\n", "<code>", "[oaicite:", "\ue203\ue204"),
]


def read_lines(name: str) -> Iterator[dict[str, str]]:
    # Not splitlines(): the texts hold other line separators of Unicode.
    for line in (DATA / name).read_text(encoding="utf-8").strip().split("\n"):
        yield json.loads(line)


def strip_cases() -> Iterator[object]:
    for case in read_lines("cases.jsonl"):
        if case["area"] == "strip":
            yield pytest.param(case, id=f"{case['id']} ({case['source']})")


def strip_pairs() -> Iterator[object]:
    for number, pair in enumerate(read_lines("strip_pairs.jsonl"), start=1):
        after = pair.get("after", pair["before"])
        yield pytest.param(pair["before"], after, id=f"{pair['rule']}-line-{number}")


def is_subsequence(part: str, whole: str) -> bool:
    rest = iter(whole)
    return all(character in rest for character in part)


def count_calls(text: str) -> int:
    """Count the calls, of Python and of C functions, that stripping a text takes."""
    calls = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event.endswith("call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        strip_text(text)
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("case", list(strip_cases()))
def test_case(case: Mapping[str, Mapping[str, object]]) -> None:
    """A failure reported of a comparable system does not happen here."""
    given_text, expect = case["input"]["text"], case["expect"]
    role = case["input"]["role"]
    output = strip_message({"role": role, "content": given_text})["content"]
    assert isinstance(output, str)
    accepted: list[object] = [expect[name] for name in ("exact",) if name in expect]
    for name in ("also_ok", "any_of"):
        more = expect.get(name, [])
        assert isinstance(more, list)
        accepted += more

    assert output in accepted
    if expect.get("unchanged") and "also_ok" not in expect:
        assert output == given_text
    musts = expect.get("must", [])
    assert isinstance(musts, list)
    assert [must for must in musts if not MUSTS[must](output)] == []


@pytest.mark.parametrize(("before", "after"), list(strip_pairs()))
def test_pair(before: str, after: str) -> None:
    """Each rule does what its pair says, where no `after` stands: nothing."""
    assert strip_text(before) == after


@given(st.one_of(marked_up, st.text(max_size=60)), profiles)
def test_result_is_a_fixed_point(text: str, profile: Profile) -> None:
    """Stripping twice is stripping once, whatever removing one mark joins."""
    once = strip_text(text, profile)

    assert strip_text(once, profile) == once


@given(st.one_of(marked_up, st.text(max_size=60)), profiles)
def test_nothing_is_invented(text: str, profile: Profile) -> None:
    """The result holds characters of the text only, in their order."""
    assert is_subsequence(strip_text(text, profile), text)


@given(marked_up.filter(lambda code: "`````" not in code))
def test_fenced_code_survives(code: str) -> None:
    """Whatever stands in a closed fence comes out byte for byte; the marks around it go."""
    block = f"`````\n{code}\n`````"

    assert strip_text(f"a\u30101\u2020source\u3011\n{block}\nb<!-- c -->") == f"a\n{block}\nb"


@given(marked_up.filter(lambda code: "`" not in code and "\n" not in code and code.strip()))
def test_code_spans_survive(code: str) -> None:
    """Whatever stands in a code span comes out byte for byte; the marks around it go."""
    assert strip_text(f"a<!-- b --> `{code}`\u30101\u2020source\u3011.") == f"a `{code}`."


@given(st.text(alphabet=st.characters(exclude_characters="<[]:\u2020\ue200\ue202\\c"), max_size=80))
def test_text_without_signs_is_returned_itself(text: str) -> None:
    """A text in which no form can begin comes back as the same object."""
    assert strip_text(text) is text


@pytest.mark.parametrize("unit", HOSTILE)
def test_work_grows_linearly(unit: str) -> None:
    """Twice the text takes at most twice the calls, and none of them rescans the text."""
    suffix = "\u2020]](<!--"
    half, whole = (unit * (size // len(unit)) + suffix for size in (4_000, 8_000))
    assert count_calls(whole) <= 2 * count_calls(half) + 200

    long = unit * (200_000 // len(unit)) + suffix
    began = time.process_time()
    strip_text(long)
    assert time.process_time() - began < 5  # about 0.2; a quadratic step takes minutes


def test_deep_nesting_is_resolved() -> None:
    """Marks nested a thousand deep go as well as one."""
    nested = "\u30101" * 1_000 + "\u2020source\u3011" * 1_000

    assert strip_text(f"A{nested}B") == "AB"


def test_text_made_to_defeat_the_fixed_point_is_left() -> None:
    """When every pass uncovers one more mark, the text stays whole, not half cleaned."""
    hostile = "<!-" * 5_000 + "<!-- -->" + "- -->" * 5_000

    assert strip_text(hostile) == hostile


@pytest.mark.parametrize("role", ["user", "tool", "system", "developer", ""])
def test_other_roles_pass(role: str) -> None:
    """Only an assistant's words are cleaned; anyone else's message is the same object."""
    body: dict[str, object] = {
        "role": role,
        "content": "<think>hi</think> \u30101\u2020source\u3011",
    }

    assert strip_message(body) is body


def test_parts_keep_everything_else() -> None:
    """Text parts are cleaned alone; other parts and all other members stay verbatim."""
    call = {"type": "tool_use", "id": "c", "name": "n", "input": {"html": "<!-- x -->"}}
    unknown = {"type": "text", "text": None}
    body = {
        "role": "assistant",
        "id": "m1",
        "content": [
            "plain<!-- x -->",
            {"type": "text", "text": "a\u30101\u2020source\u3011", "annotations": [{"index": 1}]},
            {"type": "output_text", "text": "untouched"},
            call,
            unknown,
        ],
    }
    stripped = strip_message(body)
    parts = stripped["content"]
    assert isinstance(parts, list)

    assert parts[:3] == [
        "plain",
        {"type": "text", "text": "a", "annotations": [{"index": 1}]},
        {"type": "output_text", "text": "untouched"},
    ]
    assert parts[3] is call
    assert parts[4] is unknown
    assert stripped["id"] == "m1"


@pytest.mark.parametrize("content", [None, "words", ["words", {"type": "text", "text": "x"}], 7])
def test_unchanged_message_is_the_same_object(content: object) -> None:
    """A message with nothing to strip is returned itself."""
    body = {"role": "assistant", "content": content}

    assert strip_message(body) is body


@pytest.mark.parametrize(
    ("body", "cleaned"),
    [
        (
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": DIRTY, "annotations": []}],
            },
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": CLEAN, "annotations": []}],
            },
        ),
        (langchain("ai", DIRTY, id="run-1"), langchain("ai", CLEAN, id="run-1")),
        (
            langchain("AIMessageChunk", [DIRTY, {"type": "text", "text": DIRTY}]),
            langchain("AIMessageChunk", [CLEAN, {"type": "text", "text": CLEAN}]),
        ),
        (
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": DIRTY, "signature": "s"},
                    {"type": "text", "text": DIRTY, "citations": [{"cited_text": DIRTY}]},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": DIRTY, "signature": "s"},
                    {"type": "text", "text": CLEAN, "citations": [{"cited_text": DIRTY}]},
                ],
            },
        ),
    ],
    ids=["responses", "langchain", "langchain blocks", "anthropic"],
)
def test_assistant_text_is_cleaned_in_every_dialect(body: Body, cleaned: Body) -> None:
    """Wherever a dialect keeps an assistant's words, they are cleaned, and nothing beside them."""
    assert strip_message(body) == cleaned


@pytest.mark.parametrize(
    "body",
    [
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": DIRTY},
        {"type": "function_call_output", "call_id": "c", "output": DIRTY},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": DIRTY}]},
        {"type": "novel", "content": DIRTY},
        langchain("human", DIRTY),
        langchain("tool", DIRTY, tool_call_id="c"),
        langchain("ai", "", tool_calls=[{"name": "f", "args": {"a": DIRTY}, "id": "c"}]),
    ],
    ids=range(7),
)
def test_nothing_else_is_cleaned_in_any_dialect(body: Body) -> None:
    """Items, arguments, results and users' words pass as the same object."""
    assert strip_message(body) is body


def test_own_tags() -> None:
    """A deployment's selectors unwrap and drop beside the built-in ones; others do nothing."""
    profile = make_profile(unwrap=["UI-Card", "p[class=bubble]"], drop=["[data-hidden]", "aside"])
    text = (
        "<ui-card>a</ui-card> <p class='bubble'>b</p> <p class='x'>c</p> "
        '<i data-hidden="">d</i><aside>e</aside><hr data-hidden><b>f</b><!-- g -->'
    )

    assert strip_text(text, profile) == "a b <p class='x'>c</p> <b>f</b>"
    assert strip_text("<ui-card>a</ui-card>") == "<ui-card>a</ui-card>"


def test_version_follows_the_rules() -> None:
    """Equal rules have equal versions, whatever their order and case; other rules another."""
    one = make_profile(["a", "B"], ["c"])

    assert make_profile().version == DEFAULT.version == VERSION
    assert one.version == make_profile(["b", "a", "a"], ["C"]).version
    assert (
        len({VERSION, one.version, make_profile(["a"]).version, make_profile((), ["a"]).version})
        == 4
    )


@pytest.mark.parametrize("rule", ["", "<b>", "a b", "1x", "a[", "[]", "a[b='c\"]", "a>b"])
def test_malformed_selectors_are_refused(rule: str) -> None:
    """A selector that names no element is refused in a sentence that quotes it."""
    with pytest.raises(ValueError, match="is not a selector such as") as refusal:
        make_profile(unwrap=[rule])

    assert repr(rule) in str(refusal.value)


def test_contradictory_selectors_are_refused() -> None:
    """One selector cannot do both, and a bare string is no list of selectors."""
    with pytest.raises(ValueError, match="cannot both unwrap and drop"):
        make_profile(["card"], ["CARD"])
    with pytest.raises(ValueError, match="list of selectors"):
        make_profile("card")
