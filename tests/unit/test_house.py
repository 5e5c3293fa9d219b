"""The house rules that no other tool checks: what must stand in two places stands in both."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.api.problems import STATUS
from app.core.errors import ThreadkeepError
from app.settings import Settings, variable_of

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
DEV = (ROOT / "dev").read_text()
MAX_LINES = 300


def leaves(kind: type[ThreadkeepError]) -> Iterator[type[ThreadkeepError]]:
    for below in kind.__subclasses__():
        yield from leaves(below)
    if "slug" in vars(kind) and kind is not ThreadkeepError:
        yield kind


def test_files_stay_readable() -> None:
    """No module of the service and of its client is longer than 300 lines."""
    modules = [
        path for folder in ("app", "client", "bench") for path in (ROOT / folder).rglob("*.py")
    ]
    sizes = {path: path.read_text().count("\n") for path in modules}
    assert [str(path) for path, lines in sizes.items() if lines > MAX_LINES] == []


def test_packages_are_empty() -> None:
    """Packages hold no code in __init__.py, but for the client's: that is what users import."""
    marked = [path for path in ROOT.glob("[!.]*/**/__init__.py") if path.read_text().strip()]
    assert marked == [ROOT / "client" / "threadkeep_client" / "__init__.py"]


def test_alembic_folder_is_no_package() -> None:
    """A package of that name in the root would hide the library it is for."""
    assert not (ROOT / "alembic" / "__init__.py").exists()


def test_settings_are_documented() -> None:
    """The README's table has a row for every setting, and none for another."""
    documented = set(re.findall(r"^\| `([A-Z_]+)`", README, re.MULTILINE))
    settings = {variable_of(field) for field in Settings.model_fields}
    assert settings - documented == set()
    assert documented - settings - {"VECTOR_DATABASE_URL"} == set()


def test_errors_have_a_status() -> None:
    """Every error with a slug is in the table of statuses, or below a class that is."""
    unmapped = [kind for kind in leaves(ThreadkeepError) if not set(kind.__mro__) & set(STATUS)]
    assert unmapped == []


def test_errors_tell_themselves_apart() -> None:
    """Each error has a slug of its own and a docstring whose first line is its title."""
    kinds = set(leaves(ThreadkeepError))
    assert len({kind.slug for kind in kinds}) == len(kinds)
    assert [kind for kind in kinds if not (kind.__doc__ or "").splitlines()[0].endswith(".")] == []


def test_decisions_are_listed() -> None:
    """Every decision record is in the index, and the index lists no other."""
    folder = ROOT / "docs" / "adr"
    listed = set(re.findall(r"\]\((\d{4}-[^)]+\.md)\)", (folder / "README.md").read_text()))
    assert listed == {path.name for path in folder.glob("[0-9]*.md")}


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_commands_of_the_docs_exist(page: str) -> None:
    """Every `./dev verb` a page names is a verb of the script."""
    verbs = set(re.findall(r"^  ([a-z]+)\) *##", DEV, re.MULTILINE))
    named = set(re.findall(r"\./dev ([a-z]+)", (ROOT / page).read_text()))
    assert named
    assert named - verbs == set()


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md")))
def test_links_lead_somewhere(page: Path) -> None:
    """A link to a file of the project leads to one."""
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_locks_name_no_host(name: str) -> None:
    """A lock pins versions by hash and leaves it to each machine where to get them."""
    lines = (ROOT / name).read_text().splitlines()
    allowed = re.compile(
        r"# [^:]*\./dev lock\.|[a-z0-9._-]+==\S+( ; .+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?"
    )
    assert [line for line in lines if not allowed.fullmatch(line)] == []


def test_locks_agree() -> None:
    """Tests run on exactly the versions that the image gets."""
    pin = re.compile(r"^[a-z0-9._-]+==.+(?= \\)", re.MULTILINE)
    image, everything = (
        set(pin.findall((ROOT / name).read_text()))
        for name in ("requirements.lock", "requirements-dev.lock")
    )
    assert image
    assert image - everything == set()


def test_scripts_run() -> None:
    """The scripts are sound shell, and may be executed."""
    for script in (ROOT / "dev", ROOT / ".ci" / "run"):
        assert script.stat().st_mode & 0o111
        subprocess.run(["bash", "-n", script], check=True)  # noqa: S603, S607  # our own files
