from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    trim_messages,
)
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables.history import RunnableWithMessageHistory

from tests.service import Service, running_service
from threadkeep_client import AsyncThreadkeep, Threadkeep
from threadkeep_client.langchain import ThreadkeepChatMessageHistory

pytestmark = pytest.mark.anyio


def chain(
    history: Callable[[str], ThreadkeepChatMessageHistory], answers: list[AIMessage]
) -> tuple[RunnableWithMessageHistory, list[list[BaseMessage]]]:
    """Return a chain around a fake model, and what the model will have been sent."""
    seen: list[list[BaseMessage]] = []
    prompt = ChatPromptTemplate.from_messages(
        [("system", "Be brief."), MessagesPlaceholder("history"), ("human", "{question}")]
    )

    def look(value: Any) -> Any:
        seen.append(value.to_messages())
        return value

    model = GenericFakeChatModel(messages=iter(answers))
    with pytest.warns(DeprecationWarning, match="RunnableWithMessageHistory"):
        runnable = RunnableWithMessageHistory(
            prompt | look | model,
            history,
            input_messages_key="question",
            history_messages_key="history",
        )
    return runnable, seen


async def test_chain_with_history_without_asyncio(sync_memory: Threadkeep) -> None:
    """RunnableWithMessageHistory reads and writes it, turn by turn, in threads of their own."""
    runnable, seen = chain(
        lambda session_id: ThreadkeepChatMessageHistory(session_id, client=sync_memory),
        [AIMessage("About 6,650 km.", id="a1"), AIMessage("It is.", id="a2"), AIMessage("Hi")],
    )

    for question, session in (("How long is the Nile?", "s1"), ("Long!", "s1"), ("Hi", "s2")):
        runnable.invoke({"question": question}, {"configurable": {"session_id": session}})

    assert [m.content for m in seen[1]] == [
        "Be brief.",
        "How long is the Nile?",
        "About 6,650 km.",
        "Long!",
    ]
    assert [m.content for m in seen[2]] == ["Be brief.", "Hi"]
    stored = ThreadkeepChatMessageHistory("s1", client=sync_memory).messages
    assert [m.id for m in stored if m.type == "ai"] == ["a1", "a2"]


def _only(history: ThreadkeepChatMessageHistory, session_id: str) -> ThreadkeepChatMessageHistory:
    return history


async def test_chain_with_history_survives_a_restart(
    service_environment: dict[str, str], api_key: str, tmp_path: Path
) -> None:
    """What a chain said before the service was killed it reads after that."""
    answers = [AIMessage("About 6,650 km."), AIMessage("It is.")]
    seen: list[list[BaseMessage]] = []
    for question in ("How long is the Nile?", "Long!"):
        with running_service(service_environment, tmp_path) as service:
            async with AsyncThreadkeep(service.url, api_key=api_key) as memory:
                history = ThreadkeepChatMessageHistory("s1", async_client=memory)
                runnable, seen = chain(partial(_only, history), [answers.pop(0)])
                await runnable.ainvoke(
                    {"question": question}, {"configurable": {"session_id": "s1"}}
                )
            service.kill()

    assert [m.content for m in seen[0]][1:3] == ["How long is the Nile?", "About 6,650 km."]


async def test_history_fits_the_frameworks_own_tools(
    service: Service, sync_memory: Threadkeep
) -> None:
    """What comes back is trimmed by LangChain like any list of messages."""
    history = ThreadkeepChatMessageHistory("trim", client=sync_memory)
    history.add_messages([HumanMessage("a"), AIMessage("b"), HumanMessage("c"), AIMessage("d")])

    kept = trim_messages(history.messages, max_tokens=2, token_counter=len, start_on="human")

    assert [m.content for m in kept] == ["c", "d"]
    assert str(history) == "Human: a\nAI: b\nHuman: c\nAI: d"
