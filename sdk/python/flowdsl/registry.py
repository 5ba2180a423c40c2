"""The nodes of a server, by operationId."""

from __future__ import annotations

import asyncio
import copy
from collections import OrderedDict
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Type, Union

from . import json_text
from .calls import call, is_async
from .errors import PERMANENT, NodeCrash, NodeError
from .node import BaseNode, FunctionNode, NodeInput, NodeOutput

#: What a server accepts as its nodes: nodes, classes of nodes, or functions by operationId.
Nodes = Union[Iterable[Union[BaseNode, Type[BaseNode]]], Mapping[str, Union[BaseNode, Callable[..., Any]]]]

INSTANCES_MAX = 100


class Registered:
    """One node of a server, and its copies for different settings."""

    def __init__(self, node: BaseNode) -> None:
        self.node = node
        self.operation_id = node.operation_id
        self.cancellable = is_async(node.function if isinstance(node, FunctionNode) else node.handle)
        self._has_init = type(node).init is not BaseNode.init
        self._instances: "OrderedDict[str, BaseNode]" = OrderedDict()
        self._initialising: Optional[asyncio.Lock] = None

    async def handle(self, input: NodeInput) -> NodeOutput:
        """Calls the node and checks its output. Raises NodeError, or NodeCrash for any other exception."""
        try:
            node = await self._instance(input.context.settings)
            output = await call(node.function if isinstance(node, FunctionNode) else node.handle, input)
        except (NodeError, asyncio.CancelledError):
            raise
        # A node that calls sys.exit() must not end the server.
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            raise NodeCrash(self.operation_id, error) from error
        if output is None:
            return NodeOutput()
        if isinstance(output, NodeOutput):
            return output
        raise NodeError(PERMANENT, f"node {self.operation_id} must return a NodeOutput or None, not {type(output).__name__}")

    async def _instance(self, settings: Mapping[str, Any]) -> BaseNode:
        """The node, initialised with these settings. An ``init`` that failed is called again at the next delivery."""
        if not self._has_init:
            return self.node
        self._initialising = self._initialising or asyncio.Lock()
        async with self._initialising:
            key = json_text.fingerprint(dict(settings))
            instance = self._instances.get(key)
            if instance is None:
                instance = copy.copy(self.node)
                await call(instance.init, settings)
                self._instances[key] = instance
                if len(self._instances) > INSTANCES_MAX:
                    self._instances.popitem(last=False)
            self._instances.move_to_end(key)
            return instance

    def manifest(self) -> Dict[str, Any]:
        """Its entry in the manifest; facts that the node does not state are left out."""
        node = self.node
        facts = {
            "operationId": self.operation_id,
            "version": node.version,
            "summary": node.summary,
            "inputs": list(node.inputs),
            "outputs": list(node.outputs),
        }
        return {name: fact for name, fact in facts.items() if fact}


def register(nodes: Nodes) -> Dict[str, Registered]:
    """Checks nodes and maps each by its operationId. Raises ValueError or TypeError, which say what to change."""
    if isinstance(nodes, Mapping):
        listed = [_named(operation_id, given) for operation_id, given in nodes.items()]
    elif isinstance(nodes, BaseNode) or callable(nodes):
        raise TypeError("nodes: must be a list of nodes, or an object by operationId")
    else:
        listed = [_instance_of(given) for given in nodes]
    if not listed:
        raise ValueError("nodes: is empty; a server needs at least one node")
    registered: Dict[str, Registered] = {}
    for one in listed:
        if not isinstance(one.operation_id, str) or one.operation_id == "":
            raise ValueError(f"{type(one).__name__} has no operation_id; set it to the operationId of the document")
        if one.operation_id in registered:
            raise ValueError(f'two nodes have the operation_id "{one.operation_id}"')
        registered[one.operation_id] = Registered(one)
    return registered


def _named(operation_id: str, given: Any) -> BaseNode:
    if isinstance(given, type) and issubclass(given, BaseNode):
        given = given()
    if isinstance(given, BaseNode):
        if given.operation_id not in ("", operation_id):
            raise ValueError(f'the node for "{operation_id}" has the operation_id "{given.operation_id}"')
        given.operation_id = operation_id
        return given
    if callable(given):
        return FunctionNode(given, operation_id)
    raise TypeError(f'the node for "{operation_id}" must be a BaseNode or a function, not {type(given).__name__}')


def _instance_of(given: Any) -> BaseNode:
    if isinstance(given, type) and issubclass(given, BaseNode):
        return given()
    if isinstance(given, BaseNode):
        return given
    if callable(given):
        name = getattr(given, "__name__", "a function")
        raise TypeError(f'{name} has no operationId: put @node("…") above it, or pass {{"…": {name}}}')
    raise TypeError(f"a node must be a BaseNode or a function with @node, not {type(given).__name__}")


def manifest_of(nodes: Mapping[str, Registered]) -> List[Dict[str, Any]]:
    return [nodes[operation_id].manifest() for operation_id in sorted(nodes)]
