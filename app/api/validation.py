"""How requests are checked: pydantic models whose flaws come out as ours.

Types are strict: a number is not a thread id and true is not a number. A member that is null counts
as left out.
"""

from collections.abc import Mapping
from typing import Annotated, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.api.body import pointer_of
from app.api.paths import MAX_ID_LENGTH, check_name
from app.core.errors import Flaw, InvalidPayload

MAX_PAGE = 100

Name = Annotated[str, Field(min_length=1, max_length=MAX_ID_LENGTH)]

_FLAGS = {"true": True, "false": False}
_MAX_NAMED_FIELDS = 20
_MAX_DIGITS = 18
"""A longer number is left as text, which no integer field takes."""
_MAX_FIELD_NAME = 64
_Model = TypeVar("_Model", bound=BaseModel)


class RequestModel(BaseModel):
    """Strict types; what the contract does not know is left out."""

    model_config = ConfigDict(strict=True, extra="ignore")


class PageParameters(RequestModel):
    """One page of a list."""

    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 20
    cursor: Annotated[str | None, Field(description="`next_cursor` of the page before.")] = None


def validate(model: type[_Model], body: Mapping[str, object]) -> _Model:
    """Check a body's own members. Errors: InvalidPayload, none of its flaws repeats a value."""
    given = {name: value for name, value in body.items() if value is not None}
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise InvalidPayload(_flaws_of(error)) from None


def validate_query(model: type[_Model], query: Mapping[str, str]) -> _Model:
    """Check a query string's parameters, numbers and `true` and `false` where they are wanted."""
    return validate(model, {name: _query_value(model, name, text) for name, text in query.items()})


def unknown_fields(
    model: type[BaseModel], body: Mapping[str, object]
) -> tuple[Mapping[str, object], ...]:
    """Return a warning for each member that the contract does not know, at most 20."""
    names = [name for name in body if name not in model.model_fields]
    return tuple(
        {
            "code": "unknown-field",
            "detail": "The field is not known here and was ignored.",
            "field": name[:_MAX_FIELD_NAME],
        }
        for name in names[:_MAX_NAMED_FIELDS]
    )


def checked_name(name: str | None, pointer: str) -> str | None:
    """Return the name if it can be stored, None as it is. Errors: InvalidPayload."""
    return None if name is None else check_name(name, pointer)


def _query_value(model: type[BaseModel], name: str, value: str) -> object:
    field = model.model_fields.get(name)
    kinds = get_args(field.annotation) or (field.annotation,) if field else ()
    if bool in kinds:
        return _FLAGS.get(value, value)
    return int(value) if int in kinds and _is_number(value) else value


def _is_number(value: str) -> bool:
    return value.isascii() and value.isdecimal() and len(value) <= _MAX_DIGITS


def _flaws_of(error: ValidationError) -> list[Flaw]:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [Flaw(pointer_of(flaw["loc"]), flaw["msg"]) for flaw in found]
