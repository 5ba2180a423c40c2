"""For tests of nodes: an input, and one delivery as a node server makes it."""

from __future__ import annotations

import time
import uuid
import weakref
from typing import Any, Callable, List, Mapping, NamedTuple, Optional, Tuple, Union, overload

from . import json_text
from .dedupe.base import DedupeStore
from .dedupe.memory import MemoryDedupeStore
from .delivery import Deliveries
from .invocation import INVOCATION_SECONDS_MAX, Invocation
from .node import BaseNode, FunctionNode, NodeContext, NodeInput
from .registry import Registered


@overload
def mock_node_input(
    port: str, data: Mapping[str, Any], *, idempotency_key: Optional[str] = None, **context: Any
) -> NodeInput: ...
@overload
def mock_node_input(port: Mapping[str, Mapping[str, Any]], *, idempotency_key: Optional[str] = None, **context: Any) -> NodeInput: ...
def mock_node_input(
    port: Union[str, Mapping[str, Mapping[str, Any]]],
    data: Optional[Mapping[str, Any]] = None,
    *,
    idempotency_key: Optional[str] = None,
    **context: Any,
) -> NodeInput:
    """Makes the input of a node for a test: a packet at one port, or one packet at each of several ports.

    Other arguments are members of the context that differ from the defaults, such as ``attempt=2``.

    >>> mock_node_input("in", {"messageId": "msg-001"}, idempotency_key="msg-001-sms").ports
    ('in',)
    """
    packets = {port: {} if data is None else data} if isinstance(port, str) else port
    facts = {"flow_id": "test_flow", "execution_id": str(uuid.uuid4()), "node_id": "node", "packet_id": "pk_1", **context}
    return NodeInput(packets, NodeContext(idempotency_key=idempotency_key, **facts))


class Delivered(NamedTuple):
    """The result of ``deliver``."""

    #: Port and data of each packet, in the order in which the node sent them.
    outputs: List[Tuple[str, Mapping[str, Any]]]
    #: The answer was kept from an earlier delivery: the node was not called.
    replayed: bool


_stores: "weakref.WeakKeyDictionary[Any, MemoryDedupeStore]" = weakref.WeakKeyDictionary()


async def deliver(node: Union[BaseNode, Callable[..., Any]], input: NodeInput, store: Optional[DedupeStore] = None) -> Delivered:
    """Delivers an input to a node as a node server does, through a dedupe store.

    If the store has an answer for the key, the node is not called. Without a key the node is always called. The default store is in
    memory, one for each node. Raises NodeError.
    """
    if store is None:
        store = _stores.setdefault(node, MemoryDedupeStore())
    if not isinstance(node, BaseNode):
        node = FunctionNode(node, getattr(node, "__name__", "node"))
    packets = {port: input.data(port) for port in input.ports}
    ends_at = min(input.context.deadline, time.monotonic() + INVOCATION_SECONDS_MAX)
    answer = await Deliveries(store).deliver(Registered(node), Invocation(node.operation_id, input, packets, ends_at))
    outputs = [(output["port"], output["data"]) for output in json_text.decode(answer.outputs)]
    return Delivered(outputs, answer.replayed)
