"""Which markup is presentation: the rule set as data, and how a deployment adds its own tags.

A selector names elements: `ui-card` (a tag), `div[data-widget]` (a tag that has an attribute),
`[data-ui]` (any tag that has it), `card[kind=ad]` (an attribute with that very value).
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

VERSION = "strip-1"

Action = Literal["unwrap", "drop", "keep"]

REASONING = (
    "think",
    "thinking",
    "thought",
    "thoughts",
    "reasoning",
    "reasoning_scratchpad",
    "antthinking",
    "seed:think",
)
"""Elements a model thinks in. Source: NousResearch/hermes-agent#11366 and other reports."""

_UNWRAP = (
    "cite[index]",
    "antml:cite[index]",
    "artifact[identifier]",
    "lobeartifact[identifier]",
    "antartifact",
    "[data-ui]",
)
_DROP = ("details[type]", "antthinking", "lobethinking", "oai-mem-citation")

_SELECTOR = re.compile(
    r"(?P<tag>[A-Za-z][A-Za-z0-9:._-]{0,63})?"
    r"(?:\[(?P<attribute>[A-Za-z_:][A-Za-z0-9:._-]{0,63})"
    r"(?:=(?P<quote>[\"']?)(?P<value>[^\"'\[\]<>\n]{0,200})(?P=quote))?\])?"
)
_ATTRIBUTE = re.compile(
    r"(?P<name>[^\s\"'<>/=]+)"
    r"(?:\s*=\s*(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)'|(?P<bare>[^\s\"'<>]+)))?"
)


@dataclass(frozen=True, slots=True)
class Selector:
    """One rule: tag "" is any tag, attribute "" needs none, value None takes every value."""

    tag: str
    attribute: str
    value: str | None

    def __str__(self) -> str:
        if not self.attribute:
            return self.tag
        value = "" if self.value is None else f"={self.value}"
        return f"{self.tag}[{self.attribute}{value}]"

    def matches(self, tag: str, attributes: str) -> bool:
        """Tell whether an opening tag (name in lower case, its attributes as written) is meant."""
        if self.tag not in ("", tag):
            return False
        if not self.attribute:
            return True
        if self.attribute not in attributes.lower():
            return False
        return any(
            found["name"].lower() == self.attribute and self.value in (None, _value(found))
            for found in _ATTRIBUTE.finditer(attributes)
        )


@dataclass(frozen=True, slots=True)
class Profile:
    """An immutable set of strip rules. Equal versions mean equal rules.

    unwrap: elements whose tags go and whose words stay. drop: elements that go whole.
    mention: matches somewhere in every text in which a tag rule could apply.
    """

    version: str
    unwrap: tuple[Selector, ...]
    drop: tuple[Selector, ...]
    mention: re.Pattern[str]

    def action(self, tag: str, attributes: str) -> Action:
        """Return what to do with an element, by its opening tag."""
        if any(rule.matches(tag, attributes) for rule in self.drop):
            return "drop"
        if any(rule.matches(tag, attributes) for rule in self.unwrap):
            return "unwrap"
        return "keep"


def make_profile(unwrap: Sequence[str] = (), drop: Sequence[str] = ()) -> Profile:
    """Return the built-in rules and a deployment's own.

    Shape:  selectors (see the module) whose tags go and whose words stay; selectors that go whole.
    Errors: ValueError, in one sentence, when a selector is malformed or asked to do both.
    """
    more_unwrap, more_drop = _selectors(unwrap), _selectors(drop)
    if both := sorted(more_unwrap.keys() & more_drop.keys()):
        raise ValueError(f"strip rule {str(more_drop[both[0]])!r} cannot both unwrap and drop.")
    extra = [f"unwrap {key}" for key in sorted(more_unwrap)]
    extra += [f"drop {key}" for key in sorted(more_drop)]
    digest = hashlib.sha256("\n".join(extra).encode()).hexdigest()[:8]
    unwrap_all = (*_selectors(_UNWRAP).values(), *more_unwrap.values())
    drop_all = (*_selectors(_DROP).values(), *more_drop.values())
    return Profile(
        version=f"{VERSION}+{digest}" if extra else VERSION,
        unwrap=unwrap_all,
        drop=drop_all,
        mention=_mention((*unwrap_all, *drop_all)),
    )


def _selectors(rules: Sequence[str]) -> dict[str, Selector]:
    if isinstance(rules, str):
        raise ValueError(f"strip rules are a list of selectors, not the one text {rules!r}.")  # noqa: TRY004
    return dict(_selector(rule) for rule in rules)


def _selector(rule: str) -> tuple[str, Selector]:
    found = _SELECTOR.fullmatch(rule.strip())
    if not found or not (found["tag"] or found["attribute"]):
        raise ValueError(
            f"strip rule {rule!r} is not a selector such as 'ui-card', 'div[data-widget]'"
            " or '[data-ui]'."
        )
    selector = Selector(
        tag=(found["tag"] or "").lower(),
        attribute=(found["attribute"] or "").lower(),
        value=found["value"],
    )
    return f"{selector.tag}[{selector.attribute}={selector.value}]", selector


def _value(found: re.Match[str]) -> str:
    return found["double"] or found["single"] or found["bare"] or ""


def _mention(rules: Sequence[Selector]) -> re.Pattern[str]:
    tags = sorted({rule.tag for rule in rules if rule.tag} | set(REASONING))
    attributes = sorted({rule.attribute for rule in rules if not rule.tag})
    named = f"/?(?:{'|'.join(map(re.escape, tags))})(?![A-Za-z0-9:._-])"
    having = rf"[^<]*?\s(?:{'|'.join(map(re.escape, attributes))})(?![A-Za-z0-9:._-])"
    return re.compile(f"<(?:{named}|{having})", re.IGNORECASE)


DEFAULT = make_profile()
