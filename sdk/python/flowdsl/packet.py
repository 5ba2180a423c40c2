"""A packet as a node sees it."""

from __future__ import annotations

from typing import Any, Dict, Generator, Iterator, Mapping, Tuple

from .errors import VALIDATION, NodeError

_MISSING: Any = object()


class Packet(Mapping[str, Any]):
    """The packet at an input port: a read-only mapping of plain Python values.

    ``get`` and the other methods read members by name, and nested members by path: ``"email.messageId"``. A member whose name
    contains a dot takes precedence over a path. ``await`` returns the packet itself, so that ``await input.packet("in")`` and
    ``input.packet("in")`` both work.
    """

    __slots__ = ("data",)

    def __init__(self, data: Mapping[str, Any]) -> None:
        if isinstance(data, Packet):
            data = data.data
        if not isinstance(data, Mapping):
            raise NodeError(VALIDATION, f"a packet must be an object, not {type(data).__name__}")
        #: The members, as a dict.
        self.data: Dict[str, Any] = data if isinstance(data, dict) else dict(data)

    def get(self, path: str, default: Any = None) -> Any:
        """The member, or ``default`` if it is missing. None (JSON null) counts as a value."""
        found = self._find(path)
        return default if found is _MISSING else found

    def has(self, path: str) -> bool:
        """Whether the packet has the member."""
        return self._find(path) is not _MISSING

    def get_string(self, path: str, default: str = _MISSING) -> str:
        """The member as text. Raises NodeError VALIDATION if it has another type, or is missing and there is no default."""
        return self._typed(path, default, (str,), "text")  # type: ignore[no-any-return]

    def get_number(self, path: str, default: float = _MISSING) -> float:
        """The member as a number (int or float). Raises as ``get_string`` does."""
        return self._typed(path, default, (int, float), "a number")  # type: ignore[no-any-return]

    def get_boolean(self, path: str, default: bool = _MISSING) -> bool:
        """The member as a bool. Raises as ``get_string`` does."""
        return self._typed(path, default, (bool,), "a boolean")  # type: ignore[no-any-return]

    def __getitem__(self, name: str) -> Any:
        return self.data[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)

    def __await__(self) -> Generator[None, None, "Packet"]:
        return self
        yield

    def __repr__(self) -> str:
        return f"Packet({self.data!r})"

    def _find(self, path: str) -> Any:
        if path in self.data:
            return self.data[path]
        value: Any = self.data
        for name in path.split("."):
            if not isinstance(value, dict) or name not in value:
                return _MISSING
            value = value[name]
        return value

    def _typed(self, path: str, default: Any, types: Tuple[type, ...], wanted: str) -> Any:
        """A wrong type is a VALIDATION error, which is not retried: a retry would not correct the packet."""
        found = self._find(path)
        # bool is a subclass of int, but true is no number.
        if isinstance(found, types) and (bool in types or not isinstance(found, bool)):
            return found
        if found is _MISSING and default is not _MISSING:
            return default
        problem = "is missing" if found is _MISSING else f"is {'null' if found is None else _json_type(found)}"
        raise NodeError(VALIDATION, f'the packet\'s "{path}" {problem}; it must be {wanted}')


def _json_type(value: Any) -> str:
    for types, name in ((bool, "a boolean"), ((int, float), "a number"), (str, "text"), (list, "an array")):
        if isinstance(value, types):
            return name
    return "an object"
