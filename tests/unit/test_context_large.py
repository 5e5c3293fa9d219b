"""Large values: which are fetched, which are stubbed, and that none is sent as nothing."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from app.core.context import (
    Branch,
    assemble,
    large_to_fetch,
)
from app.core.large import prepare, restore
from app.core.markup import strip_message
from app.core.model import Body, Context, Large, StoredMessage
from app.core.tokens import message_tokens
from tests.unit.strategies import (
    assistant,
    branch_of,
    calling,
    count_openai,
    history,
    plain_thread,
    reading,
    result,
    sent,
    stored,
    tool_results,
    tool_use,
    user,
    words,
)

LONG = "A long answer. " * 1000


def save(bodies: Sequence[Body]) -> tuple[list[StoredMessage], dict[tuple[str, str], bytes]]:
    """The bodies as a save stores them, large values in blobs."""
    messages: list[StoredMessage] = []
    blobs: dict[tuple[str, str], bytes] = {}
    for message in stored(bodies):
        new = prepare(
            message.body,
            b"t",
            message.position,
            cost=lambda body: message_tokens(body, words),
            cleaned=strip_message(message.body),
        )
        large = tuple(item for item, _ in new.large)
        blobs |= {(item.channel, item.version): value for item, value in new.large}
        messages.append(dataclasses.replace(message, body=new.body, large=large, digest=new.digest))
    return messages, blobs


def load_large(bodies: Sequence[Body], **options: Any) -> tuple[list[Large], Context]:
    """Load as a service does: ask what to fetch, fetch it, assemble."""
    messages, blobs = save(bodies)
    branch, asked = Branch(messages, len(messages)), reading(**options)
    wanted = large_to_fetch(branch, asked)
    found = {(w.channel, w.version): blobs[w.channel, w.version] for w in wanted}
    whole = [restore(message, found) for message in messages]
    return wanted, assemble(dataclasses.replace(branch, messages=whole), asked)


def test_nothing_large_nothing_to_fetch() -> None:
    """Most loads read no blob."""
    assert large_to_fetch(branch_of(plain_thread(4)), reading()) == []


def test_large_values_are_sent_whole() -> None:
    """What was fetched is sent as it was stored, and costs what was counted then."""
    bodies = [user("q"), assistant(LONG), user("q2")]
    wanted, context = load_large(bodies)

    assert [large.member for large in wanted] == ["content"]
    assert history(context) == ["q", LONG, "q2"]
    assert context.tokens.total == count_openai(sent(context), words)


def test_large_values_that_do_not_survive_are_not_fetched() -> None:
    """The stored counts tell what will be trimmed before anything is read."""
    bodies = [user("q"), assistant(LONG), user("q2"), assistant("a2"), user("q3")]
    wanted, context = load_large(bodies, token_budget=500)

    assert wanted == []
    assert history(context) == ["q2", "a2", "q3"]


def test_large_values_of_the_final_turn_are_fetched() -> None:
    """They are needed even over budget, to be shortened."""
    bodies = [user("q"), calling(["c1"]), result("c1", LONG)]
    wanted, context = load_large(bodies, token_budget=500)

    assert len(wanted) == 1
    assert "left out by threadkeep" in str(history(context)[2])
    assert context.tokens.total <= 500


def test_missing_value_is_never_sent_as_nothing() -> None:
    """An exchange whose value was not fetched is trimmed, with all before it."""
    messages, _ = save([user("q"), assistant("a"), user("q2"), assistant(LONG), *plain_thread(2)])
    context = assemble(Branch(messages, 6), reading())

    assert history(context) == ["msg 001", "msg 002"]
    assert dataclasses.astuple(context.coverage) == (6, 0, 2, 4, 5)


def test_large_values_in_other_encodings() -> None:
    """Counted otherwise, what would roughly fit is fetched, and the answer still fits."""
    bodies = [user("q"), assistant(LONG), user("q2"), assistant(LONG), user("q3")]
    wanted, context = load_large(bodies, encoding="cl100k_base", token_budget=3200)

    assert len(wanted) == 1
    assert history(context) == ["q2", LONG, "q3"]


def test_stub_stands_for_a_large_value() -> None:
    """A stub is the content itself, says what is missing, and is counted as sent."""
    bodies = [user("q"), assistant(LONG), user("q2")]
    wanted, context = load_large(bodies, stub_large=True)
    stub = history(context)[1]

    assert wanted == []
    assert list(stub) == ["type", "channel", "bytes", "tokens", "preview"]
    assert (stub["type"], stub["bytes"], stub["tokens"]) == ("threadkeep_ref", 15_002, 3000)
    assert LONG.startswith(stub["preview"])
    assert context.tokens.total == count_openai(sent(context), words)


def test_calls_and_results_are_never_stubbed() -> None:
    """A stub in their place would tear pairs apart, so they are fetched all the same."""
    arguments = calling(["c1"])
    arguments["tool_calls"][0]["function"]["arguments"] = json.dumps({"text": LONG})
    steps = [arguments, result("c1", "ok"), tool_use(["c2"]), tool_results(["c2"], LONG)]
    wanted, context = load_large([user("q"), *steps, user("q2")], stub_large=True)

    assert [large.member for large in wanted] == ["tool_calls", "content"]
    assert sent(context)[:-2] == [user("q"), *steps]


def test_large_member_that_is_not_sent_is_not_fetched() -> None:
    """A client's long metadata stays where it is."""
    bodies = [{**user("q"), "metadata": {"trace": LONG}}, assistant("a")]
    wanted, context = load_large(bodies)

    assert wanted == []
    assert history(context) == ["q", "a"]


def test_large_message_is_not_doubled() -> None:
    """A long question saved before the load is known by its digest."""
    wanted, context = load_large([*plain_thread(2), user(LONG)], message=user(LONG))

    assert len(wanted) == 1
    assert history(context) == ["msg 001", "msg 002", LONG]
