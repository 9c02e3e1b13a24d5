"""The bytes at an address, within a time and a size that the server can't stretch."""

import socket
import threading
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib import request
from urllib.error import HTTPError
from urllib.parse import quote

from torchpipe import __version__
from torchpipe._sentences import printable
from torchpipe.errors import DataError, PictureError


def download(address: str, name: str, *, timeout: float, max_bytes: int) -> bytes:
    """What an ``http://`` or ``https://`` address answers with, redirections to other such addresses followed.

    Args:
        address: where it is.
        name: what errors call it, as "picture 'http://...'".
        timeout: seconds for all of it: connecting, redirections, headers and body. (The name's look-up is the system's,
            and has a limit of its own.)
        max_bytes: the most bytes to take.

    Raises:
        DataError: there is no answer, not in time, or it is an error; it is too large or cut short.
    """
    deadline = _Deadline(timeout)
    try:
        with deadline:
            agent = {"User-Agent": f"torchpipe/{__version__}"}
            query = request.Request(quote(address, safe="%/:=&?~#+!$,;'@()*[]"), headers=agent)
            with _opener(deadline).open(query, timeout=timeout) as response:
                return _body(response, name, deadline, max_bytes)
    except (OSError, ValueError, HTTPException) as error:
        if isinstance(error, DataError):
            raise
        reason = getattr(error, "reason", error)
        if isinstance(error, HTTPError):
            error.close()  # it is the answer too
            reason = f"the server answered {error.code} ({error.reason})"
        if deadline.passed or "timed out" in str(error):
            reason = f"it did not come within {timeout:g} seconds"
        # Servers write a part of these sentences.
        raise PictureError(f"The {name} can't be downloaded: {printable(reason)[:300]}.") from error


def _body(response: HTTPResponse, name: str, deadline: "_Deadline", max_bytes: int) -> bytes:
    data = bytearray()
    while len(data) + (response.length or 0) <= max_bytes and (part := response.read1(2**16)):
        data += part
    if deadline.passed:
        raise TimeoutError("timed out")
    if len(data) + (response.length or 0) > max_bytes:
        raise PictureError(f"The {name} has more than {max_bytes:,} bytes. Make it smaller, or raise max_bytes.")
    if response.length:
        raise PictureError(f"The {name} was cut short: {response.length:,} bytes are missing.")
    return bytes(data)


class _Deadline:
    """Cuts the connections that are still open after some seconds.

    A socket's own timeout is one for each read, so a server that sends a byte at a time would never meet it.
    """

    def __init__(self, seconds: float) -> None:
        self.passed = False
        self._connections: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._pass)
        self._timer.daemon = True

    def __enter__(self) -> "_Deadline":
        self._timer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()
        for connection in self._connections:
            connection.close()

    def watch(self, connection: socket.socket) -> None:
        """None, once the connection is among those to be cut.

        Raises:
            TimeoutError: it is too late already.
        """
        self._connections.append(connection.dup())  # TLS takes the socket over, and closes the object
        if self.passed:
            raise TimeoutError("timed out")

    def _pass(self) -> None:
        self.passed = True
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def _opener(deadline: _Deadline) -> request.OpenerDirector:
    class Watched(HTTPConnection):
        def connect(self) -> None:
            super().connect()
            deadline.watch(self.sock)

    class WatchedTLS(HTTPSConnection, Watched):
        """Connects as the other does, and begins to speak TLS after that."""

    class Plain(request.HTTPHandler):
        def http_open(self, req: request.Request) -> HTTPResponse:
            return self.do_open(Watched, req)

    class TLS(request.HTTPSHandler):
        def https_open(self, req: request.Request) -> HTTPResponse:
            return self.do_open(WatchedTLS, req)

    # No handlers for ftp: and file:, so that a redirection does not lead there.
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler(),
        request.UnknownHandler(),
        Plain(),
        TLS(),
        request.HTTPDefaultErrorHandler(),
        request.HTTPRedirectHandler(),
        request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener
