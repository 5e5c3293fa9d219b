"""How callers spell roles."""

from collections.abc import Mapping

ROLES: Mapping[str, str] = {
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "system": "system",
    "developer": "developer",
    "human": "user",
    "ai": "assistant",
    "function": "tool",
}
"""Every spelling of a role that is taken, and its canonical one."""
