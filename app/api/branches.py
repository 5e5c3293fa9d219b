"""The tree of a thread's turns: look at it, choose its head, fork it."""

from app.api.dependencies import api_router

router = api_router("threads", prefix="/v1")
