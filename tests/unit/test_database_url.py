"""The database URL as it reaches the driver."""

import pytest

from app.adapters.sql.engine import driver_dsn, quoted


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("postgres://u:p@h:1/d", "postgres://u:p@h:1/d"),
        ("postgresql+asyncpg://u@h/d", "postgresql://u@h/d"),
        ("postgresql+psycopg://u@h/d", "postgresql://u@h/d"),
        ("postgres://u@h/d?sslmode=require", "postgres://u@h/d?sslmode=require"),
        ("postgres://u@a:1,b:2/d", "postgres://u@a:1,b:2/d"),
        ("postgres://u:%40%2F@h/d", "postgres://u:%40%2F@h/d"),
        (
            "postgresql://u@/d?host=/run/pg&port=5432",
            "postgresql://u@/d?host=%2Frun%2Fpg&port=5432",
        ),
        (
            "postgres://u@h/d?channel_binding=require&sslmode=verify-full&pgbouncer=true",
            "postgres://u@h/d?sslmode=verify-full",
        ),
    ],
)
def test_libpq_urls_work_as_given(given: str, expected: str) -> None:
    """Other drivers' names and options go, everything the driver knows stays."""
    assert driver_dsn(given) == expected


def test_an_identifier_cannot_leave_its_quotes() -> None:
    """A quote in a name is doubled."""
    assert quoted('a"b; --') == '"a""b; --"'
