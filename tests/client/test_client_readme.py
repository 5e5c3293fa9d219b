"""The README's code runs as it stands, block after block, against the running service."""

import ast
import inspect
import re
from pathlib import Path

import httpx
import pytest

from tests.service import Service

README = Path(__file__).resolve().parents[2] / "client" / "README.md"

pytestmark = pytest.mark.anyio


def blocks() -> list[str]:
    """The Python blocks, with the lines before them blank so that a failure names its line."""
    text = README.read_text()
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return ["\n" * text.count("\n", 0, match.start(1)) + match.group(1) for match in found]


async def run(block: str, names: dict[str, object]) -> None:
    """Run one block, whose `await` may stand outside of functions."""
    code = compile(block, str(README), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(code, names)  # noqa: S307 (our own page)
    if inspect.isawaitable(result):
        await result


async def test_every_block_runs(
    service: Service, api_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All blocks run in one go, and the backend of the first one answers and remembers."""
    monkeypatch.setenv("THREADKEEP_URL", service.url)
    monkeypatch.setenv("THREADKEEP_API_KEY", api_key)
    names: dict[str, object] = {"__name__": "readme"}
    try:
        for block in blocks():
            await run(block, names)
        await ask_the_backend(names)
    finally:
        await run("await memory.aclose()", names)


async def ask_the_backend(names: dict[str, object]) -> None:
    chat = httpx.ASGITransport(app=names["app"])  # type: ignore[arg-type] # FastAPI's, from a page
    async with httpx.AsyncClient(transport=chat, base_url="http://backend.test") as browser:
        for question in ("first", "second"):
            reply = await browser.post("/chat/c1", params={"question": question})
            assert reply.json() == f"(your model's answer to: {question})"
    await run("read = [m['content'] async for m in memory.messages('c1')]", names)
    read = names["read"]
    assert isinstance(read, list)
    assert read[0::2] == ["first", "second"]


def test_python_is_all_that_is_shown() -> None:
    """No block of code escapes the test above but the one line of installing."""
    fences = re.findall(r"^```(\w*)$", README.read_text(), re.MULTILINE)
    assert sorted(set(fences)) == ["", "python", "sh"]
    assert fences.count("sh") == 1
    assert fences.count("python") == len(blocks())
