"""Who may talk to the live viewer: pages of its own address, not those of a site that a browser happens to show.

A page on the web can make the browser connect to a server on this machine; with a name that is made to point to
127.0.0.1 (DNS rebinding) it can even read the answers. Browsers say in `Host` under which name they look for a server
and in `Origin` which page asks, so that both can be refused here.
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
    """Whether a request with these `Host` and `Origin` headers may be answered by a server at `listening`:`port`."""
    if len(hosts) != 1 or len(origins) > 1:
        return False
    if not _is_own(hosts[0], listening, port):
        return False
    if not origins:
        return True  # no page asks, but a person or a program
    scheme, separator, origin = origins[0].partition("://")
    if scheme != "http" or not separator or not _is_own(origin, listening, port):
        return False
    # All names of loopback are this machine; of other addresses, only the one that was asked may ask.
    return origin.lower() == hosts[0].lower() or (_names_loopback(origin) and _names_loopback(hosts[0]))


def _names_loopback(place: str) -> bool:
    return place.lower().startswith(tuple(f"{n}:" for n in LOOPBACK_NAMES)) or place.lower() in LOOPBACK_NAMES


def _is_own(place: str, listening: str, port: int) -> bool:
    """Whether `name:port` is a name of the server itself."""
    name, _, given = place.rpartition(":") if not place.endswith("]") else (place, "", "")
    if not name:  # without a port it is that of HTTP
        name, given = place, ""
    if given != str(port) and not (given == "" and port == 80):
        return False
    name = name.lower()
    if name in LOOPBACK_NAMES:
        return True
    if _is_loopback(listening):
        return False
    # Whoever lets other machines in: by number, since a name can be made to point here, or by the name of this machine.
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
    """Servers of `websockets` that are started meanwhile answer only requests that `is_allowed` lets pass.

    viser starts its server without a way to say so: the function that it calls is replaced for that moment.
    `check_guarded` then makes sure that it took effect.
    """
    import websockets.asyncio.server as server

    original = server.serve

    def serve(*arguments: Any, process_request: Callable[..., Any] | None = None, **settings: Any) -> Any:
        async def checked(connection: Any, request: Any) -> Any:
            port = connection.local_address[1]
            headers = request.headers
            if not is_allowed(headers.get_all("Host"), headers.get_all("Origin"), listening, port):
                return connection.respond(FORBIDDEN, "This viewer answers only pages of its own address.\n")
            answer = None if process_request is None else process_request(connection, request)
            return await answer if inspect.isawaitable(answer) else answer

        return original(*arguments, process_request=checked, **settings)

    with mock.patch.object(server, "serve", serve):
        yield


def check_guarded(host: str, port: int) -> None:
    """Raise `ModelError` unless the server refuses a foreign page."""
    connection = http.client.HTTPConnection("127.0.0.1" if host in ("0.0.0.0", "") else host, port, timeout=10)
    try:
        connection.putrequest("GET", "/", skip_host=True)
        connection.putheader("Host", "foreign.invalid")
        connection.endheaders()
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        raise ModelError("view", [f"the viewer does not answer: {error}"]) from error
    finally:
        connection.close()
    if status != FORBIDDEN:
        raise ModelError("view", ["this version of viser cannot be kept from answering foreign pages; upgrade bricard"])
