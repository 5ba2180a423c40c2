"""Reads HTTP/1.1 requests from a stream, within limits of size."""

from __future__ import annotations

import asyncio
import re
from typing import AsyncIterator, Dict, Mapping, NamedTuple, Optional

HEAD_BYTES_MAX = 64 * 1024
#: A body that is not wanted is read and thrown away, if it is this short: then the connection can be used again.
DISCARD_BYTES_MAX = 1024 * 1024
_PIECE = 64 * 1024
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_SIZE = re.compile(r"[0-9A-Fa-f]{1,8}\Z")


class HttpError(Exception):
    """The request cannot be served. The connection is closed after the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Head(NamedTuple):
    """Request line and headers. Names of headers are lower-case."""

    method: str
    target: str
    headers: Mapping[str, str]
    keep_alive: bool
    #: None: the body is chunked.
    content_length: Optional[int]


async def read_head(reader: asyncio.StreamReader, first: bytes = b"") -> Optional[Head]:
    """The head of the next request; None if the connection ended before it. ``first`` was read already. Raises HttpError."""
    try:
        raw = first + await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if (first + error.partial).strip(b"\r\n") == b"":
            return None
        raise HttpError(400, "the request ended within its headers") from None
    except asyncio.LimitOverrunError:
        raise HttpError(431, f"the headers have more than {HEAD_BYTES_MAX} bytes") from None
    lines = raw.decode("latin-1").lstrip("\r\n").split("\r\n")
    parts = lines[0].split(" ")
    if len(parts) != 3 or not _TOKEN.match(parts[0]) or parts[2] not in ("HTTP/1.0", "HTTP/1.1"):
        raise HttpError(400, "not an HTTP/1.1 request")
    method, target, version = parts
    headers = _headers(lines[1:-2])
    if version == "HTTP/1.1" and "host" not in headers:
        raise HttpError(400, "the header Host is missing")
    connection = [word.strip().lower() for word in headers.get("connection", "").split(",")]
    keep_alive = "close" not in connection and (version == "HTTP/1.1" or "keep-alive" in connection)
    return Head(method, target, headers, keep_alive, _content_length(headers, version))


def _headers(lines: "list[str]") -> Dict[str, str]:
    headers: Dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        # A name with a space before its colon, or a folded line, is read differently by different proxies.
        if colon == "" or not _TOKEN.match(name):
            raise HttpError(400, "a header is malformed")
        value = value.strip(" \t")
        if any(sign < " " and sign != "\t" or sign == "\x7f" for sign in value):
            raise HttpError(400, "a header has a control character")
        name = name.lower()
        if name in headers and name in ("content-length", "transfer-encoding", "host", "authorization", "content-type"):
            raise HttpError(400, f"the header {name} is there twice")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _content_length(headers: Mapping[str, str], version: str) -> Optional[int]:
    """Refuses requests whose end two parsers could see at different places."""
    encoding = headers.get("transfer-encoding")
    length = headers.get("content-length")
    if encoding is not None:
        if length is not None or version == "HTTP/1.0":
            raise HttpError(400, "Transfer-Encoding together with Content-Length, or in HTTP/1.0")
        if encoding.lower() != "chunked":
            raise HttpError(501, "the only Transfer-Encoding that is supported is chunked")
        return None
    if length is None:
        return 0
    if not (length.isascii() and length.isdigit() and len(length) <= 18):
        raise HttpError(400, "Content-Length is not a number")
    return int(length)


async def read_body(reader: asyncio.StreamReader, head: Head, bytes_max: int) -> bytes:
    """The body. Raises HttpError 413 if it is too large: at once, if the headers say so."""
    if head.content_length is not None and head.content_length > bytes_max:
        raise too_large(bytes_max)
    body = bytearray()
    async for piece in _pieces(reader, head):
        body += piece
        if len(body) > bytes_max:
            raise too_large(bytes_max)
    return bytes(body)


def too_large(bytes_max: int) -> HttpError:
    return HttpError(413, f"the body has more than {bytes_max} bytes")


async def discard_body(reader: asyncio.StreamReader, head: Head) -> bool:
    """Throws the body away. Returns False if it is long: then the connection cannot be used again."""
    if head.content_length is not None and head.content_length > DISCARD_BYTES_MAX:
        return False
    seen = 0
    async for piece in _pieces(reader, head):
        seen += len(piece)
        if seen > DISCARD_BYTES_MAX:
            return False
    return True


async def _pieces(reader: asyncio.StreamReader, head: Head) -> AsyncIterator[bytes]:
    if head.content_length is None:
        async for piece in _chunks(reader):
            yield piece
        return
    left = head.content_length
    while left > 0:
        piece = await reader.read(min(left, _PIECE))
        if piece == b"":
            raise HttpError(400, "the request ended within its body")
        left -= len(piece)
        yield piece


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        size = (await _line(reader)).partition(";")[0].strip(" \t")
        if not _SIZE.match(size):
            raise HttpError(400, "the size of a chunk is malformed")
        left = int(size, 16)
        if left == 0:
            break
        while left > 0:
            piece = await reader.read(min(left, _PIECE))
            if piece == b"":
                raise HttpError(400, "the request ended within its body")
            left -= len(piece)
            yield piece
        if await _line(reader) != "":
            raise HttpError(400, "a chunk is longer than its size")
    seen = 0
    while True:
        trailer = await _line(reader)
        if trailer == "":
            return
        seen += len(trailer)
        if seen > HEAD_BYTES_MAX:
            raise HttpError(431, "the trailers are too long")


async def _line(reader: asyncio.StreamReader) -> str:
    try:
        line = await reader.readuntil(b"\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        raise HttpError(400, "a chunk is malformed") from None
    return line[:-2].decode("latin-1")
