"""Logs: JSON, and never a word of what a caller wrote."""

import json
import logging

import pytest

from app.telemetry import JsonFormatter, request_id


def line(**members: object) -> dict[str, object]:
    record = logging.makeLogRecord({"name": "threadkeep.access", "levelname": "INFO", **members})
    parsed: dict[str, object] = json.loads(JsonFormatter().format(record))
    return parsed


def test_line_is_json_with_what_was_given() -> None:
    """A line is one JSON object: when, what, and every extra member."""
    parsed = line(msg="request %s", args=("served",), status=200)
    assert (parsed["event"], parsed["level"], parsed["status"]) == ("request served", "info", 200)
    assert str(parsed["time"]).endswith("+00:00")


def test_line_carries_the_request() -> None:
    """While a request is served, its id stands on every line."""
    token = request_id.set("r-1")
    try:
        assert line(msg="x")["request_id"] == "r-1"
    finally:
        request_id.reset(token)
    assert "request_id" not in line(msg="x")


def quote_a_message() -> None:
    try:
        dict[str, str]()["my diagnosis"]
    except KeyError as error:
        raise ValueError("my diagnosis") from error


def test_exception_is_told_without_its_text() -> None:
    """Of an exception the line has types, causes and places; its text may quote a message."""
    with pytest.raises(ValueError, match="diagnosis") as caught:
        quote_a_message()
    parsed = line(msg="failed", exc_info=(caught.type, caught.value, caught.tb))
    told = str(parsed["error"])
    assert told.startswith("builtins.ValueError at ")
    assert "builtins.KeyError at " in told
    assert "diagnosis" not in json.dumps(parsed)


@pytest.mark.parametrize("odd", ["\ud800", object(), b"\xff"])
def test_odd_values_do_not_stop_the_line(odd: object) -> None:
    """Whatever is logged, a line comes out."""
    assert "odd" in line(msg="x", odd=odd)
