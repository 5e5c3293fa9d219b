from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    ItemHelpers,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    SessionSettings,
    Usage,
    function_tool,
)
from agents.items import TResponseInputItem, TResponseOutputItem, TResponseStreamEvent
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from tests.service import running_service
from threadkeep_client import AsyncThreadkeep
from threadkeep_client.openai_agents import ThreadkeepSession

pytestmark = pytest.mark.anyio

QUIET = RunConfig(tracing_disabled=True)


class ScriptedModel(Model):
    """Answers what it was told to, and keeps what it was sent."""

    def __init__(self, *answers: TResponseOutputItem | Exception) -> None:
        self.answers = list(answers)
        self.seen: list[list[TResponseInputItem]] = []

    async def get_response(
        self,
        system_instructions: str | None,  # noqa: ARG002
        input: str | list[TResponseInputItem],  # noqa: A002 (the SDK's name)
        *args: Any,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> ModelResponse:
        self.seen.append(ItemHelpers.input_to_new_input_list(input))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return ModelResponse(output=[answer], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[TResponseStreamEvent]:
        raise NotImplementedError


def says(text: str, message_id: str) -> ResponseOutputMessage:
    part = ResponseOutputText(text=text, type="output_text", annotations=[], logprobs=[])
    return ResponseOutputMessage(
        id=message_id, type="message", role="assistant", content=[part], status="completed"
    )


def calls(name: str, arguments: str, call_id: str) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        id=f"fc_{call_id}", call_id=call_id, type="function_call", name=name, arguments=arguments
    )


@function_tool
def weather(city: str) -> str:
    """Say how warm it is."""
    return f"21 °C in {city}"


def agent(model: Model) -> Agent[Any]:
    return Agent(name="a", instructions="Be brief.", model=model, tools=[weather])


def texts(sent: Sequence[TResponseInputItem]) -> list[object]:
    """Return what each item says: its text, its arguments or its output."""
    said: list[object] = []
    for item in sent:
        body: dict[str, Any] = dict(item)
        content = body.get("content", body.get("arguments", body.get("output")))
        said.append(content[0]["text"] if isinstance(content, list) else content)
    return said


async def test_run_reads_what_runs_before_it_stored(memory: AsyncThreadkeep) -> None:
    """The second question is sent behind the first, its tool call, result and answer."""
    session = ThreadkeepSession("weather", memory)
    model = ScriptedModel(
        calls("weather", '{"city":"Łódź"}', "c1"),
        says("21 °C.", "msg_1"),
        says("Yes.", "msg_2"),
        says("Yes.", "msg_3"),
    )

    for question in ("How warm is it in Łódź?", "Warm?", "Warm?"):
        await Runner.run(agent(model), question, session=session, run_config=QUIET)

    first = ["How warm is it in Łódź?", '{"city":"Łódź"}', "21 °C in Łódź", "21 °C."]
    assert texts(model.seen[-1]) == [*first, "Warm?", "Yes.", "Warm?"]
    stored = await session.get_items()
    assert texts(stored) == [*texts(model.seen[-1]), "Yes."]
    assert [item.get("id") for item in stored if item.get("role") == "assistant"] == [
        "msg_1",
        "msg_2",
        "msg_3",
    ]


async def test_settings_limit_what_a_run_reads(memory: AsyncThreadkeep) -> None:
    """A run is sent as many stored items as the session's settings say."""
    session = ThreadkeepSession("short", memory, session_settings=SessionSettings(limit=2))
    model = ScriptedModel(*(says(f"a{n}", f"msg_{n}") for n in range(3)))

    for n in range(3):
        await Runner.run(agent(model), f"q{n}", session=session, run_config=QUIET)

    assert texts(model.seen[-1]) == ["q1", "a1", "q2"]
    assert len(await session.get_items(100)) == 6


async def test_correction_of_a_question(memory: AsyncThreadkeep) -> None:
    """The SDK's documented undo: pop the answer and the question, ask another one."""
    session = ThreadkeepSession("undo", memory)
    model = ScriptedModel(says("4", "msg_1"), says("6", "msg_2"))
    await Runner.run(agent(model), "2 + 2?", session=session, run_config=QUIET)

    await session.pop_item()
    await session.pop_item()
    await Runner.run(agent(model), "2 + 4?", session=session, run_config=QUIET)

    assert texts(model.seen[-1]) == ["2 + 4?"]
    assert texts(await session.get_items()) == ["2 + 4?", "6"]


async def test_question_of_a_run_that_failed_is_kept(memory: AsyncThreadkeep) -> None:
    """When the model fails the question is stored, and the next run reads it."""
    session = ThreadkeepSession("failed", memory)
    model = ScriptedModel(RuntimeError("overloaded"), says("Hi.", "msg_1"))
    with pytest.raises(RuntimeError, match="overloaded"):
        await Runner.run(agent(model), "Hello?", session=session, run_config=QUIET)

    await Runner.run(agent(model), "Anyone?", session=session, run_config=QUIET)

    assert texts(model.seen[-1]) == ["Hello?", "Anyone?"]


async def test_runs_of_a_session_are_a_thread_that_others_load(memory: AsyncThreadkeep) -> None:
    """What an agent said is loaded in another format, calls and results paired."""
    session = ThreadkeepSession("shared", memory)
    model = ScriptedModel(calls("weather", '{"city":"Rome"}', "c1"), says("21 °C.", "msg_1"))
    await Runner.run(agent(model), "How warm is it?", session=session, run_config=QUIET)

    context = await memory.load("shared", format="openai", marker="off")

    assert [message["role"] for message in context["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert context["messages"][1]["tool_calls"][0]["id"] == "c1"


async def test_run_goes_on_after_a_restart(
    service_environment: dict[str, str], api_key: str, tmp_path: Path
) -> None:
    """A session of another process goes on after the service was killed."""
    model = ScriptedModel(
        calls("weather", '{"city":"Rome"}', "c1"), says("21 °C.", "msg_1"), says("Yes.", "msg_2")
    )
    for question in ("How warm is it?", "Warm?"):
        with running_service(service_environment, tmp_path) as service:
            async with AsyncThreadkeep(service.url, api_key=api_key) as memory:
                session = ThreadkeepSession("s", memory)
                await Runner.run(agent(model), question, session=session, run_config=QUIET)
            service.kill()

    assert texts(model.seen[-1]) == [
        "How warm is it?",
        '{"city":"Rome"}',
        "21 °C in Rome",
        "21 °C.",
        "Warm?",
    ]
