"""Calls once(…) as the JSON of its argument says, one plan after the other, and prints a line of JSON for each call. The Go program beside it does the same."""

import json
import logging
import ssl
import sys
import threading
import urllib.request
from typing import Any, Dict, List

import onceflow

logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
plan: Dict[str, Any] = {}
printing = threading.Lock()


def show(line: Dict[str, Any]) -> None:
    with printing:
        print(json.dumps(line), flush=True)


def ask(path: str, headers: Dict[str, str]) -> Any:
    request = urllib.request.Request(plan["provider"] + path, method="POST", headers=headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


class Declined(Exception):
    code = "CARD_DECLINED"


def handler_of(call: Dict[str, Any]) -> Any:
    def handler(attempt: onceflow.Attempt) -> Any:
        does = call.get("does", "effect")
        if does == "notApplied":
            raise onceflow.NotApplied("the provider said no")
        result = ask("effects", {"idempotency-key": attempt.effect_key, "x-attempt": str(attempt.number), "x-caller": "python"})
        if does == "fail":
            raise Declined("the card was declined")
        if does == "waitLost":
            show({"lost": attempt.lost.wait(30)})
        if does == "check":
            attempt.lost.wait(30)
            attempt.check()
        if does == "notJson":
            return 2**60
        if does == "long":
            return "x" * 2_000_000
        return call.get("result", result)

    return handler


def reconcile(request: onceflow.ReconcileRequest) -> Any:
    answer = ask("find", {"idempotency-key": request.effect_key})
    return onceflow.Found(answer["found"]) if answer else onceflow.ABSENT


def run(client: onceflow.Client, call: Dict[str, Any]) -> None:
    names = {"leaseMs": "lease_ms", "waitMs": "wait_ms", "keepFailures": "keep_failures", "fingerprint": "fingerprint"}
    options = {names[name]: call[name] for name in names if name in call}
    options.update({name: call[name] for name in ("scope", "input", "effect") if name in call})
    if call.get("effect") == "reconcile":
        options["reconcile"] = reconcile
    try:
        result = client.once(call["key"], handler_of(call), **options)
        show({"status": result.status, "value": result.value, "attempt": result.attempt})
    except onceflow.OperationFailedError as error:
        show({"error": error.code, "message": str(error), "attempt": error.attempt, "failureCode": error.failure_code})
    except onceflow.OnceflowError as error:
        kind = "INVALID_INPUT" if isinstance(error, onceflow.InvalidInputError) else error.code
        kind = "SERVER_REFUSED" if isinstance(error, onceflow.ServerRefusedError) else kind
        show({"error": kind, "message": str(error), "attempt": error.attempt, "retryable": error.retryable})
    except Declined as error:
        show({"error": "DECLINED", "message": str(error)})


def execute() -> None:
    if "saveMs" in plan:
        onceflow.SAVE_S_MAX = plan["saveMs"] / 1000
    try:
        trusted = {"ssl_context": ssl.create_default_context(cafile=plan["caFile"])} if "caFile" in plan else {}
        client = onceflow.Client(plan["url"], **trusted, token=plan.get("token"), request_s=plan.get("requestMs", 10_000) / 1000)
    except onceflow.OnceflowError as error:
        return show({"error": error.code, "message": str(error)})
    calls: List[Dict[str, Any]] = plan["calls"]
    if not plan.get("parallel"):
        for call in calls:
            run(client, call)
        return
    threads = [threading.Thread(target=run, args=(client, call)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


for plan in json.loads(sys.argv[1]):
    execute()
