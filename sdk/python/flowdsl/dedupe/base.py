"""The contract of a dedupe store."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import NamedTuple, Optional


class DedupeKey(NamedTuple):
    """What a kept answer belongs to."""

    flow_id: str
    node_id: str
    key: str

    def text(self) -> str:
        """The three parts as one unambiguous ASCII text."""
        return json.dumps(list(self), separators=(",", ":"))


class Kept(NamedTuple):
    """A kept answer."""

    #: Hash of the inputs that it answers.
    fingerprint: str
    #: The outputs: a JSON array.
    outputs: bytes


class DedupeStore(ABC):
    """Keeps the answers of keys. Implement it over your own database to share answers between server processes.

    The server calls it from one event loop, and never twice at a time for one key within one process. A store that several
    processes share cannot stop two of them from calling a node for one key at the same moment; it makes later calls replays.
    """

    @abstractmethod
    async def get(self, key: DedupeKey) -> Optional[Kept]:
        """The kept answer, or None. If it raises, the node is not called, and the runtime gets TEMPORARY."""

    @abstractmethod
    async def put(self, key: DedupeKey, kept: Kept) -> None:
        """Keeps an answer, durably when it returns; an answer that is there already stays. If it raises, the answer is sent all the same."""

    @abstractmethod
    async def forget(self, key: DedupeKey) -> bool:
        """Removes an answer. Returns whether there was one."""

    async def close(self) -> None:
        """Called when the server has stopped."""
