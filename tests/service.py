"""The service as a process of its own on a loopback port, for what only a real process can show."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[1]
START_SECONDS = 30.0
STOP_SECONDS = 20.0


def free_port() -> int:
    """Return a port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Service:
    """One running `python -m app serve`; its log is kept."""

    def __init__(self, port: int, environment: dict[str, str], log: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.log = log
        clean = {k: v for k, v in os.environ.items() if not k.startswith("THREADKEEP_")}
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "app", "serve"],
                cwd=ROOT,
                env={**clean, "THREADKEEP_PORT": str(port), **environment},
                stdout=output,
                stderr=output,
            )

    def wait_ready(self) -> None:
        """Wait until it answers that it is ready; fail with its log when it does not."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if httpx.get(f"{self.url}/readyz", timeout=2).status_code == httpx.codes.OK:
                    return
            except httpx.TransportError:
                time.sleep(0.05)  # between two looks at a condition
        raise AssertionError(f"the service did not start:\n{self.log.read_text()}")

    def kill(self) -> None:
        """End it without warning."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(STOP_SECONDS)

    def stop(self) -> None:
        """End it as a deploy does."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(STOP_SECONDS)


@contextmanager
def running_service(environment: dict[str, str], folder: Path) -> Iterator[Service]:
    """Start the service on a free port, wait until it is ready, stop it at the end."""
    port = free_port()
    service = Service(port, environment, folder / f"service-{port}.log")
    try:
        service.wait_ready()
        yield service
    finally:
        service.stop()
