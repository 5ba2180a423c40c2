"""A server that dies at a chosen line: argument 1 is the dedupe file, 2 the file of effects, 3 where it dies (before, after, never)."""

from __future__ import annotations

import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from flowdsl import DedupeKey, Kept, NodeInput, NodeOutput, SqliteDedupeStore, node, serve  # noqa: E402

_, dedupe, effects, dies = sys.argv


class MortalStore(SqliteDedupeStore):
    async def put(self, key: DedupeKey, kept: Kept) -> None:
        if dies == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        await super().put(key, kept)
        if dies == "after":
            os.kill(os.getpid(), signal.SIGKILL)


@node("charge")
def charge(input: NodeInput) -> NodeOutput:
    with open(effects, "a", encoding="utf-8") as file:
        file.write(f"{input.context.idempotency_key}\n")
        file.flush()
        os.fsync(file.fileno())
    with open(effects, encoding="utf-8") as file:
        return NodeOutput().send("out", {"effects": len(file.readlines())})


serve([charge], dedupe=MortalStore(dedupe))
