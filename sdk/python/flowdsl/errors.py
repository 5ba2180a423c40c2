"""The error that a node raises, and its codes."""

from __future__ import annotations

from typing import FrozenSet, Optional

VALIDATION = "VALIDATION"
INPUT_MISSING = "INPUT_MISSING"
PERMANENT = "PERMANENT"
TIMEOUT = "TIMEOUT"
RATE_LIMITED = "RATE_LIMITED"
TEMPORARY = "TEMPORARY"
NETWORK_ERROR = "NETWORK_ERROR"

#: Codes that the runtime does not retry: the packet becomes a dead letter at once.
FINAL_CODES: FrozenSet[str] = frozenset({VALIDATION, INPUT_MISSING, PERMANENT})
#: Every code that a NodeError can have.
CODES: FrozenSet[str] = FINAL_CODES | {TIMEOUT, RATE_LIMITED, TEMPORARY, NETWORK_ERROR}


class NodeError(Exception):
    """An error that a node raises.

    VALIDATION, INPUT_MISSING and PERMANENT are not retried; the other codes, and exceptions of any other class, are retried by the
    edge's retry policy. The message goes to the caller: put no secret into it. The cause goes to the log.

    Raises ValueError if the code is unknown.

    >>> raise NodeError(RATE_LIMITED, "the SMS provider asks to wait", retry_after_ms=2000)
    Traceback (most recent call last):
    ...
    flowdsl.errors.NodeError: the SMS provider asks to wait
    """

    def __init__(
        self,
        code: str,
        message: str,
        cause: Optional[BaseException] = None,
        *,
        retry_after_ms: Optional[int] = None,
    ) -> None:
        if code not in CODES:
            raise ValueError(f"code: must be one of {', '.join(sorted(CODES))}, not {code!r}")
        if retry_after_ms is not None and (isinstance(retry_after_ms, bool) or not isinstance(retry_after_ms, int) or retry_after_ms < 0):
            raise ValueError(f"retry_after_ms: must be an integer of at least 0, not {retry_after_ms!r}")
        super().__init__(message)
        self.code = code
        self.message = str(message)
        self.retry_after_ms = retry_after_ms
        if cause is not None:
            self.__cause__ = cause

    @property
    def cause(self) -> Optional[BaseException]:
        """The exception that led to this one: the third argument, or that of ``raise … from …``."""
        return self.__cause__

    @property
    def retryable(self) -> bool:
        """Whether the runtime may deliver the packet again."""
        return self.code not in FINAL_CODES


class NodeCrash(NodeError):
    """An exception in the node that is no NodeError. The caller gets its class and first line; the log gets the traceback."""

    def __init__(self, operation_id: str, cause: BaseException) -> None:
        first_line = (str(cause).strip().splitlines() or [""])[0][:500]
        super().__init__(TEMPORARY, f"node {operation_id} raised {type(cause).__name__}{first_line and ': '}{first_line}", cause)
