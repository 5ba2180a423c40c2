import asyncio
import logging
import threading
import time
import unittest
from typing import Any, List, Optional

from flowdsl import DedupeKey, DedupeStore, Kept, MemoryDedupeStore, NodeError, NodeInput, NodeOutput
from flowdsl.delivery import Answer, Deliveries
from flowdsl.gate import Gate
from flowdsl.invocation import Invocation
from flowdsl.node import FunctionNode
from flowdsl.registry import Registered
from flowdsl.testing import mock_node_input


def invocation(key: Optional[str] = "k", data: Any = None, seconds: float = 60.0) -> Invocation:
    deadline = time.monotonic() + seconds
    packets = {"in": {"a": 1} if data is None else data}
    return Invocation("op", mock_node_input(packets, idempotency_key=key, deadline=deadline), packets, deadline)


def registered(function: Any) -> Registered:
    return Registered(FunctionNode(function, "op"))


class DeliveryTest(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        logging.getLogger("flowdsl").setLevel(logging.CRITICAL)
        self.calls = 0

    def tearDown(self) -> None:
        logging.getLogger("flowdsl").setLevel(logging.NOTSET)

    async def test_duplicates_wait_for_the_call_that_runs_and_get_its_answer(self) -> None:
        go = asyncio.Event()

        async def slow(input: NodeInput) -> NodeOutput:
            self.calls += 1
            await go.wait()
            return NodeOutput().send("out", {"n": self.calls})

        deliveries = Deliveries(MemoryDedupeStore())
        tasks = [asyncio.ensure_future(deliveries.deliver(registered(slow), invocation())) for _ in range(20)]
        while self.calls == 0:
            await asyncio.sleep(0)
        with self.assertRaisesRegex(NodeError, "was used with other inputs"):
            await deliveries.deliver(registered(slow), invocation(data={"a": 2}))
        go.set()
        answers = await asyncio.gather(*tasks)
        self.assertEqual([self.calls, {answer.outputs for answer in answers}], [1, {b'[{"port":"out","data":{"n":1}}]'}])
        self.assertEqual([answer.replayed for answer in answers], [False] + [True] * 19)

    async def test_a_failure_is_not_kept_and_waiting_duplicates_get_it(self) -> None:
        go = asyncio.Event()

        async def failing(input: NodeInput) -> NodeOutput:
            self.calls += 1
            await go.wait()
            if self.calls == 1:
                raise NodeError("NETWORK_ERROR", "no route")
            return NodeOutput()

        deliveries = Deliveries(MemoryDedupeStore())
        tasks = [asyncio.ensure_future(deliveries.deliver(registered(failing), invocation())) for _ in range(3)]
        while self.calls == 0:
            await asyncio.sleep(0)
        go.set()
        outcomes: List[Any] = await asyncio.gather(*tasks, return_exceptions=True)
        self.assertEqual([error.code for error in outcomes], ["NETWORK_ERROR"] * 3)
        self.assertEqual((await deliveries.deliver(registered(failing), invocation())).replayed, False)
        self.assertEqual(self.calls, 2)

    async def test_a_key_with_other_inputs_is_refused_and_the_order_of_members_does_not_matter(self) -> None:
        async def count(input: NodeInput) -> None:
            self.calls += 1

        deliveries = Deliveries(MemoryDedupeStore())
        await deliveries.deliver(registered(count), invocation(data={"a": 1, "b": 2}))
        self.assertTrue((await deliveries.deliver(registered(count), invocation(data={"b": 2, "a": 1}))).replayed)
        with self.assertRaises(NodeError) as caught:
            await deliveries.deliver(registered(count), invocation(data={"a": 1, "b": 3}))
        self.assertEqual([caught.exception.code, self.calls], ["VALIDATION", 1])
        self.assertTrue(await deliveries.forget("test_flow", "node", "k"))
        self.assertFalse(await deliveries.forget("test_flow", "node", "k"))
        await deliveries.deliver(registered(count), invocation(data={"a": 1, "b": 3}))
        self.assertEqual(self.calls, 2)

    async def test_an_async_node_is_cancelled_at_its_deadline_and_its_key_is_free(self) -> None:
        cancelled: List[bool] = []

        async def hang(input: NodeInput) -> None:
            self.calls += 1
            if self.calls > 1:
                return
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.append(input.context.cancelled.is_set())

        deliveries = Deliveries(MemoryDedupeStore())
        with self.assertRaises(NodeError) as caught:
            await deliveries.deliver(registered(hang), invocation(seconds=0.02))
        self.assertEqual(caught.exception.code, "TIMEOUT")
        while not cancelled:
            await asyncio.sleep(0)
        self.assertEqual(cancelled, [True])
        await asyncio.sleep(0)
        self.assertFalse((await deliveries.deliver(registered(hang), invocation())).replayed)

    async def test_a_thread_that_goes_on_after_its_deadline_keeps_its_key_and_its_slot(self) -> None:
        go = threading.Event()

        def slow(input: NodeInput) -> NodeOutput:
            self.calls += 1
            go.wait()
            return NodeOutput().send("out", {"n": self.calls})

        deliveries, gate = Deliveries(MemoryDedupeStore()), Gate(1)
        slot = gate.enter()
        with self.assertRaises(NodeError) as caught:
            try:
                # The thread must have begun by then, also on a busy machine: a node that has not begun frees its slot.
                await deliveries.deliver(registered(slow), invocation(seconds=1), slot)
            finally:
                slot.release()
        self.assertEqual([caught.exception.code, gate.in_flight], ["TIMEOUT", 1])
        with self.assertRaisesRegex(NodeError, "its limit"):
            gate.enter()
        later = asyncio.ensure_future(deliveries.deliver(registered(slow), invocation()))
        await asyncio.sleep(0)
        go.set()
        self.assertEqual(await later, Answer(b'[{"port":"out","data":{"n":1}}]', True))
        self.assertEqual([self.calls, gate.in_flight], [1, 0])

    async def test_a_duplicate_waits_no_longer_than_its_own_deadline(self) -> None:
        go = asyncio.Event()

        async def slow(input: NodeInput) -> None:
            await go.wait()

        deliveries = Deliveries(MemoryDedupeStore())
        first = asyncio.ensure_future(deliveries.deliver(registered(slow), invocation()))
        await asyncio.sleep(0)
        with self.assertRaises(NodeError) as caught:
            await deliveries.deliver(registered(slow), invocation(seconds=0.02))
        self.assertEqual([caught.exception.code, first.done()], ["TIMEOUT", False])
        go.set()
        self.assertFalse((await first).replayed)

    async def test_a_caller_that_goes_away_does_not_stop_the_node(self) -> None:
        go = asyncio.Event()

        async def slow(input: NodeInput) -> None:
            self.calls += 1
            await go.wait()

        deliveries = Deliveries(MemoryDedupeStore())
        caller = asyncio.ensure_future(deliveries.deliver(registered(slow), invocation()))
        while self.calls == 0:
            await asyncio.sleep(0)
        caller.cancel()
        again = asyncio.ensure_future(deliveries.deliver(registered(slow), invocation()))
        await asyncio.sleep(0)
        go.set()
        self.assertEqual([(await again).replayed, self.calls], [True, 1])

    async def test_exceptions_of_any_kind_are_temporary_and_show_one_line(self) -> None:
        def ends(input: NodeInput) -> None:
            raise SystemExit("why\nsecret")

        async def ends_async(input: NodeInput) -> None:
            raise SystemExit("why\nsecret")

        for function in (ends, ends_async):
            with self.assertRaises(NodeError) as caught:
                await Deliveries(MemoryDedupeStore()).deliver(registered(function), invocation())
            self.assertEqual(caught.exception.code, "TEMPORARY")
            self.assertNotIn("secret", caught.exception.message)

    async def test_a_store_that_cannot_be_read_keeps_the_node_from_being_called(self) -> None:
        async def count(input: NodeInput) -> None:
            self.calls += 1

        store = FailingStore(reads=1, writes=0)
        with self.assertRaises(NodeError) as caught:
            await Deliveries(store).deliver(registered(count), invocation())
        self.assertEqual([caught.exception.code, self.calls], ["TEMPORARY", 0])
        self.assertNotIn("disk", caught.exception.message)

    async def test_an_answer_that_cannot_be_saved_is_sent_and_replayed_by_this_process(self) -> None:
        async def count(input: NodeInput) -> NodeOutput:
            self.calls += 1
            return NodeOutput().send("out", {"n": self.calls})

        store = FailingStore(reads=0, writes=1)
        deliveries = Deliveries(store)
        with self.assertLogs("flowdsl", "ERROR") as logged:
            first = await deliveries.deliver(registered(count), invocation())
        self.assertIn("could not be saved", logged.output[0])
        again = await deliveries.deliver(registered(count), invocation())
        self.assertEqual([first.replayed, again, self.calls], [False, Answer(first.outputs, True), 1])
        # Another process does not know the answer: the unknown window.
        await Deliveries(store).deliver(registered(count), invocation())
        self.assertEqual(self.calls, 2)

    async def test_an_answer_that_is_too_large_is_permanent(self) -> None:
        async def large(input: NodeInput) -> NodeOutput:
            return NodeOutput().send("out", {"text": "x" * 1000})

        with self.assertRaises(NodeError) as caught:
            await Deliveries(MemoryDedupeStore(), answer_bytes_max=1000).deliver(registered(large), invocation())
        self.assertEqual(caught.exception.code, "PERMANENT")


class FailingStore(DedupeStore):
    """Fails so many reads and writes, then works."""

    def __init__(self, reads: int, writes: int) -> None:
        self.reads, self.writes = reads, writes
        self.store = MemoryDedupeStore()

    async def get(self, key: DedupeKey) -> Optional[Kept]:
        self.reads -= 1
        if self.reads >= 0:
            raise OSError("the disk is gone")
        return await self.store.get(key)

    async def put(self, key: DedupeKey, kept: Kept) -> None:
        self.writes -= 1
        if self.writes >= 0:
            raise OSError("the disk is full")
        await self.store.put(key, kept)

    async def forget(self, key: DedupeKey) -> bool:
        return await self.store.forget(key)
