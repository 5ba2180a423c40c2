"""JSON as the protocol needs it: integers of any size, no NaN or Infinity, no silent change of a value."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Mapping, Union

#: Digits of the longest integer. Python refuses longer ones by default, because the conversion takes quadratic time.
INTEGER_DIGITS_MAX = 4300
_TOO_LARGE = 10**INTEGER_DIGITS_MAX
#: Levels of lists and objects that a node may send.
DEPTH_MAX = 400


def decode(text: Union[str, bytes]) -> Any:
    """Parses JSON text. Raises ValueError with a message for the caller if it is not JSON, or has a number that Python cannot hold."""
    try:
        # json.loads would also accept UTF-16 and UTF-32.
        text = text.decode("utf-8") if isinstance(text, bytes) else text
        return json.loads(text, parse_int=_integer, parse_float=_float, parse_constant=_constant)
    except RecursionError:
        raise ValueError("the JSON text is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("the JSON text is not UTF-8") from None


def encode(value: Any) -> bytes:
    """Encodes a value as JSON in UTF-8. Raises ValueError, which names the member, if the value has no JSON form."""
    _check(value, "")
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair: JSON can escape it, UTF-8 cannot encode it.
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def fingerprint(value: Any) -> str:
    """A hash of a JSON value that does not depend on the order of members."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":")).encode()).hexdigest()


def _integer(digits: str) -> Union[int, float]:
    if len(digits) > INTEGER_DIGITS_MAX:
        raise ValueError(f"an integer has more than {INTEGER_DIGITS_MAX} digits")
    # An int has no negative zero.
    return -0.0 if digits == "-0" else int(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"the number {digits[:40]} is too large for a float")
    return value


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _check(value: Any, path: str, depth: int = 0) -> None:
    """json.dumps turns keys like 1 or True into text, so that two members could get one name. Refuses them, and what is not JSON."""
    if depth > DEPTH_MAX:
        raise ValueError(f"nested more than {DEPTH_MAX} levels deep, or a value contains itself")
    if value is None or isinstance(value, (str, bool)):
        return
    if isinstance(value, int):
        if abs(value) >= _TOO_LARGE:
            raise ValueError(f"{path or 'it'} has more than {INTEGER_DIGITS_MAX} digits")
    elif isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError(f"{path or 'it'} is {value}, which JSON does not have")
    elif isinstance(value, dict):
        for name, member in value.items():
            if not isinstance(name, str):
                raise ValueError(f"{path or 'it'} has the member name {name!r}; names must be text")
            _check(member, f"{path}.{name}" if path else name, depth + 1)
    elif isinstance(value, (list, tuple)):
        for i, member in enumerate(value):
            _check(member, f"{path}[{i}]", depth + 1)
    else:
        raise ValueError(f"{path or 'it'} is of type {type(value).__name__}, which JSON does not have; convert it first")


def plain(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """A mapping as a dict, so that it can be encoded."""
    return data if isinstance(data, dict) else dict(data)
