"""The pair rule, by adjacency: what is left out of an exchange, and that nothing else is."""

import pytest
from hypothesis import given

from app.core.messages import is_empty
from app.core.model import Body
from app.core.pairs import Repair, heal
from tests.unit.dialects import ANTHROPIC, LANGCHAIN, OPENAI, RESPONSES, langchain
from tests.unit.strategies import (
    assistant,
    batches,
    calling,
    exchanges,
    pair_faults,
    result,
    tool_results,
    tool_use,
    unhurried,
    user,
)


def healed(*exchange: Body) -> list[Body | None]:
    return heal(exchange)[0]


def sent(exchange: list[Body]) -> list[Body]:
    return [body for body in heal(exchange)[0] if body is not None]


def test_nothing_to_heal_is_the_same_object() -> None:
    """Messages that need no change are passed on as they are."""
    exchange = [
        user("q"),
        calling(["c1", "c2"]),
        result("c2", ""),
        result("c1", "x"),
        assistant("a"),
    ]
    bodies, repairs = heal(exchange)

    assert all(new is old for new, old in zip(bodies, exchange, strict=True))
    assert repairs == []


def test_call_without_result_is_removed_from_its_message() -> None:
    """The words beside a call that never came back stay; the call goes."""
    bodies, repairs = heal([user("q"), calling(["c1", "c2"], "Looking."), result("c2", "x")])

    assert bodies[1] == calling(["c2"], "Looking.")
    assert repairs == [Repair(1, "call-without-result", ("c1",))]


def test_message_of_lone_calls_only_goes() -> None:
    """A message with nothing but lone calls says nothing once they are gone."""
    bodies, repairs = heal([user("q"), calling(["c1"]), assistant("Sorry.")])

    assert bodies == [user("q"), None, assistant("Sorry.")]
    assert repairs == [Repair(1, "call-without-result", ("c1",))]


def test_words_stay_when_all_calls_go() -> None:
    """No empty list of calls is left behind; providers refuse it."""
    assert healed(user("q"), calling(["c1"], "Looking."))[1] == assistant("Looking.")


def test_result_without_call_goes() -> None:
    """A result whose call is not there is left out and named."""
    bodies, repairs = heal([user("q"), result("c9", "x"), assistant("a")])

    assert bodies == [user("q"), None, assistant("a")]
    assert repairs == [Repair(1, "result-without-call", ("c9",))]


def test_result_before_its_call_is_lone() -> None:
    """Order matters: a result does not answer a call that comes after it."""
    assert healed(user("q"), result("c1", "x"), calling(["c1"])) == [user("q"), None, None]


def test_result_after_an_interposed_message_is_lone() -> None:
    """Providers want results right behind the call; words in between end them."""
    exchange = [calling(["c1"], "Looking."), assistant("Wait."), result("c1", "x")]

    assert healed(*exchange) == [assistant("Looking."), assistant("Wait."), None]


def test_empty_message_in_between_does_not_part_a_pair() -> None:
    """What is left out anyway cannot stand between a call and its result."""
    exchange = [calling(["c1"]), assistant(" "), result("c1", "x")]

    assert healed(*exchange) == [exchange[0], None, exchange[2]]


def test_second_result_of_one_call_goes() -> None:
    """A call is answered once."""
    exchange = [calling(["c1"]), result("c1", "x"), result("c1", "again")]

    assert healed(*exchange) == [*exchange[:2], None]


def test_one_id_for_two_parallel_calls() -> None:
    """Each of two calls with one id takes one result."""
    exchange = [calling(["c1", "c1"]), result("c1", "x"), result("c1", "y")]

    assert healed(*exchange) == exchange


def test_load_tool_id_reused_across_turns() -> None:
    """load-tool-id-reused-across-turns: calls numbered from zero each round keep their results."""
    (exchange,) = batches("load-tool-id-reused-across-turns")

    assert sent(exchange) == exchange


