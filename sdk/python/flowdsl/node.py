"""What nodes are written with: the input, the output, the context, and the ways to write a node."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Awaitable, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import json_text
from .calls import is_async
from .errors import INPUT_MISSING, PERMANENT, NodeError
from .packet import Packet


@dataclass(frozen=True)
class NodeContext:
    """Facts about one call of a node."""

    flow_id: str = ""
    execution_id: str = ""
    node_id: str = ""
    #: The same at every attempt to deliver the packet.
    packet_id: str = ""
    #: The key that the edge's template made from the packet: pass it to providers. None if the edge has no key.
    idempotency_key: Optional[str] = None
    #: Attempt number, from 1.
    attempt: int = 1
    #: W3C trace context of the trigger: pass it to systems that the node calls.
    trace_headers: Mapping[str, str] = field(default_factory=dict)
    #: ``settings`` of the node in the document.
    settings: Mapping[str, Any] = field(default_factory=dict)
    #: time.monotonic() at which the runtime stops waiting.
    deadline: float = math.inf
    #: Set when the time of this call is over. Functions that are not async look at it, because a thread cannot be cancelled.
    cancelled: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)

    def remaining(self) -> float:
        """Seconds until the runtime stops waiting, at least 0. Infinite in tests that give no deadline."""
        return max(0.0, self.deadline - time.monotonic())


class NodeInput:
    """The input of a node: one packet for each filled input port."""

    def __init__(self, packets: Mapping[str, Mapping[str, Any]], context: NodeContext) -> None:
        self._packets = {port: Packet(data) for port, data in packets.items()}
        self.context = context

    @property
    def ports(self) -> Tuple[str, ...]:
        """Names of the ports that have a packet."""
        return tuple(self._packets)

    def packet(self, port: str) -> Packet:
        """The packet at a port; ``await`` works on it, and is not needed. Raises NodeError INPUT_MISSING if the port has none."""
        try:
            return self._packets[port]
        except KeyError:
            there = ", ".join(f'"{name}"' for name in self._packets) or "none"
            raise NodeError(INPUT_MISSING, f'no packet at port "{port}"; ports with a packet: {there}') from None

    def data(self, port: str) -> Dict[str, Any]:
        """The members of the packet at a port, as a dict. Raises as ``packet`` does."""
        return self.packet(port).data


class Sent(NamedTuple):
    """A packet that a node sent."""

    port: str
    data: Mapping[str, Any]
    #: The data as JSON, as it was when it was sent.
    text: bytes


class NodeOutput:
    """The output of a node: any number of packets, sent to any of its output ports, in order."""

    def __init__(self) -> None:
        self._sent: List[Sent] = []

    def send(self, port: str, data: Mapping[str, Any]) -> "NodeOutput":
        """Sends a packet to a port. Raises NodeError PERMANENT, which is not retried, if the data has no JSON form.

        A retry would repeat the node's effect, and fail again.
        """
        if not isinstance(port, str) or port == "":
            raise NodeError(PERMANENT, f"port: must be the name of an output, not {port!r}")
        if not isinstance(data, Mapping):
            raise NodeError(PERMANENT, f'the data for port "{port}" must be an object, not {type(data).__name__}')
        members = json_text.plain(data)
        try:
            text = json_text.encode(members)
        except ValueError as error:
            raise NodeError(PERMANENT, f'the data for port "{port}" cannot be sent: {error}') from None
        self._sent.append(Sent(port, members, text))
        return self

    @property
    def sent(self) -> Sequence[Sent]:
        """The packets sent so far."""
        return tuple(self._sent)


Handled = Optional[NodeOutput]
#: A node as a function of its input, async or not.
NodeFunction = Callable[[NodeInput], Union[Handled, Awaitable[Handled]]]


class BaseNode:
    """Base class of nodes with settings or state. A function with the decorator ``@node`` is a node, too.

    ``handle`` may be async or not. One that is not runs in a thread, and cannot be stopped at its deadline.

    >>> class Charge(BaseNode):
    ...     operation_id = "charge_payment"
    ...
    ...     async def handle(self, input: NodeInput) -> NodeOutput:
    ...         return NodeOutput().send("out", {"charged": input.packet("in").get_string("orderId")})
    """

    #: The operationId of the node in the document.
    operation_id: str = ""
    #: For the manifest of the server; all may be left out.
    version: str = ""
    summary: str = ""
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()

    def init(self, settings: Mapping[str, Any]) -> Union[None, Awaitable[None]]:
        """Called before the first packet, with the node's ``settings`` from the document.

        If flows use the operation with different settings, a shallow copy of the node is made and initialised for each.
        """
        return None

    def handle(self, input: NodeInput) -> Union[Handled, Awaitable[Handled]]:
        """Handles one delivery: returns a NodeOutput, or None if it sends nothing."""
        raise NotImplementedError(f"{type(self).__name__} has no method handle")


class FunctionNode(BaseNode):
    """A function as a node; made by ``@node`` and ``@typed_node``."""

    def __init__(
        self,
        function: NodeFunction,
        operation_id: str,
        *,
        version: str = "",
        summary: str = "",
        inputs: Sequence[str] = (),
        outputs: Sequence[str] = (),
    ) -> None:
        self.function = function
        self.operation_id = operation_id
        self.version = version
        self.summary = summary
        self.inputs = inputs
        self.outputs = outputs
        self.__doc__ = function.__doc__

    def handle(self, input: NodeInput) -> Union[Handled, Awaitable[Handled]]:
        return self.function(input)

    __call__ = handle


def node(
    operation_id: str, *, version: str = "", summary: str = "", inputs: Sequence[str] = (), outputs: Sequence[str] = ()
) -> Callable[[NodeFunction], FunctionNode]:
    """Makes a node of a function.

    >>> @node("double_it")
    ... def double_it(input: NodeInput) -> NodeOutput:
    ...     return NodeOutput().send("out", {"n": input.packet("in").get_number("n") * 2})
    """
    if not isinstance(operation_id, str):
        raise TypeError('write @node("operation_id"), with the operationId of the document')
    return lambda function: FunctionNode(
        function, operation_id, version=version, summary=summary, inputs=inputs, outputs=outputs
    )


def typed_node(
    operation_id: str, *, version: str = "", summary: str = "", inputs: Sequence[str] = (), outputs: Sequence[str] = ()
) -> Callable[[Callable[[Any, Any], Union[None, Awaitable[None]]]], FunctionNode]:
    """Makes a node of a function of a typed input and a typed output: ``onceflow generate python`` writes both types."""

    def make(function: Callable[[Any, Any], Union[None, Awaitable[None]]]) -> FunctionNode:
        def handle(input: NodeInput) -> Handled:
            output = NodeOutput()
            function(input, output)
            return output

        async def handle_async(input: NodeInput) -> Handled:
            output = NodeOutput()
            await function(input, output)  # type: ignore[misc]
            return output

        return FunctionNode(
            handle_async if is_async(function) else handle,
            operation_id,
            version=version,
            summary=summary,
            inputs=inputs,
            outputs=outputs,
        )

    return make
