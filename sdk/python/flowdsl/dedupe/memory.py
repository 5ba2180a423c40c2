"""Answers in memory: they are lost with the process."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Callable, Optional, Tuple

from .base import DedupeKey, DedupeStore, Kept

DAY_SECONDS = 24 * 3600.0


class MemoryDedupeStore(DedupeStore):
    """Keeps answers in memory: at most so many, so old and so large together; the oldest is forgotten first."""

    def __init__(
        self,
        max_answers: int = 100_000,
        keep_seconds: float = DAY_SECONDS,
        max_bytes: int = 256 * 1024 * 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_answers = max_answers
        self._keep_seconds = keep_seconds
        self._max_bytes = max_bytes
        self._clock = clock
        self._answers: "OrderedDict[DedupeKey, Tuple[float, Kept]]" = OrderedDict()
        self._bytes = 0

    async def get(self, key: DedupeKey) -> Optional[Kept]:
        self._expire()
        found = self._answers.get(key)
        return None if found is None else found[1]

    async def put(self, key: DedupeKey, kept: Kept) -> None:
        self._expire()
        if key in self._answers:
            return
        self._answers[key] = (self._clock(), kept)
        self._bytes += _size(key, kept)
        while len(self._answers) > self._max_answers or (self._bytes > self._max_bytes and len(self._answers) > 1):
            self._remove(next(iter(self._answers)))

    async def forget(self, key: DedupeKey) -> bool:
        found = key in self._answers
        if found:
            self._remove(key)
        return found

    def __len__(self) -> int:
        return len(self._answers)

    def _expire(self) -> None:
        # Answers are in the order of their time.
        oldest = self._clock() - self._keep_seconds
        while self._answers:
            key, (kept_at, _) = next(iter(self._answers.items()))
            if kept_at > oldest:
                return
            self._remove(key)

    def _remove(self, key: DedupeKey) -> None:
        _, kept = self._answers.pop(key)
        self._bytes -= _size(key, kept)


def _size(key: DedupeKey, kept: Kept) -> int:
    return len(kept.outputs) + sum(len(part) for part in key) + 500
