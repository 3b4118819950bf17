# SPDX-License-Identifier: Apache-2.0
"""Connects to a Ray cluster, or starts Ray on this machine. No other module imports Ray."""

import os
import signal
import socket
import threading
from importlib import import_module
from typing import Any

from pureward.errors import InputError, in_brief, missing_extra

_SECONDS = 5.0  # to wait for a cluster's port; Ray itself would try for minutes
# Ray speaks gRPC, so HTTP/2: a client begins with these words and a frame of settings (type 4), and
# the server answers with its own.
_SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS


def connect(address: str = "") -> Any:
    """Return the module `ray`, connected to a cluster; a second call keeps the connection.

    Args:
        address: "" to start Ray on this machine, "auto" for the cluster that this machine belongs
            to, or HOST:PORT of a cluster's head.
    """
    try:
        ray: Any = import_module("ray")  # pyright cannot find it where it is not installed
    except ModuleNotFoundError as error:
        raise missing_extra(error) from None
    if ray.is_initialized():
        return ray
    if address not in ("", "auto"):
        _check_port(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report its use to its makers
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(
            address=address or "local",
            log_to_driver=False,
            logging_level="ERROR",
            **({} if address else {"include_dashboard": False}),
        )
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        raise InputError(
            f"no Ray cluster can be used at the address {address or 'local'!r} "
            f"({in_brief(error)}); start one with `ray start --head`, with the same versions of "
            "Ray and Python and the same ~/.ray/auth_token on all machines"
        ) from error
    finally:
        # Ray's own would end a run without a checkpoint.
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)
    return ray


def _check_port(address: str) -> None:
    """Raise InputError unless a server of gRPC answers at HOST:PORT."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise InputError(
            f"the address of a Ray cluster is 'auto' or HOST:PORT, got {address!r}; "
            "`ray start --head` prints it"
        )
    try:
        with socket.create_connection((host, int(port)), _SECONDS) as server:
            if os.environ.get("RAY_USE_TLS", "0") == "0":
                server.sendall(_HELLO)
                if server.recv(len(_SETTINGS))[3:4] != _SETTINGS[3:4]:
                    raise OSError("what listens there is not Ray")
    except (OSError, OverflowError) as error:
        raise InputError(
            f"no Ray cluster answers at {address!r} ({error}); start one with `ray start --head`, "
            "or check the address and the firewall"
        ) from error
