"""Routes of the HTTP server."""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import Any, Awaitable, Callable, Dict, Optional
from urllib.parse import unquote

from .. import json_text
from ..errors import TEMPORARY, VALIDATION, NodeError
from ..invocation import BadRequest, read_invocation
from ..service import Service, UnknownNode
from .connection import READ_LIMIT, Connection
from .request import Head
from .response import Response, answer, failure

TLS_HANDSHAKE_SECONDS = 10.0
_PREFIX, _SUFFIX = "/v1/nodes/", "/invoke"


class HttpServer:
    """Serves a Service over HTTP/1.1. Belongs to one event loop."""

    def __init__(self, service: Service, body_bytes_max: int, body_seconds: float, connections_max: int) -> None:
        self._service = service
        self._connections_max = connections_max
        self._body_bytes_max = body_bytes_max
        self._body_seconds = body_seconds
        self._server: Optional[asyncio.Server] = None
        self._connections: Dict[Connection, "asyncio.Task[Any]"] = {}

    async def start(self, host: str, port: int, tls: Optional[ssl.SSLContext]) -> int:
        """Listens, and returns the port."""
        self._server = await asyncio.start_server(
            self._connected,
            host,
            port,
            limit=READ_LIMIT,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else TLS_HANDSHAKE_SECONDS,
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Closes: idle connections at once, others after their answer or within a second."""
        if self._server is None:
            return
        self._server.close()
        for connection in list(self._connections):
            connection.close_when_idle()
        tasks = set(self._connections.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=1.0)
            for task in late:
                task.cancel()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= self._connections_max and not self._close_idle():
            writer.transport.abort()
            return
        connection = Connection(reader, writer, self._route, self._body_bytes_max, self._body_seconds)
        task: Any = asyncio.current_task()
        self._connections[connection] = task
        try:
            await connection.run()
        finally:
            del self._connections[connection]

    def _close_idle(self) -> bool:
        """Closes the oldest idle connection, so that idle clients cannot keep others out. Returns whether there was one."""
        idle = next((connection for connection in self._connections if connection.idle and not connection.closing), None)
        if idle is None:
            return False
        idle.close_when_idle()
        return True

    async def _route(self, head: Head, read_body: Callable[[], Awaitable[bytes]]) -> Response:
        path = head.target.partition("?")[0]
        if path == "/v1/health":
            return self._health(head)
        if not self._service.authorised(head.headers.get("authorization")):
            message = "the token is missing or wrong; send Authorization: Bearer <token>"
            return failure(NodeError(TEMPORARY, message), 401, {"WWW-Authenticate": "Bearer"})
        if path == "/v1/manifest":
            return _wrong_method("GET") if head.method != "GET" else answer(self._service.manifest())
        if path.startswith(_PREFIX) and path.endswith(_SUFFIX) and len(path) > len(_PREFIX) + len(_SUFFIX):
            if head.method != "POST":
                return _wrong_method("POST")
            try:
                return await self._invoke(unquote(path[len(_PREFIX) : -len(_SUFFIX)]), head, read_body)
            except UnknownNode as error:
                return failure(error, 404)
            except NodeError as error:
                return failure(error)
        return failure(NodeError(TEMPORARY, "no such route; docs/reference/node-protocol.md lists them"), 404)

    async def _invoke(self, operation_id: str, head: Head, read_body: Callable[[], Awaitable[bytes]]) -> Response:
        received_at = time.monotonic()
        # A runtime sends no Origin. A browser does: no page may call nodes of the machine that shows it.
        if "origin" in head.headers:
            return failure(NodeError(VALIDATION, "requests of browsers are refused (header Origin)"), 403)
        if head.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return failure(NodeError(VALIDATION, "the header Content-Type must be application/json"), 415)
        self._service.node(operation_id)
        # Before the body is read, so that no more bodies are in memory than invocations are allowed.
        slot = self._service.gate.enter()
        try:
            body = await read_body()
            try:
                content = json_text.decode(body)
            except ValueError as error:
                raise BadRequest(f"the body is not JSON: {error}") from None
            reply = await self._service.invoke(read_invocation(operation_id, content, received_at), slot)
        finally:
            slot.release()
        replayed = b"true" if reply.replayed else b"false"
        return Response(200, b'{"outputs":' + reply.outputs + b',"replayed":' + replayed + b"}")

    def _health(self, head: Head) -> Response:
        if head.method != "GET":
            return _wrong_method("GET")
        return answer(self._service.health(), 503 if self._service.gate.stopping else 200)


def _wrong_method(allowed: str) -> Response:
    return failure(NodeError(VALIDATION, f"this route has the method {allowed}"), 405, {"Allow": allowed})
