"""The README's own commands against a real process: what a newcomer does, and what a crash does."""

import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[2]
READY_SECONDS = 90
STOP_SECONDS = 30
USER = {"role": "user", "content": "How long is the Nile?"}
ASSISTANT = {"role": "assistant", "content": "About 6,650 km."}


def command(*arguments: str) -> Sequence[str]:
    return [sys.executable, "-m", "app", *arguments]


def environment(**settings: str) -> dict[str, str]:
    """The environment without settings of whoever runs the tests."""
    foreign = ("THREADKEEP_", "DATABASE_URL", "VECTOR_DATABASE_URL", "REDIS_URL")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(foreign)}
    return kept | settings


@pytest.fixture
def settings(tmp_path: Path) -> Mapping[str, str]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    return {"THREADKEEP_DATA_DIR": str(tmp_path / "data"), "THREADKEEP_PORT": str(port)}


@contextmanager
def running(settings: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """What `./dev run` does once the environment is made, until the block ends or it is stopped."""
    with log.open("ab") as errors:
        process = subprocess.Popen(  # noqa: S603  # our own program
            command("run"),
            cwd=ROOT,
            env=environment(**settings),
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(STOP_SECONDS)


@contextmanager
def connected(
    process: subprocess.Popen[bytes], settings: Mapping[str, str], log: Path
) -> Iterator[httpx.Client]:
    """A client, once the service says that it is ready."""
    url = f"http://127.0.0.1:{settings['THREADKEEP_PORT']}"
    with httpx.Client(base_url=url, timeout=10) as client:
        deadline = time.monotonic() + READY_SECONDS
        while not is_ready(client):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)  # between two looks at a condition
        yield client


def is_ready(client: httpx.Client) -> bool:
    try:
        return client.get("/readyz").status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def stop(process: subprocess.Popen[bytes], number: signal.Signals) -> int:
    process.send_signal(number)
    return process.wait(STOP_SECONDS)


def stored(client: httpx.Client) -> list[dict[str, object]]:
    answer = client.get("/v1/threads/t1/context")
    assert answer.status_code == httpx.codes.OK, answer.text
    messages: list[dict[str, object]] = answer.json()["messages"]
    return [message for message in messages if "name" not in message]


def run(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603  # our own program
        command(*arguments),
        cwd=ROOT,
        env=environment(**settings),
        capture_output=True,
        text=True,
        check=False,
        timeout=READY_SECONDS,
    )


def test_run_keeps_data_through_stops_and_kills(
    settings: Mapping[str, str], tmp_path: Path
) -> None:
    """Nothing but Python is needed; what was saved is there after Ctrl-C and after a kill."""
    log = tmp_path / "log"
    with running(settings, log) as process, connected(process, settings, log) as client:
        turn = {"key": "turn-1", "messages": [USER, ASSISTANT]}
        answer = client.post("/v1/threads/t1/turns", json=turn)
        assert answer.status_code == httpx.codes.CREATED, answer.text
        assert stop(process, signal.SIGINT) == 0
    with running(settings, log) as process, connected(process, settings, log) as client:
        assert stored(client) == [USER, ASSISTANT]
        process.kill()
        process.wait(STOP_SECONDS)
    with running(settings, log) as process, connected(process, settings, log) as client:
        assert stored(client) == [USER, ASSISTANT]
        assert stop(process, signal.SIGTERM) == 128 + signal.SIGTERM
    assert not (Path(settings["THREADKEEP_DATA_DIR"]) / "postgres" / "postmaster.pid").exists()
    assert "Nile" not in log.read_text()


def test_second_run_on_the_same_data_is_told(settings: Mapping[str, str], tmp_path: Path) -> None:
    """Two services never share a data folder: the second stops with one sentence."""
    log = tmp_path / "log"
    with running(settings, log) as process, connected(process, settings, log):
        second = run("run", **settings)
        assert second.returncode == 2
        assert second.stderr.count("\n") == 1
        assert "THREADKEEP_DATA_DIR" in second.stderr


def test_key_is_minted() -> None:
    """`./dev key TENANT` prints a key, and the entry that lets it in but does not give it away."""
    minted = run("key", "acme", "--scopes", "read+admin")
    key, entry = minted.stdout.splitlines()
    assert entry == f"acme:{hashlib.sha256(key.encode()).hexdigest()}:read+admin"
    assert run("key", "acme", "--scopes", "root").returncode == 2


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({}, "DATABASE_URL"),
        ({"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}, "DATABASE_URL"),
        ({"DATABASE_URL": "postgresql://db/x", "THREADKEEP_PORT": "x"}, "THREADKEEP_PORT"),
    ],
)
def test_wrong_setting_stops_the_start(settings: dict[str, str], named: str) -> None:
    """A missing or wrong setting ends the start with one sentence that names it."""
    ended = run("serve", **settings)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert named in ended.stderr
