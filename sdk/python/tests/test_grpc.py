import asyncio
import json
import logging
import unittest
from typing import Any

from flowdsl import NodeError, NodeInput, NodeOutput, NodeServer, node

try:
    import grpc
    import grpc.aio

    from flowdsl.grpc import node_pb2 as pb

    missing = ""
except ImportError as error:
    missing = f"pip install 'flowdsl[grpc]' ({error})"


@node("echo", summary="Sends back", outputs=["out"])
async def echo(input: NodeInput) -> NodeOutput:
    return NodeOutput().send("out", input.data("in")).send("out", dict(input.context.settings))


@node("fail")
async def fail(input: NodeInput) -> None:
    raise NodeError("RATE_LIMITED", "slow \ud800", retry_after_ms=5)


@node("hang")
async def hang(input: NodeInput) -> None:
    await asyncio.Event().wait()


@unittest.skipIf(missing, missing)
class GrpcTest(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        logging.getLogger("flowdsl").setLevel(logging.CRITICAL)
        self.addCleanup(logging.getLogger("flowdsl").setLevel, logging.NOTSET)

    async def connect(self, **options: Any) -> Any:
        server = NodeServer([echo, fail, hang], protocol="grpc", **options)
        self.assertTrue((await server.start()).startswith("grpc://127.0.0.1:"))
        self.addAsyncCleanup(server.stop)
        channel = grpc.aio.insecure_channel(server.url[len("grpc://") :])
        self.addAsyncCleanup(channel.close)

        def method(name: str, answer: Any, stream: bool = False) -> Any:
            make = channel.unary_stream if stream else channel.unary_unary
            return make(
                f"/flowdsl.node.v1.NodeService/{name}", request_serializer=lambda m: m.SerializeToString(), response_deserializer=answer.FromString
            )

        self.server = server
        self.invoke = method("Invoke", pb.InvokeResponse)
        self.stream = method("InvokeStream", pb.InvokeStreamResponse, stream=True)
        self.health = method("Health", pb.HealthResponse)
        self.manifest = method("Manifest", pb.ManifestResponse)

    def request(self, operation_id: str = "echo", key: Any = "k", **more: Any) -> Any:
        facts = {"flow_id": "f", "node_id": "n", "attempt": 1, "inputs_json": {"in": b'{"big":123456789012345678901234567890}'}, **more}
        return pb.InvokeRequest(operation_id=operation_id, **({} if key is None else {"idempotency_key": key}), **facts)

    async def status(self, call: Any) -> Any:
        with self.assertRaises(grpc.aio.AioRpcError) as caught:
            await call
        return caught.exception.code()

    async def test_invokes_and_replays(self) -> None:
        await self.connect()
        for replayed in (False, True):
            answer = await self.invoke(self.request(settings_json=b'{"a":1}'))
            self.assertEqual([output.data_json for output in answer.outputs], [b'{"big":123456789012345678901234567890}', b'{"a":1}'])
            self.assertEqual(answer.replayed, replayed)
        events = [event.WhichOneof("event") async for event in self.stream(self.request())]
        self.assertEqual(events, ["output", "output", "done"])
        other = await self.invoke(self.request(inputs_json={"in": b"{}"}))
        self.assertEqual(other.error.code, "VALIDATION")
        failed = await self.invoke(self.request("fail", None))
        self.assertEqual([failed.error.code, failed.error.message, failed.error.retry_after_ms], ["RATE_LIMITED", "slow ?", 5])
        self.assertEqual([event.error.code async for event in self.stream(self.request("fail", None))], ["RATE_LIMITED"])

    async def test_statuses(self) -> None:
        await self.connect(token="right")
        right = (("authorization", "Bearer right"),)
        self.assertEqual(await self.status(self.invoke(self.request())), grpc.StatusCode.UNAUTHENTICATED)
        self.assertEqual(await self.status(self.manifest(pb.ManifestRequest())), grpc.StatusCode.UNAUTHENTICATED)
        self.assertEqual((await self.health(pb.HealthRequest())).status, pb.HealthResponse.SERVING)
        self.assertEqual(await self.status(self.invoke(self.request("nothing"), metadata=right)), grpc.StatusCode.NOT_FOUND)
        wrongs: Any = ({"inputs_json": {}}, {"inputs_json": {"in": b"{"}}, {"inputs_json": {"in": b"5"}}, {"flow_id": ""}, {"attempt": 0})
        for wrong in wrongs:
            self.assertEqual(await self.status(self.invoke(self.request(**wrong), metadata=right)), grpc.StatusCode.INVALID_ARGUMENT)
        # Both sides look at the clock: the server's answer may come before the client's own status.
        try:
            self.assertEqual((await self.invoke(self.request("hang"), metadata=right, timeout=0.1)).error.code, "TIMEOUT")
        except grpc.aio.AioRpcError as error:
            self.assertEqual(error.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        manifest = await self.manifest(pb.ManifestRequest(), metadata=right)
        self.assertEqual([manifest.sdk_language, [one.operation_id for one in manifest.nodes]], ["python", ["echo", "fail", "hang"]])

    async def test_limits_and_stopping(self) -> None:
        await self.connect(concurrency=1, body_bytes_max=1000, grace_seconds=0.05)
        large = {"in": json.dumps({"a": "x" * 200_000}).encode()}
        self.assertEqual(await self.status(self.invoke(self.request(inputs_json=large))), grpc.StatusCode.RESOURCE_EXHAUSTED)
        first = asyncio.ensure_future(self.invoke(self.request("hang")))
        while (await self.health(pb.HealthRequest())).in_flight == 0:
            pass
        busy = (await self.invoke(self.request("hang"))).error
        self.assertEqual([busy.code, busy.retry_after_ms > 0], ["RATE_LIMITED", True])
        await self.server.stop()
        self.assertEqual((await first).error.code, "TEMPORARY")
