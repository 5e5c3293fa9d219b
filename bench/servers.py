"""What is measured, as processes: the service, and the floor in the same server."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from app.adapters.embedded import EmbeddedUrls

ROOT = Path(__file__).parents[1]
_START_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Server:
    """A running server. seconds: from its start until it was ready."""

    url: str
    pid: int
    seconds: float

    def memory_bytes(self) -> int:
        """Return what it holds in memory now."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024


@contextmanager
def service(urls: EmbeddedUrls, **settings: str) -> Iterator[Server]:
    """Run the service with its defaults, one worker."""
    given = {"DATABASE_URL": urls.database_url, "REDIS_URL": urls.redis_url, **settings}
    with _running(["-m", "app", "serve"], given, ready="/readyz") as server:
        yield server


@contextmanager
def floor(urls: EmbeddedUrls) -> Iterator[Server]:
    """Run the floor, with the flags that the service gives to its server."""
    command = ["-m", "uvicorn", "bench.floor:app", "--loop", "uvloop", "--http", "httptools"]
    command += ["--no-access-log", "--log-level", "warning"]
    with _running(command, {"DATABASE_URL": urls.database_url}, ready="/load/none") as server:
        yield server


@contextmanager
def _running(command: list[str], given: Mapping[str, str], *, ready: str) -> Iterator[Server]:
    port = _free_port()
    clean = {k: v for k, v in os.environ.items() if not k.startswith("THREADKEEP_")}
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *command, *(["--port", str(port)] if "uvicorn" in command else [])],
        cwd=ROOT,
        env={**clean, "THREADKEEP_PORT": str(port), "THREADKEEP_LOG_LEVEL": "warning", **given},
    )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(f"{url}{ready}", process)
        yield Server(url, process.pid, time.perf_counter() - began)
    finally:
        process.terminate()
        process.wait()


def _wait(url: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(url, timeout=2).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            time.sleep(0.01)  # between two looks at a condition
    raise RuntimeError(f"{process.args!r} did not start")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
