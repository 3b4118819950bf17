# SPDX-License-Identifier: Apache-2.0
"""What the server answers: the page, episodes, frames and sketches, each by its number."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pureward.data.sketches import ConflictError, parse_sketch
from pureward.errors import InputError
from pureward.studio.guard import Guard, TooLongError
from pureward.studio.source import Source

_KINDS = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


def make_app(
    sources: Sequence[Source], *, token: str, host: str, port: int, annotator: str
) -> Guard:
    """Return the application.

    Args:
        sources: datasets, which requests name by their position.
        token: that requests must carry.
        host: that the server listens on.
        port: that it listens on.
        annotator: name of the person, until the page is told another.
    """

    def source(request: Request) -> Source:
        number = request.path_params["source"]
        if number >= len(sources):
            raise InputError(f"datasets are 0 to {len(sources) - 1}, got {number}; reload the page")
        return sources[number]

    async def overview(request: Request) -> Response:
        found = await run_in_threadpool(lambda: [each.describe() for each in sources])
        return JSONResponse({"annotator": annotator, "sources": found})

    async def episode(request: Request) -> Response:
        number = request.path_params["episode"]
        found = await run_in_threadpool(source(request).episode, number)
        return JSONResponse(found | {"sketches": _plain(found["sketches"])})

    async def strip(request: Request) -> Response:
        at = request.path_params
        image = await run_in_threadpool(source(request).strip, at["episode"], at["strip"])
        return Response(image, media_type="image/png")

    async def save(request: Request) -> Response:
        at, where, body = request.path_params, "the request", await request.body()
        try:
            value = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise InputError("a sketch must be JSON; reload the page") from error
        sketch = parse_sketch(value, where)
        try:
            saved = await run_in_threadpool(
                source(request).save, at["episode"], at["annotator"], sketch
            )
        except ConflictError as conflict:
            return JSONResponse({"stored": asdict(conflict.stored)}, 409)
        return JSONResponse({"revision": saved.revision})

    path = "/api/sources/{source:int}/episodes/{episode:int}"
    app = Starlette(
        routes=[
            *_static(),
            Route("/api/overview", overview),
            Route(path, episode),
            Route(path + "/strips/{strip:int}", strip),
            Route(path + "/sketches/{annotator}", save, methods=["PUT"]),
        ],
        exception_handlers={InputError: _refuse, OSError: _refuse},
    )
    return Guard(app, token=token, host=host, port=port)


def _plain(sketches: dict[str, Any]) -> dict[str, Any]:
    return {name: asdict(sketch) for name, sketch in sketches.items()}


async def _refuse(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 413 if isinstance(error, TooLongError) else 400)


def _static() -> list[Route]:
    """A route for each file of the page; no path of a request names a file."""

    def serve(content: bytes, kind: str) -> Any:
        async def answer(request: Request) -> Response:
            return Response(content, media_type=kind)

        return answer

    routes = []
    for file in (files("pureward.studio") / "static").iterdir():
        kind = _KINDS.get("." + file.name.rpartition(".")[2])
        if kind is not None:
            name = "" if file.name == "index.html" else f"static/{file.name}"
            routes.append(Route(f"/{name}", serve(file.read_bytes(), kind)))
    return routes
