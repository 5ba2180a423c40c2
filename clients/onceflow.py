"""Onceflow for Python: runs an operation under a key, through the HTTP API of a store (createApi).

The first caller with a key executes the operation. Every later caller with the same key gets its outcome, also from another process,
another machine or another language. Copy this file into your project: it needs Python 3.9 or newer and the standard library only.

    import onceflow

    client = onceflow.Client("https://ops.example.com/onceflow", token=token)

    def charge(attempt):
        return provider.charge(order, idempotency_key=attempt.effect_key)

    result = client.once("charge:order-1", charge, scope="shop", input=order, effect="keyed")
    result.value

How a call goes: begin (the server answers that this caller owns the attempt) -> the handler runs, while a thread renews the lease ->
settle, retried until the server has saved the outcome. Begin and settle can be sent again after a lost reply: the server recognizes them.

A client may be used by many threads at the same time.
"""

import hashlib
import http.client
import inspect
import ipaddress
import json
import logging
import math
import random
import re
import secrets
import socket
import ssl
import threading
import time
import urllib.parse
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

__all__ = [
    "ABSENT",
    "UNKNOWN",
    "Attempt",
    "Client",
    "Found",
    "GoneError",
    "InvalidInputError",
    "LeaseLostError",
    "MismatchError",
    "NotApplied",
    "NotKnownError",
    "NotSavedError",
    "OnceflowError",
    "OperationFailedError",
    "ReconcileRequest",
    "Result",
    "ResultNotKeptError",
    "RunningError",
    "ServerRefusedError",
    "UnknownOutcomeError",
    "UnreachableError",
]

log = logging.getLogger("onceflow")

EFFECT_CLASSES = ("idempotent", "keyed", "reconcile", "atMostOnce")
HOUR_MS = 3_600_000
DURATION_MS_MAX = 100 * 366 * 24 * HOUR_MS
KEY_BYTES_MAX = 512
DEPTH_MAX = 200
INTEGER_MAX = 2**53 - 1
"""JSON numbers are doubles at the server: a larger integer would arrive as another one."""
BEGIN_S_MAX = 10.0
"""How long a begin is retried. Nothing has happened yet, so giving up is safe."""
SAVE_S_MAX = 60.0
"""How long a caller waits until the outcome is saved. After that a thread goes on saving."""
INTERRUPTED_SAVE_S_MAX = 10.0
"""The same for a caller that was interrupted (KeyboardInterrupt)."""


# ---------------------------------------------------------------------------------------------------------------------------- errors


class OnceflowError(Exception):
    """Base class. Decide by class or `code`, not by the message. `retryable`: the same call may succeed later."""

    code = "ERROR"
    retryable = False

    def __init__(
        self,
        message: str,
        *,
        code: Optional[str] = None,
        scope: Optional[str] = None,
        key: Optional[str] = None,
        attempt: Optional[int] = None,
        retry_after_ms: Optional[int] = None,
    ) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        self.scope = scope
        self.key = key
        self.attempt = attempt
        self.retry_after_ms = retry_after_ms


class InvalidInputError(OnceflowError):
    """An argument is not valid; `field` names it. Nothing was written."""

    code = "INVALID_INPUT"

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


class MismatchError(OnceflowError):
    """The key was used with another input. The handler did not run."""

    code = "MISMATCH"


class RunningError(OnceflowError):
    """Another caller still runs the key after `wait_ms`. Call again after `retry_after_ms`."""

    code = "RUNNING"
    retryable = True


class UnknownOutcomeError(OnceflowError):
    """It is not known whether attempt `attempt` had its effect. The handler did not run. An operator resolves the key."""

    code = "UNKNOWN_OUTCOME"


class GoneError(OnceflowError):
    """The key was settled and its outcome has expired. The handler did not run."""

    code = "GONE"


class ResultNotKeptError(OnceflowError):
    """The operation completed; its result could not be stored."""

    code = "RESULT_NOT_KEPT"


class OperationFailedError(OnceflowError):
    """The stored failure of an earlier attempt (keep_failures, or an operator). `name`, `failure_message` and `failure_code` describe it."""

    code = "OPERATION_FAILED"

    def __init__(self, name: str, message: str, failure_code: Any, **facts: Any) -> None:
        super().__init__(f"{name}: {message}" if message else name, **facts)
        self.name = name
        self.failure_message = message
        self.failure_code = failure_code


class LeaseLostError(OnceflowError):
    """This attempt lost its lease, and its outcome was not recorded; the effect may have happened. Call again with the same key."""

    code = "LEASE_LOST"
    retryable = True


class NotSavedError(OnceflowError):
    """The handler ended, and its outcome is not saved yet. A thread goes on saving it. Call again later with the same key."""

    code = "NOT_SAVED"
    retryable = True


