"""Write nodes of flow graphs in Python, and serve them to a runtime over HTTP or gRPC."""

from .dedupe import DedupeKey, DedupeStore, Kept, MemoryDedupeStore, SqliteDedupeStore
from .errors import (
    INPUT_MISSING,
    NETWORK_ERROR,
    PERMANENT,
    RATE_LIMITED,
    TEMPORARY,
    TIMEOUT,
    VALIDATION,
    NodeError,
)
from .node import BaseNode, FunctionNode, NodeContext, NodeInput, NodeOutput, node, typed_node
from .packet import Packet
from .server import NodeServer, serve
from .testing import Delivered, deliver, mock_node_input
from .version import VERSION as __version__

__all__ = [
    "INPUT_MISSING",
    "NETWORK_ERROR",
    "PERMANENT",
    "RATE_LIMITED",
    "TEMPORARY",
    "TIMEOUT",
    "VALIDATION",
    "BaseNode",
    "DedupeKey",
    "DedupeStore",
    "Delivered",
    "FunctionNode",
    "Kept",
    "MemoryDedupeStore",
    "NodeContext",
    "NodeError",
    "NodeInput",
    "NodeOutput",
    "NodeServer",
    "Packet",
    "SqliteDedupeStore",
    "__version__",
    "deliver",
    "mock_node_input",
    "node",
    "serve",
    "typed_node",
]
