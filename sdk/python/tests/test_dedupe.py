import asyncio
import os
import subprocess
import sys
import tempfile
import unittest
from typing import List

from flowdsl import DedupeKey, DedupeStore, Kept, MemoryDedupeStore, SqliteDedupeStore
from flowdsl.dedupe import open_store

SDK = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def key(name: str) -> DedupeKey:
    return DedupeKey("flow", "node", name)


class Contract:
    """What every store does."""

    async def make(self, clock: Clock) -> DedupeStore:
        raise NotImplementedError

    async def test_keeps_answers_until_they_are_forgotten_or_expire(self) -> None:
        t: unittest.TestCase = self  # type: ignore[assignment]
        clock = Clock()
        store = await self.make(clock)
        self.addAsyncCleanup(store.close)  # type: ignore[attr-defined]
        t.assertIsNone(await store.get(key("a")))
        await store.put(key("a"), Kept("f1", b'["\xc3\xbc"]'))
        await store.put(key("a"), Kept("f2", b"[2]"))
        t.assertEqual(await store.get(key("a")), Kept("f1", b'["\xc3\xbc"]'))
        # Parts of a key cannot run into each other, and may be any text.
        t.assertIsNone(await store.get(DedupeKey("flow", "nod", "ea")))
        strange = DedupeKey('f"', "n,\x00", "\ud800é")
        await store.put(strange, Kept("f", b"[]"))
        t.assertEqual(await store.get(strange), Kept("f", b"[]"))
        t.assertEqual([await store.forget(key("a")), await store.forget(key("a"))], [True, False])
        t.assertIsNone(await store.get(key("a")))
        clock.now += 101
        t.assertIsNone(await store.get(strange))
        await store.put(strange, Kept("new", b"[1]"))
        t.assertEqual(await store.get(strange), Kept("new", b"[1]"))


class MemoryTest(Contract, unittest.IsolatedAsyncioTestCase):
    async def make(self, clock: Clock) -> DedupeStore:
        return MemoryDedupeStore(keep_seconds=100, clock=clock)

    async def test_forgets_the_oldest_beyond_its_limits(self) -> None:
        store = MemoryDedupeStore(max_answers=3)
        for name in "abcd":
            await store.put(key(name), Kept("f", b"[]"))
        self.assertEqual([await store.get(key("a")), len(store)], [None, 3])
        small = MemoryDedupeStore(max_bytes=2500)
        for name in "abcd":
            await small.put(key(name), Kept("f", b"x" * 600))
        self.assertEqual([len(small), await small.get(key("d"))], [2, Kept("f", b"x" * 600)])


class SqliteTest(Contract, unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "answers.db")

    async def make(self, clock: Clock) -> DedupeStore:
        return SqliteDedupeStore(self.path, keep_seconds=100, clock=clock)

    async def test_answers_survive_and_expired_ones_leave_the_file(self) -> None:
        clock = Clock()
        store = SqliteDedupeStore(self.path, keep_seconds=100, clock=clock)
        for i in range(30):
            await store.put(key(str(i)), Kept("f", b"[]"))
        await store.close()
        clock.now += 50
        store = SqliteDedupeStore(self.path, keep_seconds=100, clock=clock)
        self.addAsyncCleanup(store.close)
        self.assertEqual(await store.get(key("29")), Kept("f", b"[]"))
        clock.now += 51
        for name in ("x", "y"):
            await store.put(key(name), Kept("f", b"[]"))
        self.assertEqual(store._database.execute("SELECT count(*) FROM answers").fetchone(), (2,))
        self.assertEqual(store._database.execute("PRAGMA synchronous").fetchone(), (2,))

    async def test_many_calls_at_once(self) -> None:
        store = SqliteDedupeStore(self.path)
        self.addAsyncCleanup(store.close)
        await asyncio.gather(*(store.put(key(str(i)), Kept("f", str(i).encode())) for i in range(50)))
        found = await asyncio.gather(*(store.get(key(str(i))) for i in range(50)))
        self.assertEqual(found, [Kept("f", str(i).encode()) for i in range(50)])

    async def test_one_process_at_a_time_has_the_file_and_its_death_frees_it(self) -> None:
        code = "import sys\nfrom flowdsl import SqliteDedupeStore\ns = SqliteDedupeStore(sys.argv[1])\nprint('has it', flush=True)\nsys.stdin.read()"
        other = subprocess.Popen(
            [sys.executable, "-c", code, self.path], cwd=SDK, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            assert other.stdout is not None
            self.assertEqual(other.stdout.readline(), "has it\n")
            with self.assertRaisesRegex(RuntimeError, "another process has this dedupe file"):
                SqliteDedupeStore(self.path, lock_seconds=0.01)
            # The tool of an operator needs no lock.
            operator = SqliteDedupeStore(self.path, exclusive=False)
            self.assertFalse(await operator.forget(key("a")))
            await operator.close()
            # A process that starts while the former one ends waits for it.
            opened = asyncio.get_running_loop().run_in_executor(None, lambda: SqliteDedupeStore(self.path, lock_seconds=60))
            other.kill()
            store = await opened
            await store.close()
        finally:
            other.kill()
            other.communicate()


class OpenTest(unittest.TestCase):
    def test_mistakes_are_named(self) -> None:
        mistakes: List[str] = ["sqlite:", "redis://", ""]
        for text in mistakes:
            with self.assertRaisesRegex(ValueError, 'dedupe: must be "memory", "sqlite:PATH"'):
                open_store(text)
        with self.assertRaisesRegex(FileNotFoundError, "folder of the dedupe file does not exist"):
            open_store("sqlite:/no/such/folder/answers.db")
