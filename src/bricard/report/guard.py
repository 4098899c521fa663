"""Access control of the live viewer: it answers its own pages only, not pages of other sites.

A web page can make the browser connect to a server on this machine; if its host name resolves to 127.0.0.1 (DNS
rebinding), it can even read the answers. Browsers send the host name of the server in `Host` and the origin of the
requesting page in `Origin`; a request is refused unless both belong to the viewer.
"""

from __future__ import annotations

import http.client
import inspect
import ipaddress
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from bricard.errors import ModelError

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
FORBIDDEN = 403


def is_allowed(hosts: list[str], origins: list[str], listening: str, port: int) -> bool:
    """True if a server at `listening`:`port` may answer a request with these `Host` and `Origin` headers."""
    if len(hosts) != 1 or len(origins) > 1:
        return False
    if not _is_own(hosts[0], listening, port):
        return False
    if not origins:
        return True  # sent from the address bar or by a program, not by a page
    scheme, separator, origin = origins[0].partition("://")
    if scheme != "http" or not separator or not _is_own(origin, listening, port):
        return False
    # All loopback names denote this machine; any other origin must equal the requested host.
    return origin.lower() == hosts[0].lower() or (_names_loopback(origin) and _names_loopback(hosts[0]))


def _names_loopback(authority: str) -> bool:
    return authority.lower().startswith(tuple(f"{n}:" for n in LOOPBACK_NAMES)) or authority.lower() in LOOPBACK_NAMES


def _is_own(authority: str, listening: str, port: int) -> bool:
    """True if the authority `name:port` denotes this server."""
    name, _, given = authority.rpartition(":") if not authority.endswith("]") else (authority, "", "")
    if not name:  # no port: the default port of HTTP
        name, given = authority, ""
    if given != str(port) and not (given == "" and port == 80):
        return False
    name = name.lower()
    if name in LOOPBACK_NAMES:
        return True
    if _is_loopback(listening):
        return False
    # A viewer open to other machines accepts any IP address, but no name except its own: other names can be rebound.
    return _is_address(name.strip("[]")) or name in (listening.lower(), socket.gethostname().lower())


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@contextmanager
def guarded(listening: str) -> Iterator[None]:
    """Context in which new `websockets` servers answer only requests that `is_allowed` accepts.

    viser has no option for this, so the function with which it starts its server is patched in this context.
    `check_guarded` verifies that the patch took effect.
    """
    import websockets.asyncio.server as server

    original = server.serve

    def serve(*arguments: Any, process_request: Callable[..., Any] | None = None, **settings: Any) -> Any:
        async def checked(connection: Any, request: Any) -> Any:
            port = connection.local_address[1]
            headers = request.headers
            if not is_allowed(headers.get_all("Host"), headers.get_all("Origin"), listening, port):
                return connection.respond(FORBIDDEN, "This viewer answers only requests from its own pages.\n")
            answer = None if process_request is None else process_request(connection, request)
            return await answer if inspect.isawaitable(answer) else answer

        return original(*arguments, process_request=checked, **settings)

    with mock.patch.object(server, "serve", serve):
        yield


def check_guarded(host: str, port: int) -> None:
    """Raise `ModelError` unless the server refuses a request for a foreign host name."""
    connection = http.client.HTTPConnection("127.0.0.1" if host in ("0.0.0.0", "") else host, port, timeout=10)
    try:
        connection.putrequest("GET", "/", skip_host=True)
        connection.putheader("Host", "foreign.invalid")
        connection.endheaders()
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        raise ModelError("view", [f"the viewer did not answer a test request: {error}"]) from error
    finally:
        connection.close()
    if status != FORBIDDEN:
        raise ModelError(
            "view", ["requests from foreign pages cannot be blocked in this version of viser; upgrade bricard"]
        )
