"""The node of the guide "Writing idempotent nodes", as printed there, and its test."""

import unittest
from typing import Any, Dict, List, Optional

from flowdsl import BaseNode, NodeInput, NodeOutput, deliver, mock_node_input


class CreateTicketNode(BaseNode):
    operation_id = "create_support_ticket"

    async def handle(self, input: NodeInput) -> NodeOutput:
        payload = await input.packet("in")
        ticket_id_source = payload.get("email", {}).get("messageId")

        # Use the idempotency key from the edge policy (set by the runtime)
        idempotency_key = input.context.idempotency_key

        # Check our own store first (for external systems that don't support idempotency)
        existing = await self._db.get_ticket_by_idempotency_key(idempotency_key)
        if existing:
            # Already created — return the existing ticket without calling the API
            return NodeOutput().send("out", existing)

        # Create the ticket
        ticket = await self._zendesk.create_ticket(
            subject=payload.get("email", {}).get("subject", ""),
            body=payload.get("email", {}).get("body", ""),
            priority=payload.get("classification"),
        )

        # Store our own record for idempotency
        await self._db.store_idempotency_record(idempotency_key, ticket)

        return NodeOutput().send("out", ticket)

    # Not in the guide: where the node gets its systems from.
    def __init__(self, db: Any, zendesk: Any) -> None:
        self._db = db
        self._zendesk = zendesk


class Database:
    def __init__(self) -> None:
        self.tickets: Dict[Optional[str], Any] = {}

    async def get_ticket_by_idempotency_key(self, key: Optional[str]) -> Any:
        return self.tickets.get(key)

    async def store_idempotency_record(self, key: Optional[str], ticket: Any) -> None:
        self.tickets[key] = ticket


class ForgetfulDatabase(Database):
    async def get_ticket_by_idempotency_key(self, key: Optional[str]) -> Any:
        return None


class Zendesk:
    def __init__(self) -> None:
        self.created: List[Dict[str, Any]] = []

    async def create_ticket(self, **ticket: Any) -> Dict[str, Any]:
        self.created.append(ticket)
        return {"id": len(self.created), **ticket}


PAYLOAD = {"email": {"messageId": "msg-001", "subject": "Help", "body": "It is down"}, "classification": "urgent"}
TICKET = {"id": 1, "subject": "Help", "body": "It is down", "priority": "urgent"}


class CreateTicketTest(unittest.IsolatedAsyncioTestCase):
    async def test_a_second_call_with_the_key_creates_nothing(self) -> None:
        zendesk = Zendesk()
        node = CreateTicketNode(Database(), zendesk)
        input = mock_node_input("in", PAYLOAD, idempotency_key="msg-001-ticket")
        first = await node.handle(input)
        again = await node.handle(input)
        self.assertEqual([first.sent[0].data, again.sent[0].data, len(zendesk.created)], [TICKET, TICKET, 1])

    async def test_a_second_delivery_with_the_key_does_not_call_the_node(self) -> None:
        zendesk = Zendesk()
        node = CreateTicketNode(ForgetfulDatabase(), zendesk)
        input = mock_node_input("in", PAYLOAD, idempotency_key="msg-001-ticket")
        first = await deliver(node, input)
        again = await deliver(node, input)
        self.assertEqual([first.replayed, again.replayed, again.outputs, len(zendesk.created)], [False, True, [("out", TICKET)], 1])
        await deliver(node, mock_node_input("in", PAYLOAD, idempotency_key="msg-002-ticket"))
        self.assertEqual(len(zendesk.created), 2)
        # Without a key there is nothing to recognise a delivery by.
        await deliver(node, mock_node_input("in", PAYLOAD))
        await deliver(node, mock_node_input("in", PAYLOAD))
        self.assertEqual(len(zendesk.created), 4)
