"""An invocation: one delivery, as the runtime asks for it. The same for HTTP and gRPC."""

from __future__ import annotations

import time
from typing import Any, Dict, Mapping, NamedTuple, Optional

from .errors import TIMEOUT, VALIDATION, NodeError
from .node import NodeContext, NodeInput

#: A node may run this long, whatever the request says.
INVOCATION_SECONDS_MAX = 3600.0


class Invocation(NamedTuple):
    """A checked request."""

    operation_id: str
    input: NodeInput
    #: The packets, as they came.
    packets: Mapping[str, Mapping[str, Any]]
    #: time.monotonic() at which the server stops waiting for the node.
    ends_at: float


class BadRequest(NodeError):
    """The request breaks the protocol. HTTP answers 400, gRPC INVALID_ARGUMENT; the code is VALIDATION."""

    def __init__(self, message: str) -> None:
        super().__init__(VALIDATION, message)


def read_invocation(operation_id: str, body: Any, received_at: float) -> Invocation:
    """Checks the body of a request. ``received_at`` is the time.monotonic() at which the request began to arrive.

    Raises BadRequest, or NodeError TIMEOUT if the deadline has passed already.
    """
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object")
    attempt = body.get("attempt", 1)
    if isinstance(attempt, bool) or not isinstance(attempt, int) or attempt < 1:
        raise BadRequest("attempt: must be a whole number, from 1")
    packets = _object(body, "inputs")
    if not packets:
        raise BadRequest("inputs: must have a packet for at least one port")
    for port, packet in packets.items():
        if not isinstance(packet, dict):
            raise BadRequest(f'inputs: the packet of port "{port}" must be an object')
    deadline = _deadline(body.get("deadlineMs"), received_at)
    context = NodeContext(
        flow_id=_text(body, "flowId", required=True),
        execution_id=_text(body, "executionId"),
        node_id=_text(body, "nodeId", required=True),
        packet_id=_text(body, "packetId"),
        idempotency_key=_key(body.get("idempotencyKey")),
        attempt=attempt,
        trace_headers=_texts(body, "traceHeaders"),
        settings=_object(body, "settings"),
        deadline=deadline,
    )
    if deadline <= time.monotonic():
        raise NodeError(TIMEOUT, "the deadline passed before the node was called")
    return Invocation(operation_id, NodeInput(packets, context), packets, deadline)


def _text(body: Mapping[str, Any], name: str, required: bool = False) -> str:
    value = body.get(name, "")
    if not isinstance(value, str):
        raise BadRequest(f"{name}: must be text")
    if required and value == "":
        raise BadRequest(f"{name}: is missing")
    return value


def _key(value: Any) -> Optional[str]:
    if value is None:
        return None
    # Deliveries without a key leave the field out: an empty one would make all of them one operation.
    if not isinstance(value, str) or value == "":
        raise BadRequest("idempotencyKey: must be text that is not empty; leave it out if the edge has no key")
    return value


def _object(body: Mapping[str, Any], name: str) -> Dict[str, Any]:
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRequest(f"{name}: must be an object")
    return value


def _texts(body: Mapping[str, Any], name: str) -> Dict[str, str]:
    value = _object(body, name)
    if not all(isinstance(text, str) for text in value.values()):
        raise BadRequest(f"{name}: values must be text")
    return value


def _deadline(value: Any, received_at: float) -> float:
    if value is None:
        return received_at + INVOCATION_SECONDS_MAX
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadRequest("deadlineMs: must be a whole number of milliseconds, from 1")
    # Before the division: a huge int cannot become a float.
    return received_at + min(value, int(INVOCATION_SECONDS_MAX * 1000)) / 1000
