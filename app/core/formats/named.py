"""The formats by name."""

from app.core.formats.anthropic import AnthropicFormat
from app.core.formats.format import Format
from app.core.formats.langchain import LangChainFormat
from app.core.formats.openai import OpenAIFormat
from app.core.formats.responses import ResponsesFormat
from app.core.formats.text import TextFormat
from app.core.model import FormatName


def format_named(name: FormatName, image_tokens: int) -> Format:
    """Return the format of this name. Units: image_tokens for each image, sound or file."""
    match name:
        case "anthropic":
            return AnthropicFormat(image_tokens)
        case "langchain":
            return LangChainFormat(image_tokens)
        case "responses":
            return ResponsesFormat(image_tokens)
        case "text":
            return TextFormat()
        case _:
            return OpenAIFormat(image_tokens)
