"""Settings: what is read, what is refused, and that a refusal is one sentence with a name in it."""

import hashlib
import os

import pytest
from pydantic import ValidationError

from app.settings import ApiKeyEntry, Settings, SettingsInvalid, load_settings

URL = "postgresql://user:secret@db:5432/app"
DIGEST = hashlib.sha256(b"key").hexdigest()


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith("THREADKEEP_") or name.upper().endswith(
            ("DATABASE_URL", "REDIS_URL")
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv("DATABASE_URL", URL)


def sentence() -> str:
    with pytest.raises(SettingsInvalid) as caught:
        load_settings()
    text = str(caught.value)
    assert text.endswith(".")
    assert "\n" not in text
    return text


def test_database_url_is_all_it_takes() -> None:
    """With nothing but a database the service has its documented defaults."""
    settings = load_settings()
    assert (settings.host, settings.port, settings.db_schema) == ("127.0.0.1", 8080, "threadkeep")
    assert (settings.window, settings.stride, settings.token_budget) == (60, 20, 16_000)
    assert settings.redis_url is settings.summarizer_url is None
    assert settings.migrate
    assert not settings.named_statements


def test_missing_database_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a database the start stops and says which variable is missing."""
    monkeypatch.delenv("DATABASE_URL")
    assert sentence() == "DATABASE_URL is missing."


def test_vector_database_url_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """VECTOR_DATABASE_URL is read where there is no DATABASE_URL, and only there."""
    monkeypatch.setenv("VECTOR_DATABASE_URL", "postgres://other/db")
    assert load_settings().database_url == URL
    monkeypatch.delenv("DATABASE_URL")
    assert load_settings().database_url == "postgres://other/db"


@pytest.mark.parametrize(
    "url",
    [
        "postgres://u:p@h/db?sslmode=require&channel_binding=require",
        "postgresql+asyncpg://u@h/db",
        "postgresql://u@/db?host=/var/run/postgresql",
    ],
)
def test_libpq_forms_pass_as_given(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What hosting providers hand out is taken as it is; the store's engine understands it."""
    monkeypatch.setenv("DATABASE_URL", url)
    assert load_settings().database_url == url


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("DATABASE_URL", "mysql://h/db"),
        ("REDIS_URL", "http://h"),
        ("THREADKEEP_PORT", "99999"),
        ("THREADKEEP_PORT", "http"),
        ("THREADKEEP_MIGRATE", "perhaps"),
        ("THREADKEEP_WINDOW", "1"),
        ("THREADKEEP_STRIDE", "61"),
        ("THREADKEEP_TOKEN_BUDGET", "0"),
        ("THREADKEEP_DB_SCHEMA", 'x"; drop'),
        ("THREADKEEP_LOG_LEVEL", "loud"),
        ("THREADKEEP_LEASE_SECONDS", "30"),
        ("THREADKEEP_SUMMARIZER_URL", "http://model/api"),
        ("THREADKEEP_API_KEYS", "acme:00"),
    ],
)
def test_wrong_setting_is_named(variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong value stops the start with one sentence that begins with the variable."""
    monkeypatch.setenv(variable, value)
    assert sentence().startswith(f"{variable} ")


def test_wrong_window_does_not_hide_behind_stride(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stride follows from the window, but the sentence is about the window that was set."""
    monkeypatch.setenv("THREADKEEP_WINDOW", "wide")
    assert sentence().startswith("THREADKEEP_WINDOW ")


@pytest.mark.parametrize(
    ("window", "stride"), [(2, 2), (6, 2), (11, 2), (13, 4), (60, 20), (100, 32)]
)
def test_stride_is_a_third_of_the_window(
    window: int, stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default stride is a third of the window, rounded down to even, and at least 2."""
    monkeypatch.setenv("THREADKEEP_WINDOW", str(window))
    assert load_settings().stride == stride


def test_empty_variable_is_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compose files pass unset variables on as empty ones; those mean the default."""
    monkeypatch.setenv("THREADKEEP_STRIDE", "")
    monkeypatch.setenv("REDIS_URL", "")
    assert load_settings().stride == 20
    assert load_settings().redis_url is None


def test_api_keys_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each entry becomes a tenant, a digest and scopes, read and write unless it says otherwise."""
    other = hashlib.sha256(b"other").hexdigest().upper()
    monkeypatch.setenv("THREADKEEP_API_KEYS", f"acme:{DIGEST}, beta:{other}:read+admin ,")
    assert load_settings().api_keys == (
        ApiKeyEntry("acme", bytes.fromhex(DIGEST), frozenset({"read", "write"})),
        ApiKeyEntry("beta", bytes.fromhex(other), frozenset({"read", "admin"})),
    )


@pytest.mark.parametrize(
    "entries",
    [
        DIGEST,
        f":{DIGEST}",
        f"a:{DIGEST}:root",
        f"a:{DIGEST}:read:x",
        f"a:{DIGEST},b:{DIGEST}",
        "a:b c",
    ],
)
def test_wrong_api_keys_are_not_quoted(entries: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong entry is named by its number: it may hold a key that was pasted in by mistake."""
    monkeypatch.setenv("THREADKEEP_API_KEYS", entries)
    text = sentence()
    assert text.startswith("THREADKEEP_API_KEYS ")
    assert entries not in text


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org"])  # noqa: S104
def test_no_keys_no_network(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without API keys every caller is an admin, so the service listens on loopback only."""
    monkeypatch.setenv("THREADKEEP_HOST", host)
    assert "THREADKEEP_API_KEYS" in sentence()
    monkeypatch.setenv("THREADKEEP_API_KEYS", f"acme:{DIGEST}")
    assert load_settings().host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_no_keys(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every spelling of loopback is loopback."""
    monkeypatch.setenv("THREADKEEP_HOST", host)
    assert load_settings().host == host


def test_settings_do_not_change_or_tell() -> None:
    """The settings are frozen, and printing them shows no password."""
    settings = Settings(database_url=URL)
    with pytest.raises(ValidationError):
        settings.port = 1  # type: ignore[misc]  # what must not work
    assert "secret" not in repr(settings)


def test_every_setting_says_why() -> None:
    """Each field carries the description that the documentation repeats."""
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []
