"""Every setting of the service: one frozen value, read from the environment once at start.

Each field's description says what it is, its unit, and why the default is what it is; the README's
table holds the same names. Only main and __main__ import this; everything else gets plain values.
"""

import re
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    AliasChoices,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

PREFIX = "THREADKEEP_"
_API_KEY = re.compile(
    r"(?P<tenant>[\x21-\x2b\x2d-\x39\x3b-\x7e]{1,255})"
    r":(?P<digest>[0-9a-fA-F]{64})"
    r"(:(?P<scopes>(read|write|admin)(\+(read|write|admin))*))?"
)
# A comma inside the brackets is part of an attribute's value.
_BETWEEN_SELECTORS = re.compile(r",(?![^\[\]]*\])")


class SettingsInvalid(Exception):
    """A setting is missing or wrong; the text is one sentence that names it."""


@dataclass(frozen=True, slots=True)
class ApiKeyEntry:
    """One API key. digest: SHA-256 of the key; the key itself is kept nowhere."""

    tenant_id: str
    digest: bytes
    scopes: frozenset[str]


def _is_postgres(url: str) -> str:
    if urlsplit(url).scheme.partition("+")[0] not in {"postgres", "postgresql"}:
        raise ValueError("it must begin with postgresql:// or postgres://")
    return url


def _is_redis(url: str) -> str:
    if urlsplit(url).scheme not in {"redis", "rediss", "unix"}:
        raise ValueError("it must begin with redis://, rediss:// or unix://")
    return url


def _is_base_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.path.rstrip("/").endswith("/v1"):
        raise ValueError("it must be an http:// or https:// URL that ends in /v1")
    return url.rstrip("/")


