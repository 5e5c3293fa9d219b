"""The HTTP face as a whole, put onto an application."""

from fastapi import FastAPI

from app.api import branches, context, graphs, ops, threads, writes
from app.api.middleware import RequestFrame
from app.api.openapi import complete_openapi
from app.api.paths import RawPath
from app.api.problems import install_problems


def install_api(app: FastAPI) -> None:
    """Add routes, problems and middleware. The middleware added last is the outermost.

    No path is redirected to itself with or without a final slash: an empty thread id is a 422.
    """
    app.router.redirect_slashes = False
    for part in (context, threads, writes, branches, graphs, ops):
        app.include_router(part.router)
    install_problems(app)
    app.add_middleware(RawPath)
    app.add_middleware(RequestFrame)
    complete_openapi(app)
