"""How many invocations a server has at a time, and whether it accepts more."""

from __future__ import annotations

import asyncio
from typing import Any, Optional

from .errors import RATE_LIMITED, TEMPORARY, NodeError

RETRY_AFTER_MS = 1000


class Gate:
    """States: open → stopping. ``enter`` gives a slot, or raises."""

    def __init__(self, concurrency: int) -> None:
        self.concurrency = concurrency
        self.in_flight = 0
        self.stopping = False
        self._empty: Optional[asyncio.Event] = None

    def enter(self) -> "Slot":
        """Takes a slot. Raises NodeError TEMPORARY if the server stops, RATE_LIMITED if all slots are taken."""
        if self.stopping:
            raise NodeError(TEMPORARY, "the node server stops", retry_after_ms=RETRY_AFTER_MS)
        if self.in_flight >= self.concurrency:
            raise NodeError(
                RATE_LIMITED, f"the node server has {self.in_flight} invocations, its limit", retry_after_ms=RETRY_AFTER_MS
            )
        self.in_flight += 1
        return Slot(self)

    def leave(self) -> None:
        self.in_flight -= 1
        if self._empty is not None and self.in_flight == 0:
            self._empty.set()

    async def drain(self, seconds: float) -> bool:
        """Lets no invocation in, and waits until all have left. Returns False if some are still there after this time."""
        self.stopping = True
        if self.in_flight == 0:
            return True
        self._empty = asyncio.Event()
        try:
            await asyncio.wait_for(self._empty.wait(), seconds)
        except asyncio.TimeoutError:
            return False
        return True


class Slot:
    """The place of one invocation. It is given back once: at the end of the invocation, or of the node if that goes on longer."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._held = True
        self._kept_for: "Optional[asyncio.Future[Any]]" = None

    def keep_for(self, task: "asyncio.Future[Any]") -> None:
        """The node still runs: the slot is given back when it ends, so that nodes that hang cannot pile up without limit."""
        self._kept_for = task
        task.add_done_callback(lambda _: self._give_back())

    def release(self) -> None:
        if self._kept_for is None:
            self._give_back()

    def _give_back(self) -> None:
        if self._held:
            self._held = False
            self._gate.leave()
