"""Items as the OpenAI Agents SDK stores them."""

from typing import cast

from agents import TResponseInputItem

TURN = cast(
    "list[TResponseInputItem]",
    [
        {"role": "user", "content": "How warm is it in Łódź?"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA="},
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "weather",
            "arguments": '{"city": "Łódź"}',
            "status": "completed",
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "21 °C"},
        {"type": "something_new", "id": None, "of": {"next": ["year", 1.5, True]}},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [
                {"type": "output_text", "text": "21 °C.", "annotations": [], "logprobs": []}
            ],
        },
    ],
)


def items(*texts: str) -> list[TResponseInputItem]:
    """Return what a user says, an item each."""
    return [cast("TResponseInputItem", {"role": "user", "content": text}) for text in texts]
