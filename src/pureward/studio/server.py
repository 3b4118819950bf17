# SPDX-License-Identifier: Apache-2.0
"""Starts the server of the page."""

import getpass
import os
import re
import secrets
import socket
import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread

import uvicorn

from pureward.errors import InputError
from pureward.runs.directory import RunDirectory
from pureward.studio.app import make_app
from pureward.studio.source import Source


def serve(
    sources: Sequence[Path],
    *,
    images: tuple[str, ...] = (),
    host: str = "127.0.0.1",
    port: int = 8417,
    browser: bool = True,
) -> None:
    """Serve the page until Ctrl-C; print its address.

    Args:
        sources: datasets of any format, and run directories.
        images: names of the images to show, if a dataset has several.
        host: address to listen on; other machines can connect only if it is not 127.0.0.1.
        port: to listen on; 0 for any that is free.
        browser: open the address in a browser, if there is a display.
    """
    if not sources:
        raise InputError("the studio needs a dataset or a run, got none; name its folder")
    folders = [path for path in sources if _is_run(path)]
    opened = [Source(path, images) for path in sources if path not in folders]
    runs = None
    if folders:
        from pureward.studio.evidence import Runs  # takes seconds to import

        runs = Runs(folders)
    with _listen(host, port) as listening:
        port = listening.getsockname()[1]
        token = secrets.token_urlsafe(24)
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{port}/?token={token}"
        app = make_app(opened, runs, token=token, host=host, port=port, annotator=_user())
        # The simulator takes seconds to start: meanwhile the person opens the page.
        for source in opened[:1]:
            Thread(target=_prepare, args=(source,), daemon=True).start()
        print(f"Open {address}\nStop with Ctrl-C.", flush=True)
        if browser and {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ):
            webbrowser.open(address)
        # Its log would show the token.
        config = uvicorn.Config(app, access_log=False, log_level="error", server_header=False)
        uvicorn.Server(config).run(sockets=[listening])


def _is_run(path: Path) -> bool:
    """Whether a folder is a run's; datasets may have a file config.json too."""
    run = RunDirectory(path)
    return run.config.is_file() and (run.status.is_file() or run.lock.is_file())


def _prepare(source: Source) -> None:
    with suppress(InputError, OSError):  # the page says so
        source.strip(0, 0)


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port < 2**16:
        raise InputError(f"port must be 0 to 65535, got {port}; try 8417")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()  # so that a browser can connect before uvicorn has started
    except OSError as error:
        listening.close()
        raise InputError(
            f"the studio cannot listen on {host}:{port} ({error.strerror}); choose another "
            "--host, or another --port, 0 for any that is free"
        ) from error
    return listening


def _user() -> str:
    """The name of the user as an annotator's."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = ""
    return re.sub(r"[^A-Za-z0-9_-]", "", name)[:40] or "me"
