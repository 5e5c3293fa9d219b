"""Plays the cases from the field (tests/data/cases.jsonl) over HTTP, as a client of the service.

A case's steps become calls: `save` and `array` with `persist` are saves, `array`, `history_string`,
`request` and `load` are loads in the three shapes. What a step expects in plain words is checked by
hand, by a function of the case's name in the test module of its area.
"""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import httpx

from app.core.markup import strip_message
from tests.integration.callers import bearer, key_entry, path_of
from tests.integration.conftest import MakeClient

Sent: TypeAlias = dict[str, Any]
"""A message, a batch or a case: JSON that a test looks into."""

# Not splitlines: the cases hold other line separators of Unicode.
LINES = (Path(__file__).parents[1] / "data" / "cases.jsonl").read_text("utf-8").strip().split("\n")
CASES: Mapping[str, Sent] = {case["id"]: case for case in map(json.loads, LINES)}

TENANTS = ("", "A", "B")
SAID = ("role", "content", "name", "tool_calls", "tool_call_id")
INJECTED = ("threadkeep_summary", "threadkeep_marker")
JSON = {"Content-Type": "application/json"}


class Run:
    """One case under way, in tenants of its own.

    saved, loaded, answers: the responses so far, by kind and all together, in order.
    sent: each message as it went out, by the case's own label.
    """

    def __init__(self, name: str, make_client: MakeClient, tenant: str) -> None:
        self.case = CASES[name]
        self.steps: list[Sent] = self.case["input"].get("steps", [])
        self.client: httpx.AsyncClient
        self.saved: list[httpx.Response] = []
        self.loaded: list[httpx.Response] = []
        self.answers: list[httpx.Response] = []
        self.sent: dict[str, Sent] = {}
        self._make_client = make_client
        self.keys = ",".join(key_entry(f"{tenant}{name}", f"key{name}") for name in TENANTS)
        self._open = AsyncExitStack()

    async def start(self, **settings: object) -> None:
        """Start the service; what runs already is stopped first, as in a deploy."""
        await self.stop()
        given = {"api_keys": self.keys, **settings}
        self.client = await self._open.enter_async_context(self._make_client(**given))
        self.client.headers.update(bearer("key"))

    async def stop(self) -> None:
        """Stop the service."""
        await self._open.aclose()

    async def play(self, steps: Sequence[Sent] | None = None) -> None:
        """Do the steps in order, all of the case unless told which."""
        for step in self.steps if steps is None else steps:
            for name, given in step.items():
                await _STEPS[name](self, given)

    async def save(self, batch: Mapping[str, Any], **members: object) -> httpx.Response:
        """Save one batch; members are sent beside it."""
        known = ("thread", "tenant", "messages", "persist", "created_at")
        rest = {name: value for name, value in batch.items() if name not in known}
        body = {**rest, **members, "messages": self._messages(batch)}
        path = path_of(batch["thread"], "/turns")
        response = await self.client.post(path, json=body, headers=_as(batch))
        self.saved.append(response)
        self.answers.append(response)
        return response

    async def load(self, thread_id: object = "t1", **members: object) -> httpx.Response:
        """Load a stored thread."""
        return await self.context({"thread_id": thread_id, **members})

    async def context(
        self, body: Mapping[str, object], headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Load, in whatever shape."""
        response = await self.client.post("/v1/context", json=body, headers=dict(headers or {}))
        self.loaded.append(response)
        self.answers.append(response)
        return response

    async def post(self, path: str, raw: str) -> httpx.Response:
        """Send a body as it is."""
        response = await self.client.post(path, content=raw.encode("utf-8"), headers=JSON)
        self.answers.append(response)
        return response

    async def raw(self, thread_id: str = "t1") -> list[Sent]:
        """Read the thread's messages as they are stored, all of them."""
        items: list[Sent] = []
        query: dict[str, Any] = {"limit": 100}
        while True:
            page = await self.client.get(path_of(thread_id, "/messages"), params=query)
            if page.status_code == 404:
                return []
            items += page.json()["items"]
            if not page.json()["has_more"]:
                return items
            query["cursor"] = page.json()["next_cursor"]

    async def seed(self, last: int, first: int = 1, thread: str = "t1", **texts: object) -> None:
        """Save `msg NNN` from first to last, an exchange a turn; texts replace some, by `mNNN`."""
        for number in range(first, last + 1, 2):
            pair = range(number, min(number + 1, last) + 1)
            messages = [_numbered(n, texts.get(f"m{n:03}")) for n in pair]
            await self.save({"thread": thread, "key": f"seed-{number}", "messages": messages})
            assert self.saved[-1].status_code == 201, self.saved[-1].text

    async def build_summary(self, thread_id: str = "t1") -> Sent:
        """Have the summaries that are due built, and wait for them."""
        response = await self.client.post(path_of(thread_id, "/summary"))
        assert response.status_code == 200, response.text
        report: Sent = response.json()
        return report

    def expected(self, refs: Sequence[str]) -> list[Sent]:
        """What a load gives of the messages with these labels."""
        return [said(strip_message(self.sent[ref])) for ref in refs]

    async def check_data(self) -> None:
        """Hold the answers against the case's `status`, `survive`, `survive_each` and `rows`."""
        expect = self.case["expect"]
        for response in self.answers:
            assert response.status_code < 500, response.text
        for wanted, response in zip(
            _statuses(expect, len(self.answers)), self.answers, strict=False
        ):
            assert is_status(response, wanted), (wanted, response.text)
        each = expect.get("survive_each", [expect["survive"]] if "survive" in expect else [])
        loaded = self.loaded[-len(each) :] if each else []
        assert [history(load) for load in loaded] == [self.expected(refs) for refs in each]
        if "rows" in expect:
            assert len(await self.raw()) == expect["rows"]

    def _messages(self, batch: Mapping[str, Any]) -> list[Sent]:
        """The batch in the contract's words, remembered by label as it was first sent."""
        messages = []
        for given in batch["messages"]:
            body = {name: value for name, value in given.items() if name not in ("ref", "key")}
            body |= {"id": given["key"]} if "key" in given else {}
            body |= {"created_at": batch["created_at"].split()[0]} if "created_at" in batch else {}
            self.sent.setdefault(given.get("ref", ""), body)
            messages.append(body)
        return messages

    async def _array(self, given: Mapping[str, Any]) -> None:
        if given["persist"]:
            await self.save(given)
        else:
            options = {name: given[name] for name in ("window",) if name in given}
            await self.context({"conversation": self._messages(given), **options})

    async def _load(self, given: Mapping[str, Any]) -> None:
        options = {name: given[name] for name in ("window",) if name in given}
        if "budget" in given:
            options["token_budget"] = int(given["budget"].split()[0])
        number = given.get("thread_json", "").split()
        thread_id = int(number[0]) if number else given["thread"]
        await self.context({"thread_id": thread_id, **options}, _as(given))

    async def _history_string(self, given: Mapping[str, Any]) -> None:
        await self.context({"history": given["text"], "message": given.get("message")})

    async def _request(self, given: Mapping[str, Any]) -> None:
        messages = self._messages({"messages": given["conversation"]})
        await self.context({"thread_id": given["thread"], "conversation": messages})

    async def _seed_gen(self, given: str) -> None:
        await self.seed(int(re.findall(r"\bm(\d+)", given)[-1]))

    async def _pass(self, _: object) -> None:
        """Words for the reader, or a read that the checks make."""


_STEPS: Mapping[str, Callable[[Run, Any], Awaitable[object]]] = {
    "save": Run.save,
    "array": Run._array,
    "load": Run._load,
    "history_string": Run._history_string,
    "request": Run._request,
    "seed_gen": Run._seed_gen,
    **dict.fromkeys(("note", "as_token", "read_raw", "count_rows", "count_threads"), Run._pass),
}

Check: TypeAlias = Callable[[Run], Awaitable[None]]
"""Plays a case whose steps are prose, or checks what its data cannot say."""


@asynccontextmanager
async def playing(
    name: str, make_client: MakeClient, tenant: str, **settings: object
) -> AsyncIterator[Run]:
    """Open a run of a case, with the service started."""
    run = Run(name, make_client, tenant)
    try:
        await run.start(**settings)
        yield run
    finally:
        await run.stop()


async def run_case(name: str, check: Check, make_client: MakeClient, tenant: str) -> None:
    """Play all steps of a case, hold the answers against its data, then against its `must`."""
    async with playing(name, make_client, tenant) as run:
        await run.play()
        await run.check_data()
        await check(run)


async def no_more(run: Run) -> None:
    """The case's data says it all."""


def source_of(name: str) -> str:
    """A test's id: the case and the report it was written after."""
    return f"{name} <- {CASES[name]['source']}"


def history(response: httpx.Response) -> list[Sent]:
    """The loaded history: all messages but what the service put in, by what they say."""
    assert response.status_code == 200, response.text
    return [said(message) for message in response.json()["messages"] if not is_injected(message)]


def is_injected(message: Mapping[str, Any]) -> bool:
    """Tell whether the service put the message in: by role and name, never by what it says."""
    return message["role"] == "system" and message.get("name") in INJECTED


def texts(response: httpx.Response) -> list[Any]:
    """The contents of the loaded history."""
    return [message["content"] for message in history(response)]


def said(message: Mapping[str, Any]) -> Sent:
    """The members of a message that a model reads."""
    return {name: message[name] for name in SAID if name in message}


def is_status(response: httpx.Response, wanted: str) -> bool:
    """Tell whether a status is, for example, `2xx` or `409`."""
    return all(a in ("x", b) for a, b in zip(wanted, str(response.status_code), strict=True))


def numbered(numbers: Sequence[int]) -> list[str]:
    """The texts of seeded messages."""
    return [f"msg {number:03}" for number in numbers]


def _numbered(number: int, content: object = None) -> Sent:
    role = "user" if number % 2 else "assistant"
    return {"role": role, "content": content or f"msg {number:03}"}


def _statuses(expect: Mapping[str, Any], number: int) -> list[str]:
    """What each answer's status should be; those of the loads at the end are not always told."""
    wanted = expect.get("status", [])
    if isinstance(wanted, list):
        return wanted
    return [next(word for word in wanted.split() if word[0].isdigit())] * number


def _as(given: Mapping[str, Any]) -> dict[str, str]:
    return bearer(f"key{given.get('tenant', '')}")
