"""The distribution: it builds with no network, and what it installs stands alone."""

import subprocess
import sys
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "client"

PROOF = """
import importlib.util, sys
import threadkeep_client
assert importlib.util.find_spec("app") is None
assert threadkeep_client.__file__.startswith(sys.argv[1])
names = {name.partition(".")[0] for name in sys.modules}
print(*sorted(names & {"httpx", "langchain_core", "langgraph", "agents", "pydantic_ai"}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as a release builds it but offline."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "uv", "build", "--offline", str(CLIENT), "-o", str(folder))
    assert len(list(folder.glob("*.tar.gz"))) == 1
    [wheel] = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        return message_from_bytes(archive.read(name))


def run(*command: str, cwd: Path | None = None) -> str:
    done = subprocess.run(  # noqa: S603 (our own commands)
        command, cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_installed_wheel_stands_alone(wheel: Path, tmp_path: Path) -> None:
    """Installed elsewhere it imports without the service, and loads no framework."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    run(*pip, "--no-deps", "--no-index", "--target", str(tmp_path), str(wheel))
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{PROOF}"
    assert run(sys.executable, "-c", script, str(tmp_path), cwd=tmp_path).split() == ["httpx"]


def test_wheel_holds_every_module_and_nothing_else(wheel: Path) -> None:
    """All of the package is in it, the marker of its types too, and no test or setting."""
    package = CLIENT / "threadkeep_client"
    sources = {f"threadkeep_client/{path.name}" for path in package.iterdir() if path.is_file()}
    with ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if not name.endswith("/")}
    assert {name for name in held if ".dist-info/" not in name} == sources
    assert "threadkeep_client/py.typed" in held


def test_metadata(metadata: Message) -> None:
    """It needs httpx only; the frameworks are extras; the README is its page."""
    needs = metadata.get_all("Requires-Dist") or []
    assert [need.partition(">")[0] for need in needs if "extra ==" not in need] == ["httpx"]
    extras = {"langgraph", "langchain", "openai-agents", "pydantic-ai"}
    assert set(metadata.get_all("Provides-Extra") or []) == extras
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert (CLIENT / "README.md").read_text().strip() in metadata.as_string()


def test_client_imports_nothing_of_the_service() -> None:
    """No module of the client, and none of its README's examples, imports `app`."""
    pages = [*(CLIENT / "threadkeep_client").glob("*.py"), CLIENT / "README.md"]
    lines = [line.strip() for page in pages for line in page.read_text().splitlines()]
    assert [line for line in lines if line.startswith(("from app", "import app"))] == []
