"""The embedded servers: they start wherever they can, and say in a sentence why they cannot."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from app.adapters.embedded import (
    EmbeddedFailed,
    embedded_servers,
    start_postgres,
    stop_postgres,
)
from tests.servers import run_sql


@pytest.fixture
def data_dir() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="threadkeep-") as folder:
        yield Path(folder)


def test_both_serve_from_a_deep_folder(data_dir: Path) -> None:
    """A path too long for a socket is no obstacle, and what was stored survives a restart."""
    deep = data_dir / "a" / ("deep" * 30)
    with embedded_servers(deep) as urls:
        run_sql(urls.database_url, "CREATE TABLE kept ()")
        with redis.Redis.from_url(urls.redis_url) as client:
            assert client.ping()
    with embedded_servers(deep) as urls:
        run_sql(urls.database_url, "SELECT FROM kept")


def test_servers_that_are_given_are_not_started(data_dir: Path) -> None:
    """With both URLs given nothing is started, and not even a folder made."""
    with embedded_servers(
        data_dir / "none", database_url="postgresql://a", redis_url="redis://b"
    ) as urls:
        assert (urls.database_url, urls.redis_url) == ("postgresql://a", "redis://b")
    assert not (data_dir / "none").exists()


def test_cache_asks_for_its_password(data_dir: Path) -> None:
    """Another user of the machine cannot read the cache through its port."""
    with embedded_servers(data_dir, database_url="postgresql://a") as urls:
        stranger = "redis://" + urls.redis_url.rpartition("@")[2]
        with redis.Redis.from_url(stranger) as client, pytest.raises(redis.AuthenticationError):
            client.ping()


def test_lock_files_of_a_killed_server_do_not_matter(data_dir: Path) -> None:
    """A process number left by a kill may by now be some other process's."""
    start_postgres(data_dir)
    stop_postgres(data_dir)
    for name in ("postmaster.pid", ".s.PGSQL.5432.lock"):
        (data_dir / "postgres" / name).write_text(f"{os.getpid()}\n")
    try:
        run_sql(start_postgres(data_dir), "SELECT 1")
    finally:
        stop_postgres(data_dir)


def test_folder_in_use_is_told(data_dir: Path) -> None:
    """A data folder has one user at a time; the next is told so."""
    start_postgres(data_dir)
    try:
        with pytest.raises(EmbeddedFailed, match="THREADKEEP_DATA_DIR"):
            start_postgres(data_dir)
    finally:
        stop_postgres(data_dir)


def test_damaged_data_is_told(data_dir: Path) -> None:
    """Data that PostgreSQL refuses is left alone, and its own words are passed on."""
    start_postgres(data_dir)
    stop_postgres(data_dir)
    (data_dir / "postgres" / "PG_VERSION").write_text("12\n")
    with pytest.raises(EmbeddedFailed, match="incompatible"):
        start_postgres(data_dir)
    stop_postgres(data_dir)
