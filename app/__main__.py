"""The command line: serve · run · migrate · key · openapi · servers."""

import argparse
import asyncio
import hashlib
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import uvicorn
import yaml
from fastapi import FastAPI

from app.adapters.embedded import EmbeddedFailed, embedded_servers
from app.adapters.sql.migrate import MigrationError, migrate
from app.core.errors import StoreUnavailable
from app.main import create_app, strip_profile
from app.settings import PREFIX, Settings, SettingsInvalid, load_settings, parse_api_key
from app.telemetry import configure_logging

_SHUTDOWN_SECONDS = 20
"""How long requests under way may take to end after a signal; a load takes milliseconds."""

_INTERRUPTED = 130
"""What a shell reports for Ctrl-C."""

_NO_DATABASE = "postgresql://"
"""Stands in for DATABASE_URL where none is needed, or where none is known yet."""

_TRY = """\
Threadkeep starts on http://{host}:{port} with its data in {data_dir}; Ctrl-C stops it. Try:

curl -s http://{host}:{port}/v1/threads/t1/turns{key} -H 'content-type: application/json' \\
  -d '{{"key": "turn-1", "messages": [{{"role": "user", "content": "How long is the Nile?"}},
                                    {{"role": "assistant", "content": "About 6,650 km."}}]}}'
curl -s 'http://{host}:{port}/v1/threads/t1/context'{key}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code; what stops a start is said in one sentence."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options))
    except StoreUnavailable as error:
        return _fail(f"DATABASE_URL: {error}")
    except (SettingsInvalid, EmbeddedFailed, MigrationError, PermissionError) as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return _INTERRUPTED


def build_app() -> FastAPI:
    """Make the application from the environment: once in each of uvicorn's processes."""
    settings = load_settings()
    configure_logging(settings.log_level)
    return create_app(settings)


def _serve(_: argparse.Namespace) -> int:
    settings = load_settings()
    strip_profile(settings)  # a bad rule stops the start before anything is touched
    _require_free_port(settings)
    configure_logging(settings.log_level)
    if settings.migrate:
        asyncio.run(migrate(settings.database_url, settings.db_schema))
        os.environ[f"{PREFIX}MIGRATE"] = "false"  # done, once for all processes
    uvicorn.run(
        "app.__main__:build_app",
        factory=True,
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        loop="uvloop",
        http="httptools",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    return 0


def _require_free_port(settings: Settings) -> None:
    """Say in one sentence what uvicorn would say in the middle of its log."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            name = f"{PREFIX}PORT"
            raise SettingsInvalid(
                f"{name}: {settings.host}:{settings.port} cannot be had ({error.strerror});"
                f" is another one running? {name}=8081 takes another port."
            ) from None


def _run(options: argparse.Namespace) -> int:
    with _embedded() as settings:
        _require_free_port(settings)
        key = ' -H "Authorization: Bearer $KEY"' if settings.api_keys else ""
        print(_TRY.format(**settings.model_dump(), key=key), flush=True)
        return _serve(options)


def _migrate(_: argparse.Namespace) -> int:
    settings = load_settings()
    asyncio.run(migrate(settings.database_url, settings.db_schema))
    return 0


def _servers(options: argparse.Namespace) -> int:
    with _embedded():
        return subprocess.run(options.program, check=False).returncode  # noqa: S603  # the caller's


def _key(options: argparse.Namespace) -> int:
    key = f"tk_{secrets.token_urlsafe(32)}"
    entry = f"{options.tenant}:{hashlib.sha256(key.encode()).hexdigest()}"
    if options.scopes:
        entry += f":{options.scopes}"
    try:
        parse_api_key(entry)
    except ValueError as error:
        return _fail(f"TENANT or --scopes: {error}.")
    print("The key, shown this once, and its entry for THREADKEEP_API_KEYS:", file=sys.stderr)
    print(f"{key}\n{entry}")
    return 0


def _openapi(_: argparse.Namespace) -> int:
    document = create_app(load_settings(database_url=_NO_DATABASE)).openapi()
    yaml.safe_dump(document, sys.stdout, sort_keys=False, allow_unicode=True, width=100)
    return 0


@contextmanager
def _embedded() -> Iterator[Settings]:
    """Start the servers that no URL is given for, and put theirs into the environment."""
    given = os.environ.get("DATABASE_URL") or os.environ.get("VECTOR_DATABASE_URL") or ""
    settings = load_settings(database_url=given or _NO_DATABASE)
    redis_url = settings.redis_url or ""
    with embedded_servers(settings.data_dir, database_url=given, redis_url=redis_url) as urls:
        os.environ |= {"DATABASE_URL": urls.database_url, "REDIS_URL": urls.redis_url}
        if not given:
            os.environ.setdefault(f"{PREFIX}NAMED_STATEMENTS", "true")
        yield settings


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m app", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    for name, command, about in (
        ("serve", _serve, "serve with the servers that the environment names"),
        ("run", _run, "start PostgreSQL and Valkey from wheels where no URL is set, and serve"),
        ("migrate", _migrate, "bring the database's schema up to date"),
        ("openapi", _openapi, "print the contract as YAML; needs no server"),
    ):
        commands.add_parser(name, help=about).set_defaults(command=command)
    key = commands.add_parser("key", help="mint an API key for a tenant")
    key.add_argument("tenant")
    key.add_argument("--scopes", help="read, write and admin, joined by +; default read+write")
    key.set_defaults(command=_key)
    servers = commands.add_parser("servers", help="run a program beside the embedded servers")
    servers.add_argument("program", nargs=argparse.REMAINDER)
    servers.set_defaults(command=_servers)
    return parser


def _fail(sentence: str) -> int:
    print(f"threadkeep: {sentence}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