class UnreachableError(OnceflowError):
    """The server cannot be reached. The handler did not run."""

    code = "SERVER_UNREACHABLE"
    retryable = True


class NotKnownError(OnceflowError):
    """The reply to a begin was lost: the attempt may have begun. The handler did not run. Call again with the same key."""

    code = "NOT_KNOWN"
    retryable = True


class ServerRefusedError(OnceflowError):
    """The server refused the request: token, role, scope or address is wrong. `code` is the server's. The handler did not run."""

    code = "SERVER_REFUSED"

    def __init__(self, message: str, *, status: int, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.status = status


class NotApplied(OnceflowError):
    """Raise this in a handler to state that the effect certainly did not happen: the key becomes free, whatever the effect class."""

    code = "NOT_APPLIED"
    retryable = True

    def __init__(self, message: str) -> None:
        super().__init__(message)


# ----------------------------------------------------------------------------------------------------------------- what callers handle


class Result:
    """The outcome of a call. `status`: "executed" (this call ran the handler) or "replayed"."""

    def __init__(self, status: str, value: Any, attempt: int) -> None:
        self.status = status
        self.value = value
        self.attempt = attempt

    def __repr__(self) -> str:
        return f"Result(status={self.status!r}, attempt={self.attempt})"


class Found:
    """Returned by `reconcile`: the effect happened, with this result."""

    def __init__(self, value: Any) -> None:
        self.value = value


ABSENT = "absent"
"""Returned by `reconcile`: the effect did not happen and cannot happen any more. The handler runs again."""
UNKNOWN = "unknown"
"""Returned by `reconcile`: the other system cannot say."""


class ReconcileRequest:
    """The attempt whose outcome is unknown. `effect_key` is the key that the attempt passed to the provider."""

    def __init__(self, scope: str, key: str, attempt: int, input: Any) -> None:
        self.scope = scope
        self.key = key
        self.effect_key = effect_key_of(scope, key)
        self.attempt = attempt
        self.input = input


class Attempt:
    """The attempt that a handler runs as. Pass `effect_key` to the provider as its idempotency key: it is the same at every attempt."""

    def __init__(self, scope: str, key: str, number: int) -> None:
        self.scope = scope
        self.key = key
        self.effect_key = effect_key_of(scope, key)
        self.number = number
        self.lost = threading.Event()
        """Set when the lease is lost: another process may then run the operation. Stop work then."""
        self._why = ""

    def check(self) -> None:
        """Raises LeaseLostError if the lease is lost. Call it before each effect of a handler that has several."""
        if self.lost.is_set():
            raise LeaseLostError(f"{_attempt_name(self)} lost its lease: {self._why}", scope=self.scope, key=self.key, attempt=self.number)

    def _lose(self, why: str) -> None:
        self._why = why
        self.lost.set()


def effect_key_of(scope: str, key: str) -> str:
    """The idempotency key for providers: SHA-256 of scope and key, 64 hexadecimal characters, as in every other client."""
    return hashlib.sha256(f"{scope}\0{key}".encode("utf-8")).hexdigest()


class Client:
    """The API of one store. `url` is where the application mounts it.

    `token` is sent as a bearer token; over plain http only to this machine. `request_s` bounds every request, connecting included.
    `ssl_context` replaces the default one, for a certificate authority of your own.
    """

    def __init__(
        self,
        url: str,
        *,
        token: Optional[str] = None,
        request_s: float = 10.0,
        response_bytes_max: int = 16 * 1024 * 1024,
        ssl_context: Optional[ssl.SSLContext] = None,
    ) -> None:
        if isinstance(request_s, bool) or not isinstance(request_s, (int, float)) or not 0 < request_s <= 600:
            raise InvalidInputError("request_s", "must be a number of seconds, above 0 and at most 600")
        _whole("response_bytes_max", response_bytes_max, 1024, 1024 * 1024 * 1024)
        self._api = _Api(url, token, float(request_s), response_bytes_max, ssl_context)

    def __repr__(self) -> str:
        return f"Client({self._api.shown})"

    def once(
        self,
        key: str,
        handler: Callable[[Attempt], Any],
        *,
        scope: str = "",
        input: Any = None,
        fingerprint: Optional[str] = None,
        effect: str = "idempotent",
        reconcile: Optional[Callable[[ReconcileRequest], Any]] = None,
        reconcile_after_ms: Optional[int] = None,
        lease_ms: int = 10_000,
        retention_ms: Union[int, str] = 24 * HOUR_MS,
        horizon_ms: int = 0,
        wait_ms: int = 30_000,
        keep_failures: bool = False,
    ) -> Result:
        """Runs `handler` under a key: the first caller executes it, and every later caller with the same key gets its outcome.

        input: the request. The same key with another input raises MismatchError. None: not compared. `fingerprint` replaces it.
        effect: what may happen after an attempt crashed or raised. "idempotent", "keyed": the handler runs again. "reconcile": `reconcile`
          asks the other system and returns Found(value), ABSENT or UNKNOWN. "atMostOnce": UnknownOutcomeError until an operator decides.
        lease_ms: how long this process may be silent before another process may take over.
        retention_ms: how long the outcome is replayed, or "forever". horizon_ms: how long after that a late call gets GoneError.
        wait_ms: how long to wait while another caller runs the key; then RunningError. 0: do not wait.
        keep_failures: store the error of the handler; replays raise OperationFailedError.

        Raises one of the errors of this module, or what the handler raised. Results are JSON: the value is what a replay returns.
        """
        operation = _Operation(
            key=key,
            handler=handler,
            scope=scope,
            input=input,
            fingerprint=fingerprint,
            effect=effect,
            reconcile=reconcile,
            reconcile_after_ms=reconcile_after_ms,
            lease_ms=lease_ms,
            retention_ms=retention_ms,
            horizon_ms=horizon_ms,
            wait_ms=wait_ms,
            keep_failures=keep_failures,
        )
        return _Call(self._api, operation).run()


# ------------------------------------------------------------------------------------------------------------------------- one call


class _Operation:
    """The checked options of a call. Nothing was sent before this."""

    def __init__(
        self,
        *,
        key: str,
        handler: Callable[[Attempt], Any],
        scope: str,
        input: Any,
        fingerprint: Optional[str],
        effect: str,
        reconcile: Optional[Callable[[ReconcileRequest], Any]],
        reconcile_after_ms: Optional[int],
        lease_ms: int,
        retention_ms: Union[int, str],
        horizon_ms: int,
        wait_ms: int,
        keep_failures: bool,
    ) -> None:
        _check_name("key", key)
        _check_name("scope", scope)
        if not callable(handler):
            raise InvalidInputError("handler", "must be a function of one argument, the attempt")
        if inspect.iscoroutinefunction(handler):
            raise InvalidInputError("handler", "must not be async: call once(…) in a thread (asyncio.to_thread), with a handler that blocks")
        if effect not in EFFECT_CLASSES:
            raise InvalidInputError("effect", f"must be one of {', '.join(EFFECT_CLASSES)}, not {str(effect)[:40]!r}")
        if (effect == "reconcile") != callable(reconcile):
            raise InvalidInputError("reconcile", 'must be a function when, and only when, effect is "reconcile"')
        if fingerprint is not None and (not isinstance(fingerprint, str) or fingerprint == ""):
            raise InvalidInputError("fingerprint", "must be a non-empty string")
        if input is not None and fingerprint is not None:
            raise InvalidInputError("fingerprint", "replaces the input: pass one of the two")
        if not isinstance(keep_failures, bool):
            raise InvalidInputError("keep_failures", "must be True or False")
        _whole("lease_ms", lease_ms, 50, HOUR_MS)
        _whole("horizon_ms", horizon_ms, 0, DURATION_MS_MAX)
        _whole("wait_ms", wait_ms, 0, DURATION_MS_MAX)
        if retention_ms != "forever":
            _whole("retention_ms", retention_ms, 0, DURATION_MS_MAX)
        if reconcile_after_ms is not None:
            _whole("reconcile_after_ms", reconcile_after_ms, 0, DURATION_MS_MAX)
        _check_json(input, "input")
        self.key = key
        self.scope = scope
        self.handler = handler
        self.effect = effect
        self.reconcile = reconcile
        self.lease_ms = lease_ms
        self.wait_ms = wait_ms
        self.keep_failures = keep_failures
        self.input = input
        self.begin: Dict[str, Any] = {
            "scope": scope,
            "key": key,
            "effect": effect,
            "leaseMs": lease_ms,
            "retentionMs": retention_ms,
            "horizonMs": horizon_ms,
        }
        if input is not None:
            self.begin["input"] = input
        if fingerprint is not None:
            self.begin["fingerprint"] = fingerprint
        if reconcile_after_ms is not None:
            self.begin["reconcileAfterMs"] = reconcile_after_ms

    def facts(self, attempt: Optional[int] = None) -> Dict[str, Any]:
        return {"scope": self.scope, "key": self.key, "attempt": attempt}

    def name(self) -> str:
        return f'key "{self.key}"' + (f' in scope "{self.scope}"' if self.scope else "")


class _Started:
    """The begin of an attempt that this caller owns. `effect` may be stricter than the requested class."""

    def __init__(self, reply: Dict[str, Any], sent_at: float) -> None:
        self.owner = _member(reply, "owner", str)
        self.attempt = _member(reply, "attempt", int)
        self.effect = _member(reply, "effect", str)
        self.sent_at = sent_at


class _Call:
    def __init__(self, api: "_Api", operation: _Operation) -> None:
        self._api = api
        self._operation = operation

    def run(self) -> Result:
        operation = self._operation
        deadline = time.monotonic() + operation.wait_ms / 1000
        over: Optional[int] = None
        found: Optional[Found] = None
        polls = 0
        while True:
            answer = self._begin(over)
            if isinstance(answer, _Started):
                return self._execute(answer, found)
            over, found = None, None
            reply = answer.body
            attempt = reply.get("attempt")
            if answer.status == 200:
                return self._replay(reply)
            if answer.code == "RUNNING":
                left_s = deadline - time.monotonic()
                for_ms = answer.retry_after_ms or 1
                if left_s <= 0:
                    name = operation.name()
                    raise RunningError(f"{name} is running; try again in {for_ms} ms", retry_after_ms=for_ms, **operation.facts(attempt))
                polls += 1
                time.sleep(max(0.001, min(_backoff_s(polls, 0.02, 0.5, 1.6), for_ms / 1000, left_s)))
                continue
            if answer.code != "UNKNOWN_OUTCOME":
                raise self._refusal(answer)
            if operation.reconcile is None or reply.get("effect") != "reconcile":
                raise self._refusal(answer)
            in_s = (reply.get("reconcileInMs") or 0) / 1000
            if in_s > 0:
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise self._refusal(answer)
                time.sleep(min(in_s, left_s))
                continue
            verdict = operation.reconcile(ReconcileRequest(operation.scope, operation.key, attempt, operation.input))
            # Nothing is claimed while `reconcile` runs, so a crash here changes nothing. The next begin starts an attempt over the
            # one that was checked, and only if that one is still unknown: of two callers that reconcile, one gets it.
            if isinstance(verdict, Found):
                found = verdict
            elif verdict != ABSENT:
                raise self._refusal(answer)
            over = attempt

    def _begin(self, over: Optional[int]) -> "Union[_Started, _Reply]":
        """Sends the same begin until it is answered: after a lost reply it finds its own success, because the request id is the same."""
        operation = self._operation
        give_up_at = time.monotonic() + BEGIN_S_MAX
        while True:
            body = {**operation.begin, "requestId": secrets.token_hex(16)}
            if over is not None:
                body["over"] = over
            sent_at = time.monotonic()
            reply = self._ask_before_effect("/keys/begin", body, give_up_at)
            if reply.code == "LEASE_LOST":
                # An earlier try had begun the attempt, and its lease was over before the answer came.
                self._stop_begin_at(give_up_at)
                continue
            if reply.status != 200 or reply.body.get("status") != "started":
                return reply
            started = _Started(reply.body, sent_at)
            # The lease counts from the first try. If that was a while ago, it may have expired: renew it before the handler runs.
            if time.monotonic() < sent_at + operation.lease_ms / 3000:
                return started
            started.sent_at = time.monotonic()
            renewed = self._ask_before_effect("/keys/renew", self._fence(started, leaseMs=operation.lease_ms), give_up_at)
            if renewed.status == 200:
                return started
            if renewed.code != "LEASE_LOST":
                raise self._refusal(renewed)
            self._stop_begin_at(give_up_at)

    def _stop_begin_at(self, give_up_at: float) -> None:
        """Bounds the begins whose leases end before the handler could run: the network is slower than `lease_ms` allows."""
        if time.monotonic() > give_up_at:
            name = self._operation.name()
            raise NotKnownError(f"the lease of {name} ends before the answers arrive; raise lease_ms", **self._operation.facts())

    def _ask_before_effect(self, path: str, body: Dict[str, Any], give_up_at: float) -> "_Reply":
        failures = 0
        was_sent = False
        while True:
            try:
                return self._api.post(path, body)
            except _Passing as error:
                failures += 1
                was_sent = was_sent or error.was_sent
                delay_s = max(_backoff_s(failures, 0.02, 1.0, 2), error.retry_after_s)
                if time.monotonic() + delay_s > give_up_at:
                    facts = self._operation.facts()
                    if was_sent:
                        raise NotKnownError(f"the begin of {self._operation.name()} was not answered: {error}", **facts) from None
                    raise UnreachableError(f"the server cannot be reached: {error}", **facts) from None
                time.sleep(delay_s)

    def _fence(self, started: _Started, **more: Any) -> Dict[str, Any]:
        return {"scope": self._operation.scope, "key": self._operation.key, "owner": started.owner, "attempt": started.attempt, **more}

    def _execute(self, started: _Started, found: Optional[Found]) -> Result:
        operation = self._operation
        attempt = Attempt(operation.scope, operation.key, started.attempt)
        lease = _Lease(self._api, self._fence(started, leaseMs=operation.lease_ms), attempt, started.sent_at, operation.lease_ms)
        lease.start()
        try:
            if found is not None:
                value, settlement = _settlement_of(found.value, operation)
                if not self._save(started, {**settlement, "note": "reconcile"}, lease, SAVE_S_MAX):
                    raise self._lost(started)
                return Result("replayed", value, started.attempt)
            try:
                value = operation.handler(attempt)
                if inspect.isawaitable(value):
                    raise TypeError("the handler returned an awaitable; call once(…) in a thread, with a handler that blocks")
            except BaseException as error:
                bound_s = SAVE_S_MAX if isinstance(error, Exception) else INTERRUPTED_SAVE_S_MAX
                if not _is_lost(error, attempt):
                    self._save(started, _settlement_of_error(error, started.effect, operation.keep_failures), lease, bound_s)
                raise
            value, settlement = _settlement_of(value, operation)
            if not self._save(started, settlement, lease, SAVE_S_MAX):
                raise self._lost(started)
            return Result("executed", value, started.attempt)
        finally:
            # When a thread goes on saving, it keeps the lease until the outcome is saved.
            if not lease.is_kept:
                lease.stop()

    def _save(self, started: _Started, settlement: Dict[str, Any], lease: "_Lease", bound_s: float) -> bool:
        """Saves the outcome, and returns False if it was refused as stale. A failed save is not a failed operation: the effect has happened, so the save is retried until the server has
        answered. After `bound_s` the caller gets NotSavedError, and a thread goes on."""
        operation = self._operation
        facts = operation.facts(started.attempt)
        saving = _Saving(self._api, self._fence(started), settlement, f"the outcome of {operation.name()}, attempt {started.attempt},")

        def go_on() -> None:
            saving.run(math.inf)
            lease.stop()

        outcome = "late"
        try:
            outcome = saving.run(time.monotonic() + bound_s)
        finally:
            # Also after a KeyboardInterrupt in the middle of the save.
            if outcome == "late":
                lease.is_kept = True
                threading.Thread(target=go_on, name="onceflow-save", daemon=True).start()
        if outcome == "late":
            raise NotSavedError(
                f"attempt {started.attempt} of {operation.name()} ended, but its outcome is not saved yet; call again later with the same key",
                **facts,
            )
        if outcome == "stale":
            lease.lose("another attempt took over, or the outcome was resolved by an operator")
        return outcome == "settled"

    def _lost(self, started: _Started) -> LeaseLostError:
        return LeaseLostError(
            f"attempt {started.attempt} of {self._operation.name()} lost its lease: another attempt took over, or the outcome was resolved "
            "by an operator. Call again with the same key to get the outcome",
            **self._operation.facts(started.attempt),
        )

    def _replay(self, reply: Dict[str, Any]) -> Result:
        attempt = _member(reply, "attempt", int)
        facts = self._operation.facts(attempt)
        if reply.get("status") != "replayed" or reply.get("state") not in ("completed", "failed"):
            raise ServerRefusedError("the answer to a begin is not one that this client knows", status=200, code="ANSWER_NOT_VALID", **facts)
        if reply["state"] == "failed":
            error = reply.get("error")
            error = error if isinstance(error, dict) else {}
            raise OperationFailedError(str(error.get("name", "Error")), str(error.get("message", "")), error.get("code"), **facts)
        name = self._operation.name()
        if reply.get("kept") is False:
            raise ResultNotKeptError(f"{name} completed, but its result could not be stored; it does not run again", **facts)
        if "value" not in reply:
            message = f'{name} completed; the server does not show its result, because the token lacks the role "values"'
            raise ServerRefusedError(message, status=200, code="VALUES_HIDDEN", **facts)
        return Result("replayed", reply["value"], attempt)

    def _refusal(self, reply: "_Reply") -> OnceflowError:
        name = self._operation.name()
        number = reply.body.get("attempt")
        facts = self._operation.facts(number if isinstance(number, int) else None)
        if reply.code == "MISMATCH":
            return MismatchError(f"{name} was already used with a different input; use a new key for a new operation", **facts)
        if reply.code == "UNKNOWN_OUTCOME":
            return UnknownOutcomeError(f"it is not known whether attempt {number} of {name} had its effect; an operator resolves the key", **facts)
        if reply.code == "GONE":
            return GoneError(f"{name} was settled, but its outcome has expired, so this late call is refused", **facts)
        if reply.status in (400, 413, 422):
            return InvalidInputError("request", f"the server refused it: {reply.text}")
        return ServerRefusedError(f"the server refused the request: {reply.text}", status=reply.status, code=reply.code or None, **facts)


def _settlement_of(value: Any, operation: _Operation) -> Tuple[Any, Dict[str, Any]]:
    """The value as a replay returns it, and the settlement. A result that cannot be stored does not undo the effect: the key
    completes without it."""
    try:
        _check_json(value, "the result")
        return json.loads(_to_text(value)), {"completed": value}
    except InvalidInputError as error:
        log.warning("onceflow: a result of %s could not be stored (%s); replays raise ResultNotKeptError", operation.name(), error)
        return value, {"completed": None, "kept": False}


def _settlement_of_error(error: BaseException, effect: str, keep_failures: bool) -> Dict[str, Any]:
    """How an attempt whose handler raised is settled, by its effect class. The note has no message, which may contain secrets."""
    note = type(error).__name__[:100]
    if isinstance(error, NotApplied):
        return {"free": True, "note": note}
    if effect not in ("idempotent", "keyed"):
        return {"unknown": True, "note": note}
    if keep_failures and isinstance(error, Exception):
        failure = {"name": note, "message": str(error).encode("utf-8", "replace").decode("utf-8")[:4096]}
        code = getattr(error, "code", None)
        return {"failed": {**failure, "code": code} if isinstance(code, str) and len(code) <= 200 else failure, "note": note}
    return {"free": True, "note": note}


def _is_lost(error: BaseException, attempt: Attempt) -> bool:
    """Whether the handler stopped because its lease is lost: then there is nothing to settle."""
    return isinstance(error, LeaseLostError) and (error.scope, error.key, error.attempt) == (attempt.scope, attempt.key, attempt.number)


def _attempt_name(attempt: Attempt) -> str:
    return f'attempt {attempt.number} of key "{attempt.key}"' + (f' in scope "{attempt.scope}"' if attempt.scope else "")


class _Saving:
    """The settle of one attempt, sent again until it is answered."""

    def __init__(self, api: "_Api", fence: Dict[str, Any], settlement: Dict[str, Any], name: str) -> None:
        self._api = api
        self._fence = fence
        self._settlement = settlement
        self._name = name
        self._failures = 0
        self._warn_at = 0.0

    def run(self, until: float) -> str:
        """Returns "settled", "stale", or "late" if there is no answer at `until`."""
        while True:
            retry_after_s = 0.0
            try:
                reply = self._api.post("/keys/settle", {**self._fence, **self._settlement}, until)
                if reply.status == 200 and reply.body.get("attempt") == self._fence["attempt"]:
                    return "settled"
                if reply.code == "LEASE_LOST":
                    return "stale"
                why = "the answer is not that of the API" if reply.status == 200 else reply.text
                # The server never accepts this value. Settle the key without it: the key must not become free because of that.
                if reply.status in (400, 413, 422):
                    shorter = _shorter(self._settlement)
                    if shorter is not None:
                        log.warning("onceflow: the server refused %s and gets it without its value: %s", self._name, why)
                        self._settlement = shorter
                        continue
            except _Passing as error:
                why, retry_after_s = str(error), error.retry_after_s
            except ServerRefusedError as error:
                why = str(error)
            self._failures += 1
            if time.monotonic() >= self._warn_at:
                self._warn_at = time.monotonic() + 60
                log.warning("onceflow: %s is not saved yet; the save is retried until it succeeds: %s", self._name, why)
            delay_s = max(_backoff_s(self._failures, 0.02, 1.0, 2), retry_after_s)
            if time.monotonic() + delay_s > until:
                return "late"
            time.sleep(delay_s)


def _shorter(settlement: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    if "completed" in settlement:
        return None if "kept" in settlement else {**settlement, "completed": None, "kept": False}
    failed = settlement.get("failed")
    if isinstance(failed, dict) and failed.get("message"):
        return {**settlement, "failed": {"name": "Error", "message": ""}}
    return None


class _Lease(threading.Thread):
    """Renews the lease of one attempt. It is lost if the server says that it is stale, or could not be reached until it expired."""

    def __init__(self, api: "_Api", renew: Dict[str, Any], attempt: Attempt, sent_at: float, lease_ms: int) -> None:
        super().__init__(name="onceflow-lease", daemon=True)
        self._api = api
        self._renew = renew
        self._attempt = attempt
        self._lease_s = lease_ms / 1000
        self._until = sent_at + self._lease_s
        self._stopped = threading.Event()
        self.is_kept = False

    def run(self) -> None:
        wait_s = self._until - self._lease_s * 2 / 3 - time.monotonic()
        while not self._stopped.wait(max(0.0, wait_s)):
            sent_at = time.monotonic()
            wait_s = self._lease_s / 3
            try:
                # At least a short time: a process that was stopped for longer than its lease asks before it gives up.
                reply = self._api.post("/keys/renew", self._renew, max(self._until, sent_at + min(1.0, self._lease_s)))
                if reply.status == 200 and reply.body.get("attempt") == self._renew["attempt"]:
                    self._until = sent_at + self._lease_s
                    continue
                if reply.code == "LEASE_LOST":
                    return self.lose("it expired, and another attempt took over or the outcome was resolved by an operator")
                why = reply.text
            except (_Passing, ServerRefusedError) as error:
                why = str(error)
            if time.monotonic() >= self._until:
                return self.lose(f"the server could not be reached until it expired: {why}")
            wait_s = min(self._lease_s / 10, 1.0)

    def lose(self, why: str) -> None:
        if not self._stopped.is_set():
            self._stopped.set()
            self._attempt._lose(why)

    def stop(self) -> None:
        self._stopped.set()


# ------------------------------------------------------------------------------------------------------------------------- HTTP


class _Passing(Exception):
    """The request may succeed later. `was_sent`: the server may have executed it."""

    def __init__(self, message: str, was_sent: bool, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.was_sent = was_sent
        self.retry_after_s = retry_after_s


class _Reply:
    """An answer that is final: 200, or a problem (RFC 9457) with a code."""

    def __init__(self, status: int, body: Dict[str, Any], retry_after_ms: Optional[int]) -> None:
        self.status = status
        self.body = body
        self.code = str(body.get("code", "")) if status != 200 else ""
        self.retry_after_ms = retry_after_ms

    @property
    def text(self) -> str:
        said = self.body.get("detail") or self.body.get("title") or "no problem document"
        # Text from outside goes into messages and logs: one short line.
        return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", " ", f"{self.status} {self.code} {said}")[:500]


class _Api:
    def __init__(self, url: str, token: Optional[str], request_s: float, response_bytes_max: int, context: Optional[ssl.SSLContext]) -> None:
        if not isinstance(url, str) or not re.fullmatch(r"[\x21-\x7e]+", url):
            raise InvalidInputError("url", "must be a URL such as https://ops.example.com/onceflow")
        try:
            parts = urllib.parse.urlsplit(url)
            port = parts.port
        except ValueError:
            raise InvalidInputError("url", "is not a valid URL") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInputError("url", "must begin with https:// or http:// and name a host")
        if "@" in parts.netloc or "\\" in url or parts.query or parts.fragment:
            raise InvalidInputError("url", "must not contain a user, a password, a query or a fragment; pass the token as token=…")
        if token is not None and (not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]{1,4096}", token)):
            raise InvalidInputError("token", "must be 1 to 4096 printable ASCII characters without spaces")
        if token is not None and parts.scheme == "http" and not _is_loopback(parts.hostname):
            raise InvalidInputError("url", f"a token is not sent to {parts.hostname} over plain http, where others can read it; use https")
        self.shown = f"{parts.scheme}://{parts.netloc}{parts.path}"
        self._host = parts.hostname
        self._port = port or (443 if parts.scheme == "https" else 80)
        self._path = parts.path.rstrip("/")
        self._context = (context or ssl.create_default_context()) if parts.scheme == "https" else None
        self._headers = {"content-type": "application/json", "accept": "application/json, application/problem+json", "user-agent": "onceflow-python"}
        if token is not None:
            self._headers["authorization"] = f"Bearer {token}"
        self._request_s = request_s
        self._bytes_max = response_bytes_max

    def post(self, path: str, body: Dict[str, Any], until: float = math.inf) -> _Reply:
        """Sends one request on a connection of its own. Never follows a redirect: the token belongs to this host only."""
        sent = _to_text(body).encode("utf-8")
        limit_s = max(0.05, min(self._request_s, until - time.monotonic()))
        secure = {} if self._context is None else {"context": self._context}
        kind = http.client.HTTPConnection if self._context is None else http.client.HTTPSConnection
        connection = kind(self._host, self._port, timeout=limit_s, **secure)
        was_sent = False
        over = threading.Event()

        def cut() -> None:
            # The socket's own time limit starts anew with every byte. This one does not.
            over.set()
            if connection.sock is not None:
                try:
                    # That of the base class: the method of an SSL socket also ends the encryption, which the other thread still uses.
                    socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)
                except OSError:
                    pass

        watch = threading.Timer(limit_s, cut)
        watch.daemon = True
        watch.start()
        try:
            connection.sock = self._connect(connection, limit_s)
            if self._context is not None:
                connection.sock.do_handshake()
            if over.is_set():
                raise TimeoutError()
            was_sent = True
            connection.request("POST", self._path + path, body=sent, headers=self._headers)
            response = connection.getresponse()
            received = response.read(self._bytes_max + 1)
            if over.is_set():
                raise TimeoutError()
            length = response.headers.get("content-length", "")
            if length.isdigit() and len(received) < min(int(length), self._bytes_max):
                raise http.client.IncompleteRead(received)
        except (OSError, http.client.HTTPException) as error:
            why = f"no answer within {limit_s:.1f} s" if over.is_set() or isinstance(error, (socket.timeout, TimeoutError)) else type(error).__name__
            if isinstance(error, ssl.SSLCertVerificationError):
                message = f"{self.shown}: the certificate of the server is not trusted (ssl_context)"
                raise ServerRefusedError(message, status=0, code="CERTIFICATE_NOT_TRUSTED") from None
            raise _Passing(f"{self.shown}: {why}", was_sent) from None
        finally:
            watch.cancel()
            connection.close()
        return self._reply(response, received)

    def _connect(self, connection: http.client.HTTPConnection, limit_s: float) -> socket.socket:
        """Connects. The handshake of TLS comes when the connection has the socket: so its time limit can end the handshake, too."""
        plain = socket.create_connection((self._host, self._port), limit_s)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is None:
                return plain
            return self._context.wrap_socket(plain, server_hostname=self._host, do_handshake_on_connect=False)
        except BaseException:
            plain.close()
            raise

    def _reply(self, response: http.client.HTTPResponse, received: bytes) -> _Reply:
        status = response.status
        retry_after = response.headers.get("retry-after", "")
        retry_after_s = min(float(retry_after), 60.0) if re.fullmatch(r"\d{1,6}", retry_after) else 0.0
        if status >= 500 or status in (408, 425, 429):
            raise _Passing(f"{self.shown} answered {status}", True, retry_after_s)
        if len(received) > self._bytes_max:
            raise ServerRefusedError(f"{self.shown}: the answer is longer than {self._bytes_max} bytes (response_bytes_max)", status=status, code="ANSWER_TOO_LONG")
        try:
            body = json.loads(received.decode("utf-8"))
        except (ValueError, RecursionError):
            body = None
        if status == 200 and not isinstance(body, dict):
            raise ServerRefusedError(f"{self.shown}: the answer is not JSON; the URL must be that of the API", status=status, code="ANSWER_NOT_VALID")
        body = body if isinstance(body, dict) else {}
        retry_ms = body.get("retryAfterMs")
        return _Reply(status, body, retry_ms if isinstance(retry_ms, int) else int(retry_after_s * 1000) or None)


def _is_loopback(host: str) -> bool:
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _backoff_s(failures: int, min_s: float, max_s: float, factor: float) -> float:
    """Random between half and all of a delay that grows: callers that failed together do not come back together."""
    return min(min_s * factor ** min(failures - 1, 60), max_s) * random.uniform(0.5, 1.0)


# ------------------------------------------------------------------------------------------------------------------------- checks


def _check_name(field: str, text: Any) -> None:
    if not isinstance(text, str):
        raise InvalidInputError(field, f"must be a string, not {type(text).__name__}")
    if text == "" and field == "key":
        raise InvalidInputError(field, "is empty; it must name one logical operation")
    if re.search(r"[\x00-\x1f\x7f]", text):
        raise InvalidInputError(field, "has control characters; use printable text")
    try:
        length = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise InvalidInputError(field, "has a lone surrogate, which no UTF-8 text can hold") from None
    if length > KEY_BYTES_MAX:
        raise InvalidInputError(field, f"is {length} bytes long; {KEY_BYTES_MAX} are allowed. Hash long parts")


def _whole(field: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidInputError(field, f"must be a whole number from {low} to {high}")


def _check_json(value: Any, path: str, depth: int = 0) -> None:
    """Refuses what would arrive as another value: two inputs could then look the same, or a replay return something else."""
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, int):
        if abs(value) > INTEGER_MAX:
            raise InvalidInputError(path, "is an integer beyond 2**53, which JSON numbers cannot hold; turn it into a string")
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInputError(path, f"is {value}, which JSON cannot hold")
        return
    if isinstance(value, str):
        return _check_text(value, path)
    if depth > DEPTH_MAX:
        raise InvalidInputError(path, f"is nested deeper than {DEPTH_MAX} levels")
    if isinstance(value, (list, tuple)):
        for i, member in enumerate(value):
            _check_json(member, f"{path}[{i}]", depth + 1)
        return
    if isinstance(value, dict):
        for name, member in value.items():
            if not isinstance(name, str):
                raise InvalidInputError(path, f"has a member name that is no string ({type(name).__name__})")
            _check_text(name, path)
            _check_json(member, f"{path}.{name}", depth + 1)
        return
    raise InvalidInputError(path, f"is of type {type(value).__name__}, which JSON cannot hold; turn it into plain values first")


def _check_text(text: str, path: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidInputError(path, "has a lone surrogate, which no UTF-8 text can hold") from None


def _to_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _member(reply: Dict[str, Any], name: str, of: type) -> Any:
    value = reply.get(name)
    if not isinstance(value, of) or isinstance(value, bool):
        raise ServerRefusedError(f'the answer has no valid member "{name}"; is the URL that of the API?', status=200, code="ANSWER_NOT_VALID")
    return value
