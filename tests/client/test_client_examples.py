"""The examples of the client, run as a reader runs them, against a real service."""

import os
import subprocess
import sys

from tests.service import ROOT, Service

TIMEOUT_SECONDS = 60


def run(name: str, service: Service, api_key: str) -> list[str]:
    """The lines that an example prints."""
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-m", f"examples.{name}", "--url", service.url],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": ".:client", "THREADKEEP_API_KEY": api_key},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_working_fields_never_leak(service: Service, api_key: str) -> None:
    """Each question works with its own documents, the last with none, and none are stored."""
    printed = run("pattern_b", service, api_key)

    worked = [line.partition("worked with: ")[2] for line in printed if "worked with" in line]
    assert worked == [
        "['The Nile is 6,650 km long.']",
        "['The Amazon is 6,400 km long.']",
        "[]",
    ]
    assert "(You have asked 3 questions.)" in "\n".join(printed)
    assert printed[-2].startswith("stored: 6 messages")
    assert printed[-1] == "working fields in the store: none"


def test_an_answer_is_made_anew(service: Service, api_key: str) -> None:
    """Both answers stay in the tree; the chosen one is what the model reads."""
    printed = run("regenerate", service, api_key)

    starred = [line.split(" ")[-1] for line in printed if line.startswith("  *")]
    assert starred == ["Amazon.", "Hello.", "Nile.", "Hello."]
    assert printed[-1].endswith("['Hello!', 'Hello.', 'Name a river.', 'The Nile.']")


def test_what_finished_never_runs_again(service: Service, api_key: str) -> None:
    """Of a super-step that crashed only what crashed is run again; the answer goes to who asked."""
    printed = run("pattern_a", service, api_key)

    assert printed == [
        "crashed after: ['flight', 'hotel']",
        "resumed, ran: ['hotel', 'book']",
        "it asks: Book Hotel du Lac and LX 8?",
        "answered, ran: ['book']",
        "booked: Hotel du Lac and LX 8",
    ]
