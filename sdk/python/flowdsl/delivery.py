"""One delivery: find the kept answer of its key, or call the node and keep the answer.

    no key                → call the node
    key, answer is kept   → return it
    key, node runs for it → wait for that call, return its answer
    key, otherwise        → call the node, keep the answer, return it

If the process dies before ``store.put`` has committed, the next delivery with the key calls the node again: the unknown window. After
that, it returns the kept answer. The answer leaves the process only after ``put`` returned.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from . import json_text
from .dedupe.base import DedupeKey, DedupeStore, Kept
from .dedupe.memory import MemoryDedupeStore
from .errors import PERMANENT, TEMPORARY, TIMEOUT, VALIDATION, NodeCrash, NodeError
from .gate import Slot
from .invocation import Invocation
from .node import NodeInput, NodeOutput
from .registry import Registered

log = logging.getLogger("flowdsl")

ANSWER_BYTES_MAX = 10 * 1024 * 1024


class Answer(NamedTuple):
    """What a delivery returned."""

    #: A JSON array of {"port", "data"}, in the order in which the node sent them.
    outputs: bytes
    #: The answer was kept from an earlier delivery, or is that of another delivery with the key.
    replayed: bool

    def packets(self) -> List[Tuple[str, bytes]]:
        """Port and JSON text of each packet."""
        return [(output["port"], json_text.encode(output["data"])) for output in json_text.decode(self.outputs)]


class _NodeTimedOut(NodeError):
    """The node was cancelled at the deadline of the invocation that called it."""


class _Flight(NamedTuple):
    """A delivery with a key, while it runs."""

    fingerprint: str
    task: "asyncio.Task[Answer]"


class Deliveries:
    """Delivers to nodes, at most one call at a time for each key. Belongs to one event loop."""

    def __init__(self, store: DedupeStore, answer_bytes_max: int = ANSWER_BYTES_MAX) -> None:
        self._store = store
        self._answer_bytes_max = answer_bytes_max
        self._flights: Dict[DedupeKey, _Flight] = {}
        # Answers that the store could not save: as long as this process lives, it can still replay them.
        self._unsaved = MemoryDedupeStore(max_answers=10_000)
        # The event loop has only weak references to tasks.
        self._running: Set["asyncio.Task[Answer]"] = set()

    async def deliver(self, node: Registered, invocation: Invocation, slot: Optional[Slot] = None) -> Answer:
        """Returns the answer. Raises NodeError: that of the node, TIMEOUT at the deadline, VALIDATION for a key with other inputs."""
        key = _key_of(invocation.input)
        if key is None:
            return await self._wait(self._start(self._call(node, invocation)), invocation, slot)
        fingerprint = json_text.fingerprint(dict(invocation.packets))
        while True:
            flight = self._flights.get(key)
            if flight is None:
                break
            _check_fingerprint(flight.fingerprint, fingerprint, key)
            try:
                # The flight has its own slot: this invocation gives back its own one as soon as it stops waiting.
                return (await self._wait(flight.task, invocation, None))._replace(replayed=True)
            except _NodeTimedOut:
                continue  # The deadline of the other caller cancelled the node. This caller may have time left.
        task = self._start(self._keyed(key, fingerprint, node, invocation))
        self._flights[key] = _Flight(fingerprint, task)
        return await self._wait(task, invocation, slot)

    def _start(self, work: Any) -> "asyncio.Task[Answer]":
        # A task of its own: the deadline of one caller, or a caller that goes away, ends neither the node nor the wait of others.
        task: "asyncio.Task[Answer]" = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[Answer]") -> None:
        self._running.discard(task)
        # Also marks the exception as seen, for a task whose caller no longer waits.
        error = None if task.cancelled() else task.exception()
        if isinstance(error, NodeCrash):
            log.error("%s", error, exc_info=error.__cause__)
        elif isinstance(error, NodeError):
            log.info("%s: %s", error.code, error.message, exc_info=error.__cause__)
        elif error is not None:
            log.error("the delivery failed", exc_info=error)

    async def _wait(self, task: "asyncio.Task[Answer]", invocation: Invocation, slot: Optional[Slot]) -> Answer:
        try:
            await asyncio.wait({task}, timeout=max(0.0, invocation.ends_at - time.monotonic()))
        except asyncio.CancelledError:
            # gRPC cancels the call of a client that went away. The node goes on, and keeps its slot.
            if slot is not None:
                slot.keep_for(task)
            raise
        if task.done():
            if task.cancelled():
                raise NodeError(TEMPORARY, "the node server stops")
            return task.result()
        if slot is not None:
            slot.keep_for(task)
        raise NodeError(TIMEOUT, "the deadline passed before the node returned")

    async def _keyed(self, key: DedupeKey, fingerprint: str, node: Registered, invocation: Invocation) -> Answer:
        try:
            kept = await self._find(key)
            if kept is not None:
                _check_fingerprint(kept.fingerprint, fingerprint, key)
                return Answer(kept.outputs, replayed=True)
            answer = await self._call(node, invocation)
            await self._keep(key, Kept(fingerprint, answer.outputs))
            return answer
        finally:
            # Before the waiting duplicates wake up: one of them may start the next call.
            self._flights.pop(key, None)

    async def _find(self, key: DedupeKey) -> Optional[Kept]:
        try:
            return await self._unsaved.get(key) or await self._store.get(key)
        except Exception as error:
            # The node is not called: it might have run for this key.
            log.error("the dedupe store cannot be read; node %s is not called", key.node_id, exc_info=error)
            raise NodeError(TEMPORARY, "the dedupe store of the node server cannot be read", error) from error

    async def _keep(self, key: DedupeKey, kept: Kept) -> None:
        try:
            await self._store.put(key, kept)
        except Exception as error:
            # The effect has happened. An error would make the runtime repeat it; the answer lets it go on.
            log.error("the answer for key %r of node %s could not be saved, and is lost with this process", key.key, key.node_id, exc_info=error)
            await self._unsaved.put(key, kept)

    async def _call(self, node: Registered, invocation: Invocation) -> Answer:
        # The store, or another invocation, may have taken all the time. Nothing waits for an effect from here on.
        if time.monotonic() >= invocation.ends_at:
            raise _NodeTimedOut(TIMEOUT, "the deadline passed before the node was called")
        handling = asyncio.ensure_future(node.handle(invocation.input))
        await asyncio.wait({handling}, timeout=max(0.0, invocation.ends_at - time.monotonic()))
        if not handling.done():
            invocation.input.context.cancelled.set()
            # The result of a thread is still wanted: the key must not be free while the thread may have an effect.
            if node.cancellable:
                handling.cancel()
            await asyncio.wait({handling})
        if handling.cancelled():
            raise _NodeTimedOut(TIMEOUT, "the deadline passed before the node returned")
        return Answer(self._encode(handling.result(), node), replayed=False)

    def _encode(self, output: NodeOutput, node: Registered) -> bytes:
        parts = [b'{"port":' + json_text.encode(sent.port) + b',"data":' + sent.text + b"}" for sent in output.sent]
        text = b"[" + b",".join(parts) + b"]"
        if len(text) > self._answer_bytes_max:
            raise NodeError(
                PERMANENT, f"node {node.operation_id} sent {len(text)} bytes; the limit is {self._answer_bytes_max} (answer_bytes_max)"
            )
        return text

    async def forget(self, flow_id: str, node_id: str, key: str) -> bool:
        """Removes the kept answer of a key, so that the next delivery calls the node. Returns whether there was one."""
        wanted = DedupeKey(flow_id, node_id, key)
        unsaved = await self._unsaved.forget(wanted)
        return await self._store.forget(wanted) or unsaved

    def cancel_all(self) -> None:
        """Cancels what still runs at the end of the grace period."""
        for task in list(self._running):
            task.cancel()


def _key_of(input: NodeInput) -> Optional[DedupeKey]:
    context = input.context
    return None if context.idempotency_key is None else DedupeKey(context.flow_id, context.node_id, context.idempotency_key)


def _check_fingerprint(kept: str, given: str, key: DedupeKey) -> None:
    if kept != given:
        raise NodeError(
            VALIDATION, f'the idempotency key "{key.key}" was used with other inputs; make the key from everything that makes the operation different'
        )
