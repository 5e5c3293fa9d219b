"""Text as it was mangled elsewhere: what is taken comes back byte for byte, the rest is refused."""

from collections.abc import Mapping

import pytest

from tests.integration.cases import Check, Run, playing, run_case, source_of, texts
from tests.integration.conftest import MakeClient

pytestmark = pytest.mark.anyio

TURNS = "/v1/threads/t1/turns"


async def duplicate_json_keys(run: Run) -> None:
    """Of two equal members the last counts everywhere; the thread is the path's in any case."""
    (raw,) = in_our_words(run)
    saved = await run.post(TURNS, raw)

    assert saved.json()["thread_id"] == "t1"
    assert [message["content"] for message in await run.raw()] == ["b"]
    assert await run.raw("t2") == []


async def nfd_retry(run: Run) -> None:
    """The decomposed spelling is another content: refused under the key, the first write stays."""
    assert run.saved[1].status_code == 409
    assert [message["content"] for message in await run.raw()] == ["caf\u00e9"]


async def nul_in_content(run: Run) -> None:
    """It is stored and comes back as it was sent, the same each time."""
    await run.load()

    assert run.saved[0].status_code == 201
    assert [texts(response) for response in run.loaded] == [["a\0b", "ok"]] * 2
    assert [message["content"] for message in await run.raw()] == ["a\0b", "ok"]


async def kept_byte_for_byte(run: Run) -> None:
    """The raw is what was sent, and so is the user's text in a load."""
    sent = [message["content"] for message in run.sent.values()]

    assert [message["content"] for message in await run.raw()] == sent
    assert texts(run.loaded[0]) == sent


async def surrogate_pair_escape(run: Run) -> None:
    """Two escapes are one character."""
    (raw,) = in_our_words(run)
    saved = await run.post(TURNS, raw)

    assert saved.status_code == 201
    assert texts(await run.load()) == ["cheers \U0001f378"]


CHECKS: Mapping[str, Check] = {
    "enc-duplicate-json-keys": duplicate_json_keys,
    "enc-nfd-retry-same-key": nfd_retry,
    "enc-nul-in-content": nul_in_content,
    "enc-rtl-and-zwnj-kept": kept_byte_for_byte,
    "enc-surrogate-pair-escape": surrogate_pair_escape,
    "enc-whitespace-and-newlines-kept": kept_byte_for_byte,
}
BY_HAND = ["enc-nul-in-metadata-and-args"]


def in_our_words(run: Run) -> list[str]:
    """The case's raw bodies, with the contract's name for the thread."""
    return [raw.replace('"thread":', '"thread_id":') for raw in run.case["input"]["raw_bodies"]]


@pytest.mark.parametrize("name", CHECKS, ids=source_of)
async def test_case(name: str, make_client: MakeClient, tenant: str) -> None:
    """A case's steps are answered as it expects, and its properties hold."""
    await run_case(name, CHECKS[name], make_client, tenant)


async def test_nul_in_metadata_and_args(make_client: MakeClient, tenant: str) -> None:
    """NUL in a message's members comes back; an escape that is text stays the text it was.

    Source: kodustech/kodus-ai#1683 (enc-nul-in-metadata-and-args), its two saves.
    """
    async with playing("enc-nul-in-metadata-and-args", make_client, tenant) as run:
        await run.play(run.steps[:2])
        user, calling = await run.raw()
    (call,) = calling["tool_calls"]

    assert [saved.status_code for saved in run.saved] == [201, 201]
    assert user["metadata"] == {"k\0": "v\0"}
    assert call["function"]["arguments"] == r'{"p":"a\u0000b"}'
