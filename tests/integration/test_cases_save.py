"""Saves as they went wrong elsewhere: retries, repeats, keys, and what an identity is made of."""

from collections.abc import Mapping
from itertools import combinations

import pytest

from tests.integration.cases import Check, Run, no_more, playing, run_case, source_of, texts
from tests.integration.conftest import MakeClient

pytestmark = pytest.mark.anyio


async def hash_field_boundaries(run: Run) -> None:
    """All ids that can be computed differ pairwise; an id the service refuses counts as passing."""
    for given in run.case["input"]["ids_of"]:
        message = {"role": given["role"], "content": given["content"]}
        await run.save({"thread": given["thread"], "messages": [message]})
    stored = [saved for saved in run.saved if saved.status_code == 201]
    ids = [saved.json()["messages"][0]["id"] for saved in stored]

    assert [saved.status_code for saved in run.saved] == [201, 201, 201, 422, 201, 201]
    assert all(one != other for one, other in combinations(ids, 2))


async def key_reused(run: Run) -> None:
    """The 409 names the key and does not say the content back."""
    refused = run.saved[1]

    assert refused.json()["type"] == "urn:threadkeep:problem:key-reused"
    assert refused.json()["key"] == "k1"
    assert "send" not in refused.text


async def old_turn_equal_to_earlier(run: Run) -> None:
    """Without an anchor content decides, and the answer tells of them; with keys all is stored."""
    third = run.saved[2]

    assert (third.status_code, third.json()["created"]) == (200, False)
    assert any(
        "'parent'" in w["detail"] and "'key'" in w["detail"] for w in third.json()["warnings"]
    )

    for number, step in enumerate(run.steps[:3]):
        await run.save({**step["save"], "thread": "t2", "key": f"k{number}"})
    assert len(await run.raw("t2")) == 6


async def repeat_continue(run: Run) -> None:
    """Six distinct message ids, and roles that alternate."""
    ids = {message["id"] for saved in run.saved for message in saved.json()["messages"]}
    roles = [message["role"] for message in await run.raw()]

    assert len(ids) == 6
    assert roles == ["user", "assistant"] * 3


async def differs_in_trailing_space(run: Run) -> None:
    """What is stored is the raw of the first write."""
    assert run.saved[1].status_code == 409
    assert [message["content"] for message in await run.raw()] == ["hello"]


async def retry_same_key(run: Run) -> None:
    """All replies name the same ids, and neither the rows nor their order change by retries."""
    before = await run.raw()
    thread = (await run.client.get("/v1/threads/t1")).json()
    await run.play(run.steps[1:3])
    lines = [
        [(message["id"], message["position"]) for message in saved.json()["messages"]]
        for saved in run.saved
    ]

    assert [saved.status_code for saved in run.saved] == [201, 200, 200, 200, 200]
    assert lines == [lines[0]] * 5
    assert await run.raw() == before
    assert (await run.client.get("/v1/threads/t1")).json() == thread


async def volatile_metadata(run: Run) -> None:
    """The metadata of the first write stays."""
    assert [message["metadata"]["trace"] for message in await run.raw()] == ["x1"]


CHECKS: Mapping[str, Check] = {
    "save-image-only-messages-distinct": no_more,
    "save-key-reused-with-other-content": key_reused,
    "save-key-scoped-to-tenant-and-thread": no_more,
    "save-non-latin-not-collapsed": no_more,
    "save-old-turn-equal-to-earlier-not-tip": old_turn_equal_to_earlier,
    "save-repeat-continue-with-keys": repeat_continue,
    "save-retry-differs-in-trailing-space": differs_in_trailing_space,
    "save-retry-no-key-at-tip": no_more,
    "save-retry-same-key": retry_same_key,
    "save-user-kept-when-model-fails": no_more,
    "save-volatile-metadata-not-identity": volatile_metadata,
    "save-hash-field-boundaries": hash_field_boundaries,
}
BY_HAND = ["save-strip-rule-change-keeps-ids"]


@pytest.mark.parametrize("name", CHECKS, ids=source_of)
async def test_case(name: str, make_client: MakeClient, tenant: str) -> None:
    """A case's steps are answered as it expects, and its properties hold."""
    await run_case(name, CHECKS[name], make_client, tenant)


async def test_strip_rule_change_keeps_ids(make_client: MakeClient, tenant: str) -> None:
    """A deployment whose rules have another id takes a retry for one, and cleans what it loads.

    Source: joshuaswarren/remnic#2359 (save-strip-rule-change-keeps-ids). The price of an image is
    part of the rules' id, so another one invalidates every stored count.
    """
    name = "save-strip-rule-change-keeps-ids"
    async with playing(name, make_client, tenant) as run:
        await run.play(run.steps[:1])
        await run.start(image_tokens=77)
        await run.play(run.steps[2:])
        await run.check_data()

        assert [saved.status_code for saved in run.saved] == [201, 200]
        assert texts(run.loaded[0]) == ["capital?", "Lisbon."]
