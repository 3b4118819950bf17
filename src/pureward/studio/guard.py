# SPDX-License-Identifier: Apache-2.0
"""Who may ask the server for what: checks of every request, before any of it is read."""

import ipaddress
import re
import secrets
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pureward.errors import InputError

#: Bytes of a request's body; the longest sketch has fewer.
MOST_BYTES = 1 << 22
_TOO_LONG = f"a request must have at most {MOST_BYTES:,} bytes; send less"
_MOST_PATH = 300
_COUNT = re.compile(r"[0-9]{1,9}")
_HOST = re.compile(r"\[?([^\[\]]+?)\]?(?::([0-9]+))?")  # browsers leave out port 80
_LOCAL = ("127.0.0.1", "localhost", "::1")
# Nothing from elsewhere, no inline code, and no other page may show this one in a frame.
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",  # the first address holds the token
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class TooLongError(InputError):
    """A request exceeds `MOST_BYTES`."""


class Guard:
    """Lets a request through if its Host, its Origin, its token and its length are right.

    Host: a page of another site can make its own name point to 127.0.0.1, and then carries that
    name. Origin: the browser states the site that a request comes from. Token: other users of the
    machine can connect too.
    """

    def __init__(self, app: ASGIApp, *, token: str, host: str, port: int) -> None:
        """Wrap an application.

        Args:
            app: sees only requests that passed.
            token: that the address printed at the start holds.
            host: that the server listens on.
            port: that it listens on.
        """
        self._app, self._token, self._host, self._port = app, token, host, port
        self._cookie = f"pureward-{port}"  # cookies are shared between ports

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # WebSockets are not used
            return
        headers = Headers(scope=scope)
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        begins = scope["path"] == "/" and self._matches(given)

        async def reply(message: Message) -> None:
            if message["type"] == "http.response.start":
                found = MutableHeaders(scope=message)
                found.update(_HEADERS)
                if begins:
                    words = "Path=/; HttpOnly; SameSite=Strict"
                    found.append("set-cookie", f"{self._cookie}={self._token}; {words}")
            await send(message)

        refusal = self._refusal(scope["method"], headers, begins)
        if len(scope["path"]) > _MOST_PATH:
            refusal = 414, f"a path must have at most {_MOST_PATH} characters; reload the page"
        if refusal is not None:
            await JSONResponse({"error": refusal[1]}, refusal[0])(scope, receive, reply)
            return
        taken = 0

        async def limited() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > MOST_BYTES:
                raise TooLongError(_TOO_LONG)
            return message

        await self._app(scope, limited, reply)

    def _refusal(self, method: str, headers: Headers, begins: bool) -> tuple[int, str] | None:
        """Status and sentence if a request is refused."""
        host, origins = headers.get("host", ""), headers.getlist("origin")
        if not self._is_ours(host):
            return 403, "the Host of a request must be this server's; open the printed address"
        # Browsers state the Origin of every request that changes something.
        if any(origin != f"http://{host}" for origin in origins) or (
            not origins and method not in ("GET", "HEAD")
        ):
            return 403, "a request must come from this server's page; open the printed address"
        # Not http.cookies, which drops all of them if another server of this machine set one
        # that it cannot read.
        sent = cookie_parser(headers.get("cookie", "")).get(self._cookie, "")
        if not begins and not self._matches(sent):
            return 401, "this page needs the token of the running server; open the printed address"
        length = headers.get("content-length", "0")
        if not _COUNT.fullmatch(length) or int(length) > MOST_BYTES:
            return 413, _TOO_LONG
        return None

    def _matches(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(), self._token.encode())

    def _is_ours(self, host: str) -> bool:
        parts = _HOST.fullmatch(host)
        if parts is None or (parts[2] or "80") != str(self._port):
            return False
        name = parts[1]
        if name in (*_LOCAL, self._host):
            return True
        # A machine has several addresses; only names can be made to point elsewhere.
        return self._host not in _LOCAL and _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
