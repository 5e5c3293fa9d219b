"""Summarizer over HTTP: any provider that speaks OpenAI's chat completions."""

import asyncio
import json
from collections.abc import Mapping, Sequence

import httpx

from app.core.markup import strip_text
from app.core.plain import mend
from app.core.ports import Count, SummaryFailed
from app.core.prompt import render_prompt

_LIMIT = "max_tokens"
_NEWER_LIMIT = "max_completion_tokens"
_BAD_REQUEST = 400
# The newer limit holds a model's hidden reasoning too, which needs room of its own.
_NEWER_LIMIT_FACTOR = 4
# "stop" is the rule, some local servers say "eos"; null is an answer that did not end.
_CUT_OFF = frozenset(
    {"length", "max_tokens", "content_filter", "tool_calls", "function_call", None}
)


class HttpSummarizer:
    """Asks a model for the next summary; logs and raises neither text nor key.

    base_url ends in /v1. timeout_seconds: for a whole call. count: of the default encoding.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        count: Count,
        api_key: str | None = None,
        timeout_seconds: float = 30.0,
    ) -> None:
        self.name = model
        self._count = count
        self._timeout_seconds = timeout_seconds
        self._limit = _LIMIT
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._client = httpx.AsyncClient(headers=headers, timeout=timeout_seconds)

    async def summarize(
        self, previous: str | None, messages: Sequence[Mapping[str, object]], *, max_tokens: int
    ) -> str:
        """Return the new summary's text, cleaned of the model's reasoning.

        Units: max_tokens of the default encoding; a longer text is refused, not cut.
        Errors: SummaryFailed on a time-out, an error, an empty, refused or cut-off answer. A polite
            refusal in words cannot be told from a summary and is accepted.
        """
        prompt = render_prompt(previous, messages, max_tokens=max_tokens)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                answer = await self._ask(prompt, max_tokens)
        except (httpx.HTTPError, TimeoutError, ValueError, RecursionError) as error:
            raise SummaryFailed(type(error).__name__) from None
        text = strip_text(mend(_text_of(answer))).strip()
        if not text:
            raise SummaryFailed("empty answer")
        if self._count(text) > max_tokens:
            raise SummaryFailed("longer than the ceiling")
        return text

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _ask(self, prompt: list[dict[str, str]], max_tokens: int) -> object:
        response = await self._post(prompt, max_tokens)
        if response.status_code == _BAD_REQUEST and _refuses_limit(response, self._limit):
            # Reasoning models want the limit under its newer name; the others only know the older.
            self._limit = _NEWER_LIMIT if self._limit == _LIMIT else _LIMIT
            response = await self._post(prompt, max_tokens)
        if not response.is_success:
            raise SummaryFailed(f"status {response.status_code}")
        return json.loads(response.content)

    async def _post(self, prompt: list[dict[str, str]], max_tokens: int) -> httpx.Response:
        factor = 1 if self._limit == _LIMIT else _NEWER_LIMIT_FACTOR
        body = {"model": self.name, "messages": prompt, self._limit: factor * max_tokens}
        return await self._client.post(self._url, json=body)


def _refuses_limit(response: httpx.Response, name: str) -> bool:
    return f'"{name}"' in response.text or f"'{name}'" in response.text


def _text_of(answer: object) -> str:
    """Take the text out of a completion. Errors: SummaryFailed unless it is whole."""
    try:
        choice = answer["choices"][0]  # type: ignore[index]  # whatever the provider sent
        message = choice["message"]
        text, refusal, reason = message["content"], message.get("refusal"), choice["finish_reason"]
    except (LookupError, TypeError, AttributeError):
        raise SummaryFailed("not a completion") from None
    if reason in _CUT_OFF or refusal or not isinstance(text, str):
        raise SummaryFailed("cut off or refused")
    return text
