"""Shortening a text to a number of tokens, visibly, never inside what a reader sees as one sign."""

import regex

from app.core.ports import Count

NOTICE = "\n[... {left_out} characters left out by threadkeep ...]"

_SHORT_NOTICE = "…"
_CLUSTER = regex.compile(r"\X")
_MAX_STEPS = 12
_GOOD_ENOUGH = 0.97
# Between two of these any text may be cut (rule GB999): clusters need not be told from its start.
_PLAIN_SIGN = r"[\p{GCB=Other}\p{GCB=LV}\p{GCB=LVT}]"
_SAFE_PLACE = regex.compile(rf"(?r){_PLAIN_SIGN}(?={_PLAIN_SIGN})")
_LOOK_BACK = 256


def shorten(text: str, limit: int, count: Count, *, tokens: int | None = None) -> str:
    """Return the text's beginning and a notice of how much was left out, or the text if it fits.

    Shape: a prefix of the text that ends at the end of a grapheme cluster, then the notice.
    Units: limit in tokens of count's encoding; tokens: the text's own, if known.
    Keeps: at most limit tokens, but never less than a one-character notice.
    Cost:  the whole text is counted at most once; then a dozen counts of about what is kept.
    Source: UAX 29 grapheme clusters (the `regex` package's X).
    """
    total = count(text) if tokens is None else tokens
    if total <= limit:
        return text
    low, high = (0, 0), (len(text), total)
    best = _with_notice(text, 0)
    if count(best) > limit:
        return _SHORT_NOTICE
    for step in range(1, _MAX_STEPS + 1):
        cut = _next_cut(text, low, high, limit, halve=step % 3 == 0)
        if not low[0] < cut < high[0]:
            break
        candidate = _with_notice(text, cut)
        cost = count(candidate)
        if cost > limit:
            high = (cut, cost)
            continue
        low, best = (cut, cost), candidate
        if cost >= limit * _GOOD_ENOUGH:
            break
    return best


def _next_cut(
    text: str, low: tuple[int, int], high: tuple[int, int], limit: int, *, halve: bool
) -> int:
    """Guess the cut between two known ones by their costs; now and then halve, for uneven texts."""
    share = 0.5 if halve else (limit - low[1]) / max(high[1] - low[1], 1)
    guess = low[0] + int((high[0] - low[0]) * min(max(share, 0.01), 0.99))
    cut = cluster_end(text, guess)
    return cut if cut > low[0] else _next_end(text, low[0])


def cluster_end(text: str, index: int) -> int:
    """Return the last end of a grapheme cluster at or before index."""
    safe = _SAFE_PLACE.search(text, max(0, index - _LOOK_BACK), index)
    start = safe.end() if safe else 0
    for cluster in _CLUSTER.finditer(text, start):
        if cluster.end() > index:
            return cluster.start()
    return len(text)


def _next_end(text: str, start: int) -> int:
    cluster = _CLUSTER.match(text, start)
    return cluster.end() if cluster else len(text)


def _with_notice(text: str, cut: int) -> str:
    return text[:cut] + NOTICE.format(left_out=len(text) - cut)
