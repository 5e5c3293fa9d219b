"""The client of Threadkeep, the conversation memory of chat backends."""

from threadkeep_client.aio import AsyncThreadkeep
from threadkeep_client.calls import UNKNOWN
from threadkeep_client.client import Threadkeep
from threadkeep_client.errors import Problem, ThreadkeepError, TurnSaved, Unreachable
from threadkeep_client.turn import AsyncTurn, Turn

__all__ = [
    "UNKNOWN",
    "AsyncThreadkeep",
    "AsyncTurn",
    "Problem",
    "Threadkeep",
    "ThreadkeepError",
    "Turn",
    "TurnSaved",
    "Unreachable",
]