def _third_of_window(settings: dict[str, int]) -> int:
    return max(settings["window"] // 3 // 2 * 2, 2)


def _two_calls(settings: dict[str, float]) -> float:
    return 2 * settings["summarizer_timeout_seconds"] + 30


class Settings(BaseSettings):
    """The deployment's settings. Errors: ValidationError, a sentence after load_settings."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        frozen=True,
        populate_by_name=True,
        hide_input_in_errors=True,
    )

    database_url: Annotated[str, AfterValidator(_is_postgres)] = Field(
        validation_alias=AliasChoices("DATABASE_URL", "VECTOR_DATABASE_URL"),
        repr=False,
        description="PostgreSQL 15 or newer, in libpq's form (`postgres://…?sslmode=require`)."
        " Required, but for `./dev run`, which starts its own.",
    )
    redis_url: Annotated[str, AfterValidator(_is_redis)] | None = Field(
        None,
        validation_alias="REDIS_URL",
        repr=False,
        description="Redis or Valkey for the summary cache. None: no cache tier, summaries are"
        " read from PostgreSQL.",
    )
    host: str = Field(
        "127.0.0.1",
        description="Address to listen on. Loopback, since without API keys anyone who reaches"
        " the port is an admin; another address needs THREADKEEP_API_KEYS.",
    )
    port: int = Field(8080, ge=1, le=65535, description="TCP port to listen on.")
    workers: int = Field(
        1, ge=1, le=64, description="Processes. One core each; every one has its own pool."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severe level logged. At info: one line per request, no content."
    )
    api_keys: Annotated[tuple[ApiKeyEntry, ...], NoDecode] = Field(
        (),
        repr=False,
        description="Comma-separated `tenant:sha256hex[:scope+scope]`, scopes read, write, admin"
        " (default read+write); `./dev key TENANT` mints one. Empty: loopback only, every call is"
        " an admin of tenant `default`.",
    )
    require_owner: bool = Field(
        default=False,
        description="Refuse calls without a Threadkeep-Owner header. Off, since a single-user"
        " backend has no owners.",
    )
    data_dir: Path = Field(
        Path(".data"), description="Folder of the embedded servers (`./dev run`)."
    )
    db_schema: str = Field(
        "threadkeep",
        pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$",
        description="PostgreSQL schema of all tables; of its own, so that LangGraph's tables of"
        " the same names may stand beside it.",
    )
    migrate: bool = Field(
        default=True,
        description="Bring the schema up to date at start. Off for deployments that run"
        " `python -m app migrate` as a step of its own.",
    )
    named_statements: bool = Field(
        default=False,
        description="Name prepared statements: a faster save. Off, so that PgBouncer in"
        " transaction mode works; `./dev run` has it on.",
    )
    pool_size: int = Field(
        10, ge=1, le=1000, description="Connections per process; a core keeps fewer than 10 busy."
    )
    pool_timeout_seconds: float = Field(
        2.0, gt=0, description="Seconds to wait for a free connection before 503."
    )
    db_connect_timeout_seconds: float = Field(
        5.0, gt=0, description="Seconds to open a connection; TLS over a WAN takes one."
    )
    db_timeout_seconds: float = Field(
        5.0, gt=0, description="Seconds for one statement; a load takes milliseconds."
    )
    redis_timeout_seconds: float = Field(
        0.25, gt=0, description="Seconds for one call; slower than PostgreSQL is no cache."
    )
    summarizer_url: Annotated[str, AfterValidator(_is_base_url)] | None = Field(
        None,
        description="OpenAI-compatible base URL ending in `/v1`; setting it switches the model"
        " on. None: the built-in extractive summariser.",
    )
    summarizer_model: str = Field(
        "gpt-4o-mini", min_length=1, description="Model to summarise with; any cheap tier does."
    )
    summarizer_api_key: str | None = Field(
        None, repr=False, description="Bearer key for it. None: sent without one."
    )
    summarizer_timeout_seconds: float = Field(
        30.0, gt=0, description="Seconds for one summary; nobody waits for it."
    )
    summarizer_max_tokens: int = Field(
        1000, ge=64, description="Tokens a summary may have: a sixteenth of the default budget."
    )
    lease_seconds: float = Field(
        default_factory=_two_calls,
        gt=0,
        description="Seconds one process may work on a thread's summary before another takes"
        " over. Default: two summariser time-outs and 30, since one turn may build two.",
    )
    summary_ttl_seconds: int = Field(
        600, ge=1, description="Seconds a summary stays in Redis; PostgreSQL keeps it anyway."
    )
    tombstone_seconds: int = Field(
        86_400, ge=0, description="Seconds a deleted thread refuses late retries: a day."
    )
    window: int = Field(
        60, ge=2, le=10_000, description="Messages a context holds whole: about 30 exchanges."
    )
    stride: int = Field(
        default_factory=_third_of_window,
        ge=1,
        description="Messages the window moves at a time, so that prompt caches keep hitting."
        " Default: a third of the window rounded down to even, at least 2.",
    )
    token_budget: int = Field(
        16_000, ge=1, description="Tokens (o200k_base) of a context when the call names none."
    )
    image_tokens: int = Field(
        1000, ge=0, description="Tokens an image or file counts for; providers take 85 to 1,600."
    )
    strip_unwrap: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Comma-separated selectors of your own interface's tags, such as `ui-card` or"
        " `div[data-widget]`: a load takes the tags out and leaves the words (docs/markup.md).",
    )
    strip_drop: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Comma-separated selectors of elements that a load takes out whole. Stored"
        " counts of other rules are made anew on load.",
    )
    max_body_bytes: int = Field(1_048_576, ge=1024, description="Bytes of a request body: 1 MiB.")
    max_checkpoint_bytes: int = Field(
        33_554_432,
        ge=1024,
        description="Bytes of a body on the LangGraph routes, where one blob is a whole channel.",
    )
    max_turn_messages: int = Field(
        200, ge=1, description="Messages one save may store; more is a transcript, not a turn."
    )

    @field_validator("log_level", mode="before")
    @classmethod
    def _lower_case(cls, level: object) -> object:
        return level.lower() if isinstance(level, str) else level

    @field_validator("api_keys", mode="before")
    @classmethod
    def _parse_api_keys(cls, text: object) -> object:
        if not isinstance(text, str):
            return text
        entries = [entry.strip() for entry in text.split(",") if entry.strip()]
        keys = tuple(parse_api_key(entry, number) for number, entry in enumerate(entries, 1))
        if len({key.digest for key in keys}) < len(keys):
            raise ValueError("the same key stands there twice")
        return keys

    @field_validator("strip_unwrap", "strip_drop", mode="before")
    @classmethod
    def _split_selectors(cls, text: object) -> object:
        if not isinstance(text, str):
            return text
        return tuple(rule.strip() for rule in _BETWEEN_SELECTORS.split(text) if rule.strip())

    @model_validator(mode="after")
    def _fit_together(self) -> "Settings":
        if self.stride > self.window:
            raise ValueError(f"{PREFIX}STRIDE must not be larger than {PREFIX}WINDOW")
        if self.lease_seconds <= self.summarizer_timeout_seconds:
            raise ValueError(
                f"{PREFIX}LEASE_SECONDS must be longer than {PREFIX}SUMMARIZER_TIMEOUT_SECONDS"
            )
        if not self.api_keys and not _is_loopback(self.host):
            raise ValueError(
                f"{PREFIX}API_KEYS must be set when {PREFIX}HOST is not a loopback address"
            )
        return self


def load_settings(**given: object) -> Settings:
    """Read the settings from the environment; those given by field name win.

    Errors: SettingsInvalid with one sentence.
    """
    try:
        return Settings(**given)  # type: ignore[arg-type]  # each is validated there
    except ValidationError as error:
        raise SettingsInvalid(_sentence(error)) from None


def variable_of(field: str) -> str:
    """Return the environment variable of a field."""
    return field.upper() if field in {"database_url", "redis_url"} else PREFIX + field.upper()


def parse_api_key(entry: str, number: int = 1) -> ApiKeyEntry:
    """Parse one entry of THREADKEEP_API_KEYS. Errors: ValueError with a sentence's end."""
    match = _API_KEY.fullmatch(entry)
    if match is None:  # by its number: an entry may hold a key that was pasted in by mistake
        raise ValueError(f"entry {number} is not tenant:sha256hex[:scope+scope]")
    scopes = frozenset((match["scopes"] or "read+write").split("+"))
    return ApiKeyEntry(match["tenant"], bytes.fromhex(match["digest"]), scopes)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _sentence(error: ValidationError) -> str:
    first = next(part for part in error.errors() if part["type"] != "default_factory_not_called")
    what = first["msg"].removeprefix("Value error, ").rstrip(".")
    if not first["loc"]:
        return f"{what}."
    name = str(first["loc"][0])
    variable = name if name.isupper() else variable_of(name)
    if first["type"] == "missing":
        return f"{variable} is missing."
    return f"{variable} is wrong: {what[0].lower()}{what[1:]}."
