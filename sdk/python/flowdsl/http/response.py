"""Answers of the server: status, headers and a JSON body."""

from __future__ import annotations

import http
import json
import math
from typing import Any, Dict, NamedTuple, Optional

from ..errors import (
    INPUT_MISSING,
    NETWORK_ERROR,
    PERMANENT,
    RATE_LIMITED,
    TEMPORARY,
    TIMEOUT,
    VALIDATION,
    NodeCrash,
    NodeError,
)
from ..invocation import BadRequest

STATUS_OF_CODE = {
    VALIDATION: 422,
    INPUT_MISSING: 422,
    PERMANENT: 422,
    TIMEOUT: 504,
    RATE_LIMITED: 429,
    NETWORK_ERROR: 502,
    TEMPORARY: 503,
}


class Response(NamedTuple):
    status: int
    body: bytes
    headers: "Dict[str, str]" = {}

    def head(self, keep_alive: bool) -> bytes:
        """Status line and headers."""
        try:
            reason = http.HTTPStatus(self.status).phrase
        except ValueError:
            reason = ""
        lines = [
            f"HTTP/1.1 {self.status} {reason}",
            "Content-Type: application/json",
            f"Content-Length: {len(self.body)}",
            f"Connection: {'keep-alive' if keep_alive else 'close'}",
            *(f"{name}: {value}" for name, value in self.headers.items()),
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def answer(value: Any, status: int = 200, headers: Optional[Dict[str, str]] = None) -> Response:
    return Response(status, json.dumps(value).encode(), headers or {})


def failure(error: NodeError, status: Optional[int] = None, headers: Optional[Dict[str, str]] = None) -> Response:
    """The answer for an error."""
    facts: Dict[str, Any] = {"code": error.code, "message": error.message}
    headers = dict(headers or {})
    if error.retry_after_ms is not None:
        facts["retryAfterMs"] = error.retry_after_ms
        headers["Retry-After"] = str(math.ceil(error.retry_after_ms / 1000))
    return answer({"error": facts}, status or status_of(error), headers)


def status_of(error: NodeError) -> int:
    if isinstance(error, NodeCrash):
        return 500
    if isinstance(error, BadRequest):
        return 400
    return STATUS_OF_CODE[error.code]
