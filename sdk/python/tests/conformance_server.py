"""A node server for the conformance suite of the repository (test/nodes). Prints one JSON line with its URL, and ends on SIGTERM."""

from __future__ import annotations

import argparse
import json
import os
import sys
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from flowdsl import TEMPORARY, NodeError, NodeInput, NodeOutput, node, serve  # noqa: E402


@node("echo", version="1.0.0", summary="Sends the packet of each input port to out", outputs=["out"])
def echo(input: NodeInput) -> NodeOutput:
    output = NodeOutput()
    for port in sorted(input.ports):
        output.send("out", input.data(port))
    return output


@node("many")
async def many(input: NodeInput) -> NodeOutput:
    output = NodeOutput()
    for i in range(int(input.packet("in").get_number("n"))):
        output.send("out", {"i": i})
    return output


@node("fail")
async def fail(input: NodeInput) -> NodeOutput:
    packet = input.packet("in")
    code, message = packet.get_string("code"), packet.get_string("message")
    if code == "EXCEPTION":
        raise Exception(message)
    raise NodeError(code, message, retry_after_ms=packet.get("retryAfterMs"))


@node("context")
async def context(input: NodeInput) -> NodeOutput:
    facts = input.context
    return NodeOutput().send(
        "out",
        {
            "flowId": facts.flow_id,
            "executionId": facts.execution_id,
            "nodeId": facts.node_id,
            "packetId": facts.packet_id,
            "idempotencyKey": facts.idempotency_key,
            "attempt": facts.attempt,
            "traceHeaders": dict(facts.trace_headers),
            "settings": dict(facts.settings),
            "hasDeadline": facts.remaining() > 0,
        },
    )


@node("effect")
def effect(input: NodeInput) -> NodeOutput:
    key = input.context.idempotency_key
    headers = {"Content-Type": "application/json", **({} if key is None else {"Idempotency-Key": key})}
    content = json.dumps({"key": key, "attempt": input.context.attempt}).encode()
    request = urllib.request.Request(input.packet("in").get_string("url"), content, headers)
    try:
        with urllib.request.urlopen(request) as response:
            return NodeOutput().send("out", {"answer": json.load(response)})
    except urllib.error.HTTPError as error:
        raise NodeError(TEMPORARY, f"the other side answered {error.code}", error) from error


@node("needs_other")
def needs_other(input: NodeInput) -> NodeOutput:
    return NodeOutput().send("out", input.data("other"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--protocol", default="http")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--dedupe", default="memory")
    parser.add_argument("--token")
    parser.add_argument("--concurrency", type=int, default=100)
    parser.add_argument("--tls-cert")
    parser.add_argument("--tls-key")
    parser.add_argument("--tls-client-ca")
    options = vars(parser.parse_args())
    serve([echo, many, fail, context, effect, needs_other], on_start=lambda url: print(json.dumps({"url": url}), flush=True), **options)


if __name__ == "__main__":
    main()
