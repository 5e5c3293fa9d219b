"""Summarizer that needs nothing: the port over `core.extract`."""

from collections.abc import Mapping, Sequence

from app.core.extract import summarize_extractively
from app.core.ports import Count, SummaryFailed


class ExtractiveSummarizer:
    """Condenses by quoting. count: of the default encoding."""

    name = "extractive"

    def __init__(self, *, count: Count) -> None:
        self._count = count

    async def summarize(
        self, previous: str | None, messages: Sequence[Mapping[str, object]], *, max_tokens: int
    ) -> str:
        """Return the new summary's text. Errors: SummaryFailed for no input at all."""
        text = summarize_extractively(previous, messages, max_tokens=max_tokens, count=self._count)
        if not text:
            raise SummaryFailed("nothing to condense")
        return text
