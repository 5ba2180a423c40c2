"""One connection: request after request, until a side closes it.

States: idle → head → body → answer → idle. Every state has a limit of time.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Awaitable, Callable

from ..errors import TEMPORARY, VALIDATION, NodeError
from .request import HEAD_BYTES_MAX, Head, HttpError, discard_body, read_body, read_head
from .response import Response, failure

log = logging.getLogger("flowdsl")

#: A connection without a request is closed after this time.
IDLE_SECONDS = 60.0
#: After an answer that came before the end of a long body, the client has this time to read it.
LINGER_SECONDS = 5.0
#: A client has this time to read an answer.
WRITE_SECONDS = 30.0
READ_LIMIT = HEAD_BYTES_MAX

#: Answers a request. It reads the body if it wants to.
Handler = Callable[[Head, Callable[[], Awaitable[bytes]]], Awaitable[Response]]


class Connection:
    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handler: Handler, body_bytes_max: int, body_seconds: float
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._handler = handler
        self._body_bytes_max = body_bytes_max
        self._body_seconds = body_seconds
        #: No request is being answered: the connection can be closed without loss.
        self.idle = True
        self.closing = False

    async def run(self) -> None:
        try:
            while await self._request():
                pass
        except (ConnectionError, asyncio.TimeoutError, asyncio.IncompleteReadError):
            pass  # The client went away, or is too slow.
        except asyncio.CancelledError:
            pass  # The server closes.
        except Exception as error:
            log.error("a connection failed", exc_info=error)
        finally:
            self._writer.close()

    def close_when_idle(self) -> None:
        """Ends the connection: at once if it is idle, otherwise after the answer in progress."""
        self.closing = True
        if self.idle:
            self._writer.close()

    async def _request(self) -> bool:
        """Serves one request. Returns whether another one may follow."""
        self.idle = True
        # The first byte may take its time, the rest of the head may not.
        first = await asyncio.wait_for(self._reader.read(1), IDLE_SECONDS)
        if first == b"" or self.closing:
            return False
        self.idle = False
        try:
            head = await asyncio.wait_for(read_head(self._reader, first), self._body_seconds)
        except HttpError as error:
            await self._write(_refusal(error), keep_alive=False)
            await self._linger()
            return False
        if head is None:
            return False
        body = _Body(self._reader, self._writer, head, self._body_bytes_max, self._body_seconds)
        try:
            response = await self._handler(head, body.read)
            keep_alive = head.keep_alive and not self.closing
        except HttpError as error:
            response, keep_alive = _refusal(error), False
        finished = await body.finish()
        keep_alive = keep_alive and finished
        await self._write(response, keep_alive)
        if not finished:
            await self._linger()
        return keep_alive

    async def _linger(self) -> None:
        """Reads what the client still sends: to close a connection with unread data would destroy the answer on its way."""
        if self._writer.can_write_eof():
            self._writer.write_eof()
        loop = asyncio.get_running_loop()
        until = loop.time() + LINGER_SECONDS
        while await asyncio.wait_for(self._reader.read(READ_LIMIT), until - loop.time()) != b"":
            pass

    async def _write(self, response: Response, keep_alive: bool) -> None:
        self._writer.write(response.head(keep_alive) + response.body)
        try:
            await asyncio.wait_for(self._writer.drain(), WRITE_SECONDS)
        except asyncio.TimeoutError:
            self._writer.transport.abort()
            raise


class _Body:
    """The body of one request, read at most once."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: Head, bytes_max: int, seconds: float) -> None:
        self._reader = reader
        self._writer = writer
        self._head = head
        self._bytes_max = bytes_max
        self._seconds = seconds
        self._finished = head.content_length == 0
        self._failed = False

    async def read(self) -> bytes:
        if self._head.headers.get("expect", "").lower() == "100-continue" and not self._finished:
            if self._head.content_length is None or self._head.content_length <= self._bytes_max:
                self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            body = await asyncio.wait_for(read_body(self._reader, self._head, self._bytes_max), self._seconds)
        except HttpError as error:
            self._failed = error.status != 413
            raise
        self._finished = True
        return body

    async def finish(self) -> bool:
        """Reads what is left of a short body. Returns whether the connection can be used again."""
        if self._finished or self._failed:
            return self._finished
        if self._head.headers.get("expect", "").lower() == "100-continue":
            return False  # The client has not sent it.
        try:
            return await asyncio.wait_for(discard_body(self._reader, self._head), self._seconds)
        except (HttpError, asyncio.TimeoutError):
            return False


def _refusal(error: HttpError) -> Response:
    code = VALIDATION if error.status in (400, 413, 415, 431) else TEMPORARY
    return failure(NodeError(code, error.message), error.status)
