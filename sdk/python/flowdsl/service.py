"""What a node server does, whatever the transport: look up the node, take a slot, deliver; health and manifest; stop."""

from __future__ import annotations

import hmac
from typing import Any, Dict, Optional

from .dedupe.base import DedupeStore
from .delivery import Answer, Deliveries
from .errors import TEMPORARY, NodeError
from .gate import Gate, Slot
from .invocation import Invocation
from .registry import Registered, manifest_of
from .version import PROTOCOL, VERSION


class UnknownNode(NodeError):
    """This server has no such node. TEMPORARY: during a deployment, another one may have it."""

    def __init__(self, operation_id: str) -> None:
        super().__init__(TEMPORARY, f'this server has no node "{operation_id[:100]}"')


class Service:
    def __init__(self, nodes: Dict[str, Registered], store: DedupeStore, concurrency: int, token: Optional[str], answer_bytes_max: int) -> None:
        self.nodes = nodes
        self.gate = Gate(concurrency)
        self.deliveries = Deliveries(store, answer_bytes_max)
        self._token = None if token is None else token.encode()

    def authorised(self, authorization: Optional[str]) -> bool:
        """Whether the header has the token; compared in constant time."""
        if self._token is None:
            return True
        scheme, _, given = (authorization or "").partition(" ")
        return hmac.compare_digest(given.strip().encode("utf-8", "replace"), self._token) and scheme.lower() == "bearer"

    def node(self, operation_id: str) -> Registered:
        """The node with this operationId. Raises UnknownNode."""
        node = self.nodes.get(operation_id)
        if node is None:
            raise UnknownNode(operation_id)
        return node

    async def invoke(self, invocation: Invocation, slot: Slot) -> Answer:
        """Delivers, and gives the slot back when the delivery, or the node, has ended. Raises NodeError."""
        return await self.deliveries.deliver(self.node(invocation.operation_id), invocation, slot)

    def health(self) -> Dict[str, Any]:
        return {
            "status": "stopping" if self.gate.stopping else "serving",
            "inFlight": self.gate.in_flight,
            "concurrency": self.gate.concurrency,
        }

    def manifest(self) -> Dict[str, Any]:
        return {"protocol": PROTOCOL, "sdk": {"language": "python", "version": VERSION}, "nodes": manifest_of(self.nodes)}

    async def drain(self, grace_seconds: float) -> None:
        """Lets no invocation in, waits for those that run, and cancels those that still run after the grace period."""
        if not await self.gate.drain(grace_seconds):
            self.deliveries.cancel_all()
