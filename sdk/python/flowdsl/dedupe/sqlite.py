"""Answers in a SQLite file: they survive the process and the machine's power.

One process at a time has the file: two processes that share it could call a node for one key at the same moment, which the promise of
a node server excludes. The process that has the file holds a lock in ``<path>-lock``; the operating system frees it when the process
ends, however it ends. Tools that only remove answers (``flowdsl forget``) need no lock.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Optional

from .base import DedupeKey, DedupeStore, Kept

WEEK_SECONDS = 7 * 24 * 3600.0
#: Expired answers that one put removes: more than it adds, so that the file does not grow, and few enough to stay quick.
EXPIRED_AT_A_TIME = 20

_TABLE = """
CREATE TABLE IF NOT EXISTS answers (
  key TEXT PRIMARY KEY,
  fingerprint TEXT NOT NULL,
  outputs BLOB NOT NULL,
  kept_at REAL NOT NULL
) WITHOUT ROWID
"""


class SqliteDedupeStore(DedupeStore):
    """Keeps answers in a SQLite file for ``keep_seconds`` (default: 7 days).

    ``lock_seconds``: how long to wait for a process that still has the file, such as the former process of a restart.
    Raises RuntimeError if another process still has it then.
    """

    def __init__(
        self,
        path: str,
        *,
        keep_seconds: float = WEEK_SECONDS,
        lock_seconds: float = 15.0,
        exclusive: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = os.path.abspath(path)
        self._keep_seconds = keep_seconds
        self._clock = clock
        folder = os.path.dirname(self.path)
        if not os.path.isdir(folder):
            raise FileNotFoundError(f"{folder}: the folder of the dedupe file does not exist")
        self._lock = _lock(self.path, lock_seconds) if exclusive else None
        try:
            # Autocommit: every statement is its own transaction, and returns after its commit.
            self._database = sqlite3.connect(self.path, timeout=5.0, isolation_level=None, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode = WAL")
            # The default of a build may be NORMAL, which loses the last commits when the power fails.
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.execute(_TABLE)
            self._database.execute("CREATE INDEX IF NOT EXISTS answers_by_age ON answers (kept_at)")
        except sqlite3.Error:
            if self._lock is not None:
                self._lock.close()
            raise
        # One thread: the event loop never waits for the disk, and statements of two calls cannot mix.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="flowdsl dedupe")
        self._closing = threading.Lock()

    async def get(self, key: DedupeKey) -> Optional[Kept]:
        return await self._run(self._get, key)  # type: ignore[no-any-return]

    async def put(self, key: DedupeKey, kept: Kept) -> None:
        await self._run(self._put, key, kept)

    async def forget(self, key: DedupeKey) -> bool:
        return await self._run(self._forget, key)  # type: ignore[no-any-return]

    async def close(self) -> None:
        await self._run(self._close)
        self._thread.shutdown(wait=False)

    async def _run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    def _get(self, key: DedupeKey) -> Optional[Kept]:
        row = self._database.execute(
            "SELECT fingerprint, outputs FROM answers WHERE key = ? AND kept_at > ?", (key.text(), self._clock() - self._keep_seconds)
        ).fetchone()
        return None if row is None else Kept(row[0], bytes(row[1]))

    def _put(self, key: DedupeKey, kept: Kept) -> None:
        now = self._clock()
        expired = now - self._keep_seconds
        # An expired answer is replaced, any other one stays.
        self._database.execute(
            "INSERT INTO answers VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET"
            " fingerprint = excluded.fingerprint, outputs = excluded.outputs, kept_at = excluded.kept_at WHERE kept_at <= ?",
            (key.text(), kept.fingerprint, kept.outputs, now, expired),
        )
        try:
            self._database.execute(
                "DELETE FROM answers WHERE key IN (SELECT key FROM answers WHERE kept_at <= ? ORDER BY kept_at LIMIT ?)",
                (expired, EXPIRED_AT_A_TIME),
            )
        except sqlite3.Error:
            pass  # The answer is kept. The next put removes what has expired.

    def _forget(self, key: DedupeKey) -> bool:
        return self._database.execute("DELETE FROM answers WHERE key = ?", (key.text(),)).rowcount > 0

    def _close(self) -> None:
        self._database.close()
        if self._lock is not None:
            self._lock.close()


def _lock(path: str, seconds: float) -> sqlite3.Connection:
    """A SQLite database that is locked as long as the connection is open: portable, and freed when the process dies."""
    lock = sqlite3.connect(f"{path}-lock", timeout=seconds, isolation_level=None, check_same_thread=False)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        lock.close()
        if "locked" not in str(error):
            raise
        raise RuntimeError(
            f"{path}: another process has this dedupe file; give each server process its own file, or stop the other process"
        ) from error
    return lock
