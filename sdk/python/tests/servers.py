"""Requests to a server of this process, as bytes and as calls."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Dict, List, Optional, Tuple
from urllib.parse import urlsplit

from flowdsl import NodeServer


def body(key: Optional[str] = None, data: Any = None, **more: Any) -> Dict[str, Any]:
    """The body of an invocation."""
    facts = {"flowId": "f", "executionId": "x", "nodeId": "n", "packetId": "p", "attempt": 1, "deadlineMs": 60000}
    return {**facts, **({} if key is None else {"idempotencyKey": key}), "inputs": {"in": {} if data is None else data}, **more}


def request_bytes(method: str, path: str, content: bytes = b"", headers: "Dict[str, str] | None" = None) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", "Content-Type: application/json", f"Content-Length: {len(content)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, server: NodeServer, **options: Any) -> "Client":
        parts = urlsplit(server.url)
        assert parts.hostname is not None
        return cls(*await asyncio.open_connection(parts.hostname, parts.port, **options))

    async def response(self) -> Tuple[int, Dict[str, str], Any]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])}
        content = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return int(head[0].split(" ")[1]), headers, json.loads(content) if content else None

    async def send(self, data: bytes) -> Tuple[int, Dict[str, str], Any]:
        self.writer.write(data)
        return await self.response()

    async def call(
        self, method: str, path: str, content: Any = None, headers: "Dict[str, str] | None" = None
    ) -> Tuple[int, Dict[str, str], Any]:
        encoded = b"" if content is None else json.dumps(content).encode()
        return await self.send(request_bytes(method, path, encoded, headers))

    async def ended(self) -> bool:
        """Waits until the server has closed the connection."""
        try:
            while await self.reader.read(1000):
                pass
        except ConnectionError:
            pass
        return True

    def close(self) -> None:
        self.writer.close()


async def call(server: NodeServer, operation_id: str, content: Any, headers: "Dict[str, str] | None" = None) -> Tuple[int, Any]:
    """Invokes a node over a new connection."""
    client = await Client.to(server)
    try:
        status, _, answer = await client.call("POST", f"/v1/nodes/{operation_id}/invoke", content, headers)
        return status, answer
    finally:
        client.close()


def datas(answer: Any) -> List[Any]:
    return [output["data"] for output in answer["outputs"]]
