"""Stores that keep the answers of keys."""

from .base import DedupeKey, DedupeStore, Kept
from .memory import MemoryDedupeStore
from .open import open_store
from .sqlite import SqliteDedupeStore

__all__ = ["DedupeKey", "DedupeStore", "Kept", "MemoryDedupeStore", "SqliteDedupeStore", "open_store"]
