"""Shortening a text to a number of tokens, visibly, never inside what a reader sees as one sign."""

from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import accumulate
from math import isqrt

import regex

from app.core.ports import Count

NOTICE = (
    "\n[... {left_out} characters left out by threadkeep; the full text is one request away ...]\n"
)

_SHORT_NOTICE = "…"
# Of what is kept a third is the end: there stand results, errors and sums.
_TAIL_SHARE = 3
_GOOD_ENOUGH = 0.97
_FINEST = 256
# Flags in a row by hand: X would look back to the first at each, which is quadratic.
_CLUSTER = regex.compile(r"\p{RI}{2}(?=\p{RI})|\X")
# Between two of these any text may be cut (rule GB999): clusters need not be told from its start.
_PLAIN_SIGN = r"[\p{GCB=Other}\p{GCB=LV}\p{GCB=LVT}]"
_SAFE_PLACE = regex.compile(rf"(?r){_PLAIN_SIGN}(?={_PLAIN_SIGN})")
_LOOK_BACK = 256


def shorten(text: str, limit: int, count: Count, *, tokens: int | None = None) -> str:
    """Return the text's beginning, a notice of how much was left out, and its end; or all of it.

    Shape: a prefix and a suffix of the text, cut between grapheme clusters, about two to one. Where
        little is kept there may be no suffix, or nothing but the notice.
    Units: limit in tokens of count's encoding; tokens: the text's own, if known.
    Keeps: at most limit tokens, but never less than a one-character notice. A higher limit never
        shows less, whatever the counter.
    Cost:  the whole text is counted at most once; then a dozen counts of about what is kept.
    Source: UAX 29 grapheme clusters (the `regex` package's X).
    """
    total = count(text) if tokens is None else tokens
    if total <= limit:
        return text
    best = NOTICE.format(left_out=len(text))
    if count(best) > limit:
        return _SHORT_NOTICE
    ends = _ClusterEnds(text)
    low, high = 1, len(text)
    # Which sizes are tried depends on the answers alone, never on the limit. So at the first size
    # that two limits answer differently the higher one goes on to more, and the lower one to less.
    while high - low > max(low // _FINEST, 1):
        middle = isqrt(low * high) if high > 2 * low else (low + high) // 2
        candidate = _keep(ends, middle)
        cost = count(candidate)
        if cost > limit:
            high = middle
            continue
        low, best = middle, candidate
        if cost >= limit * _GOOD_ENOUGH:
            break
    return best


def cluster_end(text: str, index: int) -> int:
    """Return the last end of a grapheme cluster at or before index."""
    safe = _safe_place(text, index)
    for cluster in _CLUSTER.finditer(text, safe or 0):
        if cluster.end() > index:
            return cluster.start()
    return len(text)


class _ClusterEnds:
    """Where a text may be cut; all of it is read only where no place near by is safe."""

    def __init__(self, text: str) -> None:
        self.text = text

    def before(self, index: int) -> int:
        """Return the last end of a cluster at or before index."""
        if _safe_place(self.text, index) is not None:
            return cluster_end(self.text, index)
        return self._all[bisect_right(self._all, index) - 1]

    def after(self, index: int) -> int:
        """Return the first end of a cluster at or after index."""
        if _safe_place(self.text, index) is None:
            return self._all[bisect_left(self._all, index)]
        end = cluster_end(self.text, index)
        cluster = _CLUSTER.match(self.text, end)
        return cluster.end() if cluster and end < index else end

    @cached_property
    def _all(self) -> list[int]:
        return list(accumulate(map(len, _CLUSTER.findall(self.text)), initial=0))


def _safe_place(text: str, index: int) -> int | None:
    found = _SAFE_PLACE.search(text, max(0, index - _LOOK_BACK), index)
    return found.end() if found else None


def _keep(ends: _ClusterEnds, size: int) -> str:
    text, behind = ends.text, size // _TAIL_SHARE
    head, tail = ends.before(size - behind), ends.after(len(text) - behind)
    return text[:head] + NOTICE.format(left_out=tail - head) + text[tail:]
