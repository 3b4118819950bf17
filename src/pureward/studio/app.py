# SPDX-License-Identifier: Apache-2.0
"""What the server answers: the page, episodes, frames and sketches, each by its number.

Starlette runs answers that are not `async` in threads; the others read the body of a request.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pureward.data.sketches import ConflictError, parse_sketch
from pureward.errors import InputError
from pureward.studio.guard import Guard, TooLongError
from pureward.studio.source import Source, short_names

if TYPE_CHECKING:
    from pureward.studio.evidence import Runs, Search

_KINDS = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


def make_app(
    sources: Sequence[Source],
    runs: "Runs | None" = None,
    *,
    token: str,
    host: str,
    port: int,
    annotator: str,
) -> Guard:
    """Return the application.

    Args:
        sources: datasets, which requests name by their position.
        runs: run directories, which requests name by their position as well.
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

    def overview(request: Request) -> Response:
        names = short_names([each.path for each in sources])
        found = [one.describe() | {"name": name} for one, name in zip(sources, names, strict=True)]
        return JSONResponse({"annotator": annotator, "sources": found, "runs": runs is not None})

    def episode(request: Request) -> Response:
        found = source(request).episode(request.path_params["episode"])
        sketches = {name: asdict(sketch) for name, sketch in found["sketches"].items()}
        return JSONResponse(found | {"sketches": sketches})

    def strip(request: Request) -> Response:
        at = request.path_params
        return _png(source(request).strip(at["episode"], at["strip"]))

    async def save(request: Request) -> Response:
        at = request.path_params
        sketch = parse_sketch(await _body(request), "the request")
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
            *_evidence(runs),
        ],
        exception_handlers={InputError: _refuse, OSError: _refuse},
    )
    return Guard(app, token=token, host=host, port=port)


def _evidence(runs: "Runs | None") -> list[Route]:
    """The routes of runs; "episodes" are those that a run's policy played."""

    def search(request: Request, name: str = "run") -> "Search":
        number = request.path_params[name]
        if runs is None or number >= len(runs.searches):
            raise InputError(f"there is no run {number}; reload the page")
        return runs.searches[number]

    def lines(request: Request) -> Response:
        return JSONResponse([] if runs is None else runs.describe())

    def episodes(request: Request) -> Response:
        found = search(request)
        if request.method == "POST":
            found.start()
        return JSONResponse(found.describe())

    def scored(request: Request) -> Response:
        return JSONResponse(search(request).episode(request.path_params["episode"]))

    def compared(request: Request) -> Response:
        number, other = request.path_params["episode"], search(request, "other")
        return JSONResponse(search(request).compare(number, other.path))

    def scored_strip(request: Request) -> Response:
        at = request.path_params
        return _png(search(request).strip(at["episode"], at["strip"]))

    async def mark(request: Request) -> Response:
        value = await _body(request)
        given = value.get("mark") if isinstance(value, dict) else None
        if not isinstance(given, str):
            raise InputError("a mark must be text; reload the page")
        number = request.path_params["episode"]
        return JSONResponse(await run_in_threadpool(search(request).mark, number, given))

    run = "/api/runs/{run:int}/episodes"
    return [
        Route("/api/lines", lines),
        Route(run, episodes, methods=["GET", "POST"]),
        Route(run + "/{episode:int}", scored),
        Route(run + "/{episode:int}/by/{other:int}", compared),
        Route(run + "/{episode:int}/strips/{strip:int}", scored_strip),
        Route(run + "/{episode:int}/mark", mark, methods=["PUT"]),
    ]


async def _body(request: Request) -> Any:
    body = await request.body()
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InputError("a request must be JSON; reload the page") from error


def _png(image: bytes) -> Response:
    return Response(image, media_type="image/png")


async def _refuse(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 413 if isinstance(error, TooLongError) else 400)


def _static() -> list[Route]:
    """A route for each file of the page; no path of a request names a file."""

    def serve(content: bytes, kind: str) -> Any:
        async def answer(request: Request) -> Response:
            return Response(content, media_type=kind)

        return answer

    routes = []
    for file in Path(__file__).with_name("static").iterdir():
        if kind := _KINDS.get(file.suffix):
            name = "" if file.name == "index.html" else f"static/{file.name}"
            routes.append(Route(f"/{name}", serve(file.read_bytes(), kind)))
    return routes
