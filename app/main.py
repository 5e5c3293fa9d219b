"""The composition root: opens what the service needs, hands it down as values, closes it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline

from app.adapters.extractive_summarizer import ExtractiveSummarizer
from app.adapters.http_summarizer import HttpSummarizer
from app.adapters.redis_cache import NullSummaryCache, RedisSummaryCache
from app.adapters.sql.branches import SqlBranchStore
from app.adapters.sql.engine import Database, PoolOptions, create_engine
from app.adapters.sql.erasure import SqlErasure
from app.adapters.sql.graphs import SqlGraphStore
from app.adapters.sql.health import SqlHealth, SqlPing
from app.adapters.sql.history import SqlHistoryStore
from app.adapters.sql.migrate import migrate
from app.adapters.sql.staging import SqlStagingStore
from app.adapters.sql.summaries import SqlSummaryStore
from app.adapters.sql.threads import SqlThreadIndex
from app.adapters.token_counter import EncodingTokenCounter
from app.api.auth import ApiKey
from app.api.dependencies import Limits, Resources
from app.api.install import install_api
from app.core.context import DEFAULT_ENCODING
from app.core.markup import Profile, make_profile, strip_message
from app.core.memo import Memo
from app.core.model import Policy
from app.core.ports import Count
from app.core.tokens import rules_id
from app.services.later import Later
from app.services.ports import HistoryPorts
from app.services.summary import Builder, build_due
from app.services.summary_report import build_summary
from app.services.summary_worker import SummaryWorker
from app.settings import Settings, SettingsInvalid, variable_of

REMEMBERED = 2_000
"""Turns, and exchanges, that a process keeps as it read and prepared them: some 10 MB."""


def create_app(settings: Settings) -> FastAPI:
    """Make the application. Nothing is opened before its lifespan begins.

    Errors: SettingsInvalid.
    """
    strip_profile(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_resources(settings) as resources:
            app.state.resources = resources
            yield

    # The page at /docs brings its own assets: it must work where there is no network.
    app = FastAPIOffline(title="Threadkeep", version="0.1.0", lifespan=lifespan, redoc_url=None)
    install_api(app)
    return app


def strip_profile(settings: Settings) -> Profile:
    """Return the built-in strip rules and the deployment's own.

    Errors: SettingsInvalid with one sentence that names the variable and the rule.
    """
    rules = {"unwrap": settings.strip_unwrap, "drop": settings.strip_drop}
    for action, selectors in rules.items():
        _profile(f"strip_{action}", {action: selectors})
    return _profile("strip_drop", rules)


@asynccontextmanager
async def open_resources(settings: Settings) -> AsyncIterator[Resources]:
    """Open everything, in the order of need; close it in reverse, also when the opening fails."""
    if settings.migrate:
        await migrate(settings.database_url, settings.db_schema)
    async with AsyncExitStack() as stack:
        database = _open_database(settings, stack)
        cache = _open_cache(settings, stack)
        profile = strip_profile(settings)
        counter = EncodingTokenCounter()
        count = await counter.counter(DEFAULT_ENCODING)
        builder = Builder(
            history=SqlHistoryStore(database, remembered=REMEMBERED),
            summaries=SqlSummaryStore(database),
            cache=cache,
            model=_open_model(settings, count, stack),
            fallback=ExtractiveSummarizer(count=count),
            clean=partial(strip_message, profile=profile),
            count=count,
            policy=_policy(settings),
            lease_seconds=settings.lease_seconds,
        )
        worker = SummaryWorker(partial(build_due, builder=builder))
        await stack.enter_async_context(worker.running())
        later = await stack.enter_async_context(Later().running())
        ports = HistoryPorts(
            store=builder.history,
            summaries=builder.summaries,
            cache=cache,
            counter=counter,
            policy=builder.policy,
            profile=profile,
            rules=rules_id(profile.version, settings.image_tokens),
            image_tokens=settings.image_tokens,
            max_turn_messages=settings.max_turn_messages,
            notify=worker.notify,
            later=later.run,
            memo=Memo(REMEMBERED),
        )
        yield _resources(settings, ports, builder, database)


def _profile(field: str, rules: Mapping[str, Sequence[str]]) -> Profile:
    try:
        return make_profile(**rules)
    except ValueError as error:
        raise SettingsInvalid(f"{variable_of(field)} is wrong: {error}") from None


def _resources(
    settings: Settings, ports: HistoryPorts, builder: Builder, database: Database
) -> Resources:
    index = SqlThreadIndex(database)
    return Resources(
        history=ports,
        index=index,
        staging=SqlStagingStore(database),
        branches=SqlBranchStore(database),
        erasure=SqlErasure(database, tombstone_seconds=settings.tombstone_seconds),
        graphs=SqlGraphStore(database),
        build_summary=partial(build_summary, ports=ports, index=index, builder=builder),
        database=SqlPing(database),
        schema=SqlHealth(database),
        cache=ports.cache if settings.redis_url else None,
        limits=Limits(
            max_body_bytes=settings.max_body_bytes,
            max_checkpoint_bytes=settings.max_checkpoint_bytes,
        ),
        api_keys=tuple(ApiKey(key.tenant_id, key.digest, key.scopes) for key in settings.api_keys),
        require_owner=settings.require_owner,
    )


def _open_database(settings: Settings, stack: AsyncExitStack) -> Database:
    options = PoolOptions(
        size=settings.pool_size,
        wait_seconds=settings.pool_timeout_seconds,
        command_seconds=settings.db_timeout_seconds,
        connect_seconds=settings.db_connect_timeout_seconds,
    )
    engine = create_engine(settings.database_url, options)
    stack.push_async_callback(engine.dispose)
    return Database(engine, settings.db_schema, named_statements=settings.named_statements)


def _open_cache(settings: Settings, stack: AsyncExitStack) -> RedisSummaryCache | NullSummaryCache:
    if settings.redis_url is None:
        return NullSummaryCache()
    cache = RedisSummaryCache(
        settings.redis_url,
        ttl_seconds=settings.summary_ttl_seconds,
        timeout_seconds=settings.redis_timeout_seconds,
    )
    stack.push_async_callback(cache.close)
    return cache


def _open_model(settings: Settings, count: Count, stack: AsyncExitStack) -> HttpSummarizer | None:
    if settings.summarizer_url is None:
        return None
    model = HttpSummarizer(
        settings.summarizer_url,
        settings.summarizer_model,
        count=count,
        api_key=settings.summarizer_api_key,
        timeout_seconds=settings.summarizer_timeout_seconds,
    )
    stack.push_async_callback(model.close)
    return model


def _policy(settings: Settings) -> Policy:
    return Policy(
        window=settings.window,
        stride=settings.stride,
        token_budget=settings.token_budget,
        summary_tokens=settings.summarizer_max_tokens,
    )
