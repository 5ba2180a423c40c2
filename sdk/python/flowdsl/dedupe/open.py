"""Opens a store that an option names."""

from __future__ import annotations

from typing import Union

from .base import DedupeStore
from .memory import MemoryDedupeStore
from .sqlite import SqliteDedupeStore


def open_store(dedupe: Union[str, DedupeStore]) -> DedupeStore:
    """``"memory"``, ``"sqlite:PATH"``, or a store of your own. Raises ValueError for anything else."""
    if isinstance(dedupe, DedupeStore):
        return dedupe
    if dedupe == "memory":
        return MemoryDedupeStore()
    if isinstance(dedupe, str) and dedupe.startswith("sqlite:") and len(dedupe) > len("sqlite:"):
        return SqliteDedupeStore(dedupe[len("sqlite:") :])
    raise ValueError(f'dedupe: must be "memory", "sqlite:PATH" or a DedupeStore, not {dedupe!r}')
