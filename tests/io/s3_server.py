"""A real S3 server on loopback, and a proxy before it that does what networks do at bad times."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from io import BufferedIOBase
    from pathlib import Path

_SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


_SIGNED = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host"
"""The server lets nobody who is nameless overwrite; signatures it does not check."""


@dataclass
class Request:
    """What a client asks for.

    Attributes:
        method: ``GET``, ``HEAD``, ``PUT`` …
        path: As it is on the wire, with bucket and query.
        headers: Of the request.
        number: How many like it there have been: of this method and path.
        body: Of the request.
    """

    method: str
    path: str
    headers: dict[str, str]
    number: int
    body: bytes = b""


@dataclass
class Reply:
    """What a client gets.

    Attributes:
        status: Of HTTP.
        headers: Of the reply.
        body: All of it.
        announced: How many bytes the header says; None for all.
        pause_s: How long nothing is sent.
        is_cut: Whether the connection ends after the body.
    """

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    announced: int | None = None
    pause_s: float = 0.0
    is_cut: bool = False


@contextmanager
def s3_server() -> Iterator[int]:
    """Run a server with nothing in it; yield its port."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def name_server(patch: pytest.MonkeyPatch, port: int) -> None:
    """Have the environment name a server, and let clients try again at once."""
    patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    patch.setenv("AWS_REGION", "us-east-1")
    patch.setenv("AWS_ACCESS_KEY_ID", "key")
    patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    patch.setattr("rmqtool.io.object_store.PAUSE_S", 0.01)


def put(port: int, key: str, data: bytes = b"") -> None:
    """Make an object, or a bucket."""
    connection = HTTPConnection("127.0.0.1", port)
    connection.request("PUT", f"/{quote(key)}", data, {"Authorization": _SIGNED})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    connection.close()


def upload(port: int, directory: Path, prefix: str) -> None:
    """Make an object of every file of a directory."""
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            put(port, f"{prefix}/{path.relative_to(directory).as_posix()}", path.read_bytes())


def _body_of(stream: BufferedIOBase, headers: dict[str, str]) -> bytes:
    """Return the body of a request, sent in chunks or not."""
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return stream.read(int(headers.get("content-length", 0)))
    body = b""
    while length := int(stream.readline().partition(b";")[0], 16):
        body += stream.read(length)
        stream.readline()
    stream.readline()
    return body


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # clients connect many at once, on machines that have other work

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that are tired of waiting."""


class Proxy:
    """Hands on what is asked, and what is answered as `fault` makes it.

    Attributes:
        fault: What becomes of a reply; a test sets it.
        requests: All that there have been.
    """

    def __init__(self, port: int) -> None:
        self.fault: Callable[[Request, Reply], Reply] = lambda request, reply: reply
        self.requests: list[Request] = []
        self.server_port = port
        self._lock = threading.Lock()

    @contextmanager
    def serving(self) -> Iterator[int]:
        """Serve; yield the port."""
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def handle_expect_100(self) -> bool:
                going_on = super().handle_expect_100()
                self.wfile.flush()  # else the client waits for a second
                return going_on

            def do_GET(self) -> None:
                proxy._answer(self)

            do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

            def log_message(self, format: str, *arguments: object) -> None:
                """Say nothing."""

        server = _Server(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def begin(self, fault: Callable[[Request, Reply], Reply]) -> None:
        """Forget what was asked, and do this from now on."""
        self.requests.clear()
        self.fault = fault

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        sent = _body_of(handler.rfile, headers)
        with self._lock:
            like = [one for one in self.requests if (one.method, one.path) == (handler.command, handler.path)]
            request = Request(handler.command, handler.path, headers, len(like), sent)
            self.requests.append(request)
        reply = self.fault(request, self._forwarded(request))
        time.sleep(reply.pause_s)
        handler.send_response(reply.status)
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        if "content-length" not in reply.headers:
            handler.send_header(
                "content-length", str(len(reply.body) if reply.announced is None else reply.announced)
            )
        handler.end_headers()
        handler.wfile.write(reply.body)
        handler.wfile.flush()
        handler.close_connection = reply.is_cut

    def _forwarded(self, request: Request) -> Reply:
        connection = HTTPConnection("127.0.0.1", self.server_port)
        own = {"host", "connection", "expect", "transfer-encoding"}
        sent = {name: value for name, value in request.headers.items() if name not in own}
        connection.request(request.method, request.path, request.body, headers=sent)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        dropped = {"connection", "transfer-encoding", "date", "server"}
        if request.method != "HEAD":
            dropped.add("content-length")
        kept = {name.lower(): value for name, value in answer.getheaders() if name.lower() not in dropped}
        return Reply(answer.status, kept, body)


@contextmanager
def stores_behind_proxy(stores: Mapping[str, Path]) -> Iterator[Proxy]:
    """Run a server with stores in its bucket, behind a proxy that the environment names."""
    with s3_server() as port, pytest.MonkeyPatch.context() as patch:
        put(port, "bucket")
        for name, store in stores.items():
            upload(port, store, f"bucket/{name}")
        proxy = Proxy(port)
        with proxy.serving() as proxied:
            name_server(patch, proxied)
            yield proxy