def test_load_partial_parallel_results() -> None:
    """load-partial-parallel-results: of three calls the unanswered one goes, the others stay."""
    exchange, _ = batches("load-partial-parallel-results")
    bodies = sent(exchange)

    assert [body["id"] for body in bodies] == ["u1", "a1", "t1", "t3"]
    calls = bodies[1]["tool_calls"]
    assert isinstance(calls, list)
    assert [call["id"] for call in calls] == ["c1", "c3"]


def test_load_null_content_with_calls() -> None:
    """load-null-content-with-calls: null stays null, and an empty result is a result."""
    (exchange,) = batches("load-null-content-with-calls")

    assert sent(exchange) == exchange


def test_several_results_in_one_user_message() -> None:
    """Blocks pair one by one: lone ones go, the message stays with the others."""
    exchange = [user("q"), tool_use(["c1", "c2"]), tool_results(["c1", "c9"])]

    assert healed(*exchange) == [user("q"), tool_use(["c1"]), tool_results(["c1"])]


def test_user_message_of_lone_results_only_goes() -> None:
    """A user message is not sent empty, but words in it are kept."""
    words = user([{"type": "text", "text": "and now?"}])
    mixed = user([*tool_results(["c1"])["content"], *words["content"]])

    assert healed(tool_results(["c1"])) == [None]
    assert healed(mixed) == [words]


def test_words_beside_results_end_them() -> None:
    """After a user's own words a result can answer no earlier call."""
    mixed = user([*tool_results(["c1"])["content"], {"type": "text", "text": "go on"}])
    exchange = [tool_use(["c1", "c2"]), mixed, tool_results(["c2"])]

    assert healed(*exchange) == [tool_use(["c1"]), mixed, None]


def test_thoughts_alone_are_not_sent() -> None:
    """A thinking block is not left without the call it led to."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    call = {"type": "tool_use", "id": "c1", "name": "find", "input": {}}

    assert healed(assistant([thought, call])) == [None]


def test_old_function_calls() -> None:
    """The deprecated dialect has no ids; its call and result meet by adjacency."""
    call: Body = {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "f", "arguments": ""},
    }
    answer: Body = {"role": "tool", "name": "f", "content": "x"}

    assert healed(call, answer) == [call, answer]
    assert healed({**call, "content": "Looking."}) == [assistant("Looking.")]


def test_load_empty_assistant_message() -> None:
    """load-empty-assistant-message: an empty reply is left out and named."""
    exchange, _ = batches("load-empty-assistant-message")
    bodies, repairs = heal(exchange)

    assert bodies == [exchange[0], None]
    assert repairs == [Repair(1, "empty-message")]


@unhurried
@given(exchanges())
def test_a_provider_would_take_what_is_left(exchange: list[Body]) -> None:
    """Whatever was stored, no lone call, no lone result and no empty message is sent."""
    left = sent(exchange)

    assert pair_faults(left) == []
    assert not any(is_empty(body) for body in left)


@unhurried
@given(exchanges())
def test_healing_is_a_fixed_point(exchange: list[Body]) -> None:
    """What was healed once needs no more healing, and stays the same objects."""
    left = sent(exchange)
    again, repairs = heal(left)

    assert repairs == []
    assert all(new is old for new, old in zip(again, left, strict=True))


@unhurried
@given(exchanges())
def test_whatever_is_left_out_is_named(exchange: list[Body]) -> None:
    """Each message that is changed or dropped has a repair, and no other has."""
    bodies, repairs = heal(exchange)
    changed = {
        i for i, (new, old) in enumerate(zip(bodies, exchange, strict=True)) if new is not old
    }

    assert {repair.index for repair in repairs} == changed


def _call(call_id: str) -> Body:
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"}


def _output(call_id: str) -> Body:
    return {"type": "function_call_output", "call_id": call_id, "output": "x"}


def _entry(call_id: str) -> Body:
    return {"name": "f", "args": {}, "id": call_id, "type": "tool_call"}


def _sent_entry(call_id: str) -> Body:
    return {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}}


def _block(call_id: str) -> Body:
    return {"type": "tool_use", "id": call_id, "name": "f", "input": {}}


def _thrice(*ids: str, content: tuple[Body, ...] = ()) -> Body:
    return langchain(
        "ai",
        [*content, *map(_block, ids)],
        additional_kwargs={"tool_calls": [*map(_sent_entry, ids)]},
        tool_calls=[*map(_entry, ids)],
        invalid_tool_calls=[],
    )


@pytest.mark.parametrize("exchange", [OPENAI, RESPONSES, ANTHROPIC, LANGCHAIN])
def test_nothing_to_heal_in_any_dialect(exchange: list[Body]) -> None:
    """A whole conversation with a call and its result passes as the same objects."""
    bodies, repairs = heal(exchange)

    assert all(new is old for new, old in zip(bodies, exchange, strict=True))
    assert repairs == []


def test_items_pair_across_other_items() -> None:
    """Parallel calls, a remark and thoughts between a call and its output part no pair."""
    remark: Body = {"type": "message", "role": "assistant", "content": "Looking."}
    exchange = [user("q"), _call("c1"), _call("c2"), remark, _output("c2"), _output("c1")]

    assert healed(*exchange) == exchange


def test_item_without_its_counterpart_goes_whole() -> None:
    """An item is one call or one output: with its counterpart missing nothing is left of it."""
    exchange = [user("q"), _output("c3"), _call("c1"), _call("c2"), _output("c1"), _output("c3")]
    bodies, repairs = heal(exchange)

    assert bodies == [user("q"), None, _call("c1"), None, _output("c1"), None]
    assert [(repair.index, repair.code, repair.ids) for repair in repairs] == [
        (1, "result-without-call", ("c3",)),
        (3, "call-without-result", ("c2",)),
        (5, "result-without-call", ("c3",)),
    ]


def test_items_whose_ids_are_used_again() -> None:
    """An output answers the nearest open call before it, so the lost one is the older."""
    exchange = [_call("c1"), _call("c1"), _output("c1"), _call("c1"), _output("c1")]

    assert healed(*exchange) == [None, *exchange[1:]]


def test_langchain_call_goes_wherever_it_is_said() -> None:
    """A lone call leaves tool_calls, additional_kwargs and the content; the others stay."""
    text: Body = {"type": "text", "text": "Looking."}
    answer = langchain("tool", "x", tool_call_id="c2")

    assert healed(_thrice("c1", "c2", content=(text,)), answer) == [
        _thrice("c2", content=(text,)),
        answer,
    ]
    assert healed(_thrice("c1", content=(text,))) == [_thrice(content=(text,))]
    assert healed(_thrice("c1")) == [None]
    assert healed(langchain("tool", "x", tool_call_id="c1")) == [None]


def test_langchain_calls_of_old() -> None:
    """A call that only additional_kwargs knows pairs and goes like any other."""
    legacy = {"function_call": {"name": "f", "arguments": "{}"}}
    call = langchain("ai", "Looking.", additional_kwargs=legacy)
    answer = langchain("function", "x", name="f")

    assert healed(call, answer) == [call, answer]
    assert healed(call) == [langchain("ai", "Looking.")]


def test_langchain_broken_call_is_left_out() -> None:
    """A call that LangChain could not parse has no result, so it is not sent."""
    broken = {"name": "f", "args": "{", "id": "c1", "error": None, "type": "invalid_tool_call"}
    message = langchain("ai", "Looking.", tool_calls=[], invalid_tool_calls=[broken])

    assert healed(message) == [langchain("ai", "Looking.", tool_calls=[], invalid_tool_calls=[])]


def test_what_a_server_runs_is_not_waited_for() -> None:
    """A search that the provider ran has no result of the client, and stays."""
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    exchange = [
        user("q"),
        assistant([search, found, {"type": "text", "text": "a"}]),
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "program", "id": "p", "call_id": "c1", "code": "1"},
    ]

    assert healed(*exchange) == exchange
