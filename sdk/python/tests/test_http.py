import asyncio
import json
import logging
import os
import ssl
import subprocess
import tempfile
import threading
import time
import unittest
from typing import Any, List
from unittest import mock

from flowdsl import NodeError, NodeInput, NodeOutput, NodeServer, node
from tests.servers import Client, body, call, datas, request_bytes

INVOKE = "/v1/nodes/echo/invoke"


@node("echo", version="1.0.0", summary="Sends back", inputs=["in"], outputs=["out"])
async def echo(input: NodeInput) -> NodeOutput:
    return NodeOutput().send("out", input.data("in"))


@node("fail")
async def fail(input: NodeInput) -> None:
    packet = input.packet("in")
    if packet.get_string("code") == "EXCEPTION":
        raise KeyError("no-such-key")
    raise NodeError(packet.get_string("code"), "why", retry_after_ms=packet.get("retryAfterMs"))


class HttpTest(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        logging.getLogger("flowdsl").setLevel(logging.CRITICAL)

    def tearDown(self) -> None:
        logging.getLogger("flowdsl").setLevel(logging.NOTSET)

    async def serve(self, *nodes: Any, **options: Any) -> NodeServer:
        server = NodeServer(list(nodes) or [echo, fail], **options)
        await server.start()
        self.addAsyncCleanup(server.stop)
        return server

    async def connect(self, server: NodeServer, **options: Any) -> Client:
        client = await Client.to(server, **options)
        self.addCleanup(client.close)
        return client

    async def test_invokes_replays_and_keeps_the_connection(self) -> None:
        client = await self.connect(await self.serve())
        content = body("k", {"big": 123456789012345678901234567890, "f": 0.1, "text": "ü"})
        for replayed in (False, True):
            status, headers, answer = await client.call("POST", INVOKE, content)
            self.assertEqual([status, headers["content-type"], answer["replayed"]], [200, "application/json", replayed])
            self.assertEqual(answer["outputs"], [{"port": "out", "data": content["inputs"]["in"]}])
        status, _, answer = await client.call("POST", INVOKE, body("k", {"other": 1}))
        self.assertEqual([status, answer["error"]["code"]], [422, "VALIDATION"])

    async def test_health_and_manifest(self) -> None:
        client = await self.connect(await self.serve(concurrency=7))
        self.assertEqual((await client.call("GET", "/v1/health"))[2], {"status": "serving", "inFlight": 0, "concurrency": 7})
        _, _, manifest = await client.call("GET", "/v1/manifest")
        self.assertEqual([manifest["protocol"], manifest["sdk"]["language"]], ["flowdsl.node.v1", "python"])
        self.assertEqual(
            manifest["nodes"],
            [
                {"operationId": "echo", "version": "1.0.0", "summary": "Sends back", "inputs": ["in"], "outputs": ["out"]},
                {"operationId": "fail"},
            ],
        )

    async def test_errors_and_their_status(self) -> None:
        server = await self.serve()
        for code, status in (
            ("VALIDATION", 422),
            ("INPUT_MISSING", 422),
            ("PERMANENT", 422),
            ("TIMEOUT", 504),
            ("RATE_LIMITED", 429),
            ("NETWORK_ERROR", 502),
            ("TEMPORARY", 503),
        ):
            self.assertEqual(await call(server, "fail", body(data={"code": code})), (status, {"error": {"code": code, "message": "why"}}))
        status, answer = await call(server, "fail", body(data={"code": "EXCEPTION"}))
        self.assertEqual([status, answer["error"]["code"]], [500, "TEMPORARY"])
        self.assertEqual(answer["error"]["message"], "node fail raised KeyError: 'no-such-key'")
        client = await self.connect(server)
        status, headers, answer = await client.call(
            "POST", "/v1/nodes/fail/invoke", body(data={"code": "RATE_LIMITED", "retryAfterMs": 1500})
        )
        self.assertEqual([status, headers["retry-after"], answer["error"]["retryAfterMs"]], [429, "2", 1500])
        status, answer = await call(server, "nothing", body())
        self.assertEqual([status, answer["error"]["code"]], [404, "TEMPORARY"])

    async def test_malformed_bodies_are_refused_and_the_node_is_not_called(self) -> None:
        server = await self.serve()
        wrong: List[Any] = [
            [],
            body(inputs={}),
            body(inputs={"in": 5}),
            body(inputs=[]),
            body(attempt=0),
            body(attempt=True),
            body(flowId=5),
            body(flowId=""),
            body(nodeId=None),
            body(idempotencyKey=""),
            body(idempotencyKey=5),
            body(deadlineMs="5"),
            body(deadlineMs=0),
            body(deadlineMs=1.5),
            body(traceHeaders={"a": 1}),
            body(settings=[]),
        ]
        for content in wrong:
            status, answer = await call(server, "echo", content)
            self.assertEqual([status, answer["error"]["code"]], [400, "VALIDATION"], content)
        client = await self.connect(server)
        for text in (b"", b"{", b'{"a":NaN}', b'{"a":1e999}', b"\xff", b"[" * 100_000):
            status, _, answer = await client.send(request_bytes("POST", INVOKE, text))
            self.assertEqual([status, answer["error"]["code"]], [400, "VALIDATION"], text[:20])
        # Fields of a newer protocol are ignored.
        self.assertEqual((await call(server, "echo", body(new={"field": 1})))[0], 200)
        self.assertEqual((await call(server, "echo", body(deadlineMs=10**400)))[0], 200)

    async def test_chunked_bodies_and_expect(self) -> None:
        client = await self.connect(await self.serve())
        content = json.dumps(body(data={"a": "b" * 100})).encode()
        pieces = [content[i : i + 7] for i in range(0, len(content), 7)]
        chunks = b"".join(b"%X;x=y\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\nTrailer: x\r\n\r\n"
        head = f"POST {INVOKE} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        for _ in range(2):
            status, _, answer = await client.send(head + chunks)
            self.assertEqual([status, datas(answer)], [200, [{"a": "b" * 100}]])
        client.writer.write(f"POST {INVOKE} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: {len(content)}\r\n\r\n".encode())
        self.assertEqual((await client.response())[0], 100)
        self.assertEqual((await client.send(content))[0], 200)

    async def test_requests_that_two_parsers_read_differently_are_refused(self) -> None:
        server = await self.serve()
        for lines, status in (
            (["POST / HTTP/1.1", "Host: x", "Content-Length: 3", "Transfer-Encoding: chunked"], 400),
            (["POST / HTTP/1.1", "Host: x", "Content-Length: 3", "Content-Length: 4"], 400),
            (["POST / HTTP/1.1", "Host: x", "Content-Length: +3"], 400),
            (["POST / HTTP/1.1", "Host: x", "Transfer-Encoding: gzip, chunked"], 501),
            (["POST / HTTP/1.1", "Host : x"], 400),
            (["POST / HTTP/1.1", "Host: x", " folded: y"], 400),
            (["POST / HTTP/1.1"], 400),
            (["POST /  HTTP/1.1", "Host: x"], 400),
            (["PRI * HTTP/2.0"], 400),
            (["GET / HTTP/1.1", "Host: x", "X: " + "y" * 70_000], 431),
        ):
            client = await self.connect(server)
            self.assertEqual((await client.send("\r\n".join(lines).encode() + b"\r\n\r\n"))[0], status, lines[-1][:40])
            self.assertTrue(await client.ended())
        head = f"POST {INVOKE} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        for chunks in (b"zz\r\n", b"-1\r\n", b"2\r\nabc\r\n", b"FFFFFFFFFF\r\n"):
            client = await self.connect(server)
            self.assertEqual((await client.send(head + chunks))[0], 400)

    async def test_bodies_that_are_too_large(self) -> None:
        server = await self.serve(body_bytes_max=1000)
        client = await self.connect(server)
        for _ in range(2):
            status, _, answer = await client.send(request_bytes("POST", INVOKE, b"x" * 1001))
            self.assertEqual([status, answer["error"]["code"]], [413, "VALIDATION"])
            client = await self.connect(server)
        # The answer arrives although the client is still sending.
        long = request_bytes("POST", INVOKE, b"x" * 5_000_000)
        self.assertEqual((await client.send(long))[0], 413)
        client = await self.connect(server)
        chunk = b"400\r\n" + b"x" * 1024 + b"\r\n"
        self.assertEqual((await client.send(f"POST {INVOKE} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + chunk))[0], 413)

    async def test_a_body_that_is_too_slow_closes_the_connection_and_frees_the_slot(self) -> None:
        server = await self.serve(body_seconds=0.05, concurrency=1)
        client = await self.connect(server)
        client.writer.write(f"POST {INVOKE} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{".encode())
        self.assertTrue(await client.ended())
        self.assertEqual((await call(server, "echo", body()))[0], 200)
        client = await self.connect(server)
        client.writer.write(b"POST / HT")
        self.assertTrue(await client.ended())

    async def test_the_limit_of_invocations(self) -> None:
        running, go = asyncio.Event(), asyncio.Event()

        @node("slow")
        async def slow(input: NodeInput) -> None:
            running.set()
            await go.wait()

        server = await self.serve(slow, concurrency=1)
        first = asyncio.ensure_future(call(server, "slow", body("k")))
        await running.wait()
        client = await self.connect(server)
        # A duplicate that would wait counts, too.
        status, headers, answer = await client.call("POST", "/v1/nodes/slow/invoke", body("k"))
        self.assertEqual([status, answer["error"]["code"], answer["error"]["retryAfterMs"] > 0], [429, "RATE_LIMITED", True])
        self.assertIn("retry-after", headers)
        self.assertEqual((await client.call("GET", "/v1/health"))[2]["inFlight"], 1)
        go.set()
        self.assertEqual((await first)[0], 200)
        self.assertEqual((await client.call("POST", "/v1/nodes/slow/invoke", body("k")))[2]["replayed"], True)

    async def test_the_deadline(self) -> None:
        @node("slow")
        async def slow(input: NodeInput) -> None:
            await asyncio.Event().wait()

        server = await self.serve(slow)
        status, answer = await call(server, "slow", body("k", deadlineMs=30))
        self.assertEqual([status, answer["error"]["code"]], [504, "TIMEOUT"])

    async def test_the_token(self) -> None:
        server = await self.serve(token="right")
        client = await self.connect(server)
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "right"}, {"Authorization": "Bearer"}):
            status, got, answer = await client.call("POST", INVOKE, body(), headers)
            self.assertEqual([status, answer["error"]["code"], got["www-authenticate"]], [401, "TEMPORARY", "Bearer"])
        self.assertEqual((await client.call("GET", "/v1/manifest"))[0], 401)
        self.assertEqual((await client.call("GET", "/v1/health"))[0], 200)
        self.assertEqual((await client.call("POST", INVOKE, body(), {"Authorization": "Bearer right"}))[0], 200)

    async def test_wrong_methods_routes_and_browsers(self) -> None:
        client = await self.connect(await self.serve())
        for method, path, status in (("GET", INVOKE, 405), ("POST", "/v1/health", 405), ("GET", "/", 404), ("POST", "/v1/nodes//invoke", 404)):
            self.assertEqual((await client.call(method, path))[0], status, path)
        self.assertEqual((await client.call("POST", INVOKE, body(), {"Origin": "http://evil.example"}))[0], 403)
        plain = request_bytes("POST", INVOKE, json.dumps(body()).encode()).replace(b"application/json", b"text/plain")
        self.assertEqual((await client.send(plain))[0], 415)
        self.assertEqual((await client.call("POST", "/v1/nodes/%65cho/invoke?x=1", body()))[0], 200)

    async def test_stopping_refuses_new_invocations_and_waits_for_running_ones(self) -> None:
        running, go = asyncio.Event(), asyncio.Event()

        @node("slow")
        async def slow(input: NodeInput) -> NodeOutput:
            running.set()
            await go.wait()
            return NodeOutput().send("out", {"done": True})

        server = await self.serve(slow)
        idle, open_one = await self.connect(server), await self.connect(server)
        self.assertEqual((await idle.call("GET", "/v1/health"))[0], 200)
        self.assertEqual((await open_one.call("GET", "/v1/health"))[0], 200)
        first = asyncio.ensure_future(call(server, "slow", body("k")))
        await running.wait()
        stopping = asyncio.ensure_future(server.stop())
        await asyncio.sleep(0)
        status, _, answer = await open_one.call("POST", "/v1/nodes/slow/invoke", body("other"))
        self.assertEqual([status, answer["error"]["code"]], [503, "TEMPORARY"])
        status, _, answer = await open_one.call("GET", "/v1/health")
        self.assertEqual([status, answer["status"]], [503, "stopping"])
        go.set()
        self.assertEqual(datas((await first)[1]), [{"done": True}])
        await stopping
        self.assertTrue(await idle.ended())
        with self.assertRaises(ConnectionError):
            await Client.to(server)

    async def test_a_node_that_hangs_does_not_keep_the_server_after_the_grace_period(self) -> None:
        running = asyncio.Event()

        @node("hang")
        async def hang(input: NodeInput) -> None:
            running.set()
            await asyncio.Event().wait()

        server = await self.serve(hang, grace_seconds=0.02)
        first = asyncio.ensure_future(call(server, "hang", body()))
        await running.wait()
        await server.stop()
        status, answer = await first
        self.assertEqual([status, answer["error"]["code"]], [503, "TEMPORARY"])

    async def test_a_connection_too_many_takes_the_place_of_the_oldest_idle_one(self) -> None:
        with mock.patch("flowdsl.server.CONNECTIONS_MAX", 1):
            server = await self.serve(concurrency=1)
        clients = [await self.connect(server) for _ in range(2)]
        for client in clients:
            self.assertEqual((await client.call("GET", "/v1/health"))[0], 200)
        third = await self.connect(server)
        self.assertEqual((await third.call("GET", "/v1/health"))[0], 200)
        self.assertTrue(await clients[0].ended())
        self.assertEqual((await clients[1].call("GET", "/v1/health"))[0], 200)

    async def test_a_connection_too_many_is_closed_if_all_others_are_in_use(self) -> None:
        with mock.patch("flowdsl.server.CONNECTIONS_MAX", 1):
            server = await self.serve(concurrency=1)
        clients = [await self.connect(server) for _ in range(2)]
        for client in clients:
            self.assertEqual((await client.call("GET", "/v1/health"))[0], 200)
            client.writer.write(b"GET /v1/health HTTP/1.1\r\n")
        while any(connection.idle for connection in server._listener._connections):
            await asyncio.sleep(0)
        third = await self.connect(server)
        self.assertTrue(await third.ended())
        for client in clients:
            self.assertEqual((await client.send(b"Host: x\r\n\r\n"))[0], 200)

    async def test_options_are_checked(self) -> None:
        for options, text in (
            ({"host": "0.0.0.0"}, "not a loopback address; give a token or tls_client_ca, or set allow_unauthenticated"),
            ({"protocol": "carrier-pigeon"}, 'must be "http" or "grpc"'),
            ({"concurrency": 0}, "concurrency: must be an integer of at least 1"),
            ({"token": " "}, "token: must be"),
            ({"tls_cert": "x"}, "give both or neither"),
            ({"tls_client_ca": "x"}, "tls_client_ca: needs tls_cert"),
        ):
            with self.assertRaisesRegex(ValueError, text):
                NodeServer([echo], **options)
        NodeServer([echo], host="0.0.0.0", token="t")
        NodeServer([echo], host="0.0.0.0", allow_unauthenticated=True)

    async def test_tls_and_client_certificates(self) -> None:
        # asyncio logs every handshake that fails.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        self.addCleanup(logging.getLogger("asyncio").setLevel, logging.NOTSET)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        certificate, key = os.path.join(folder.name, "cert.pem"), os.path.join(folder.name, "key.pem")
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
        try:
            subprocess.run(
                [*command, "-keyout", key, "-out", certificate, "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
                check=True,
                capture_output=True,
            )
        except (OSError, subprocess.CalledProcessError):
            self.skipTest("the program openssl makes the certificates of this test, and is not there")
        server = await self.serve(echo, tls_cert=certificate, tls_key=key, tls_client_ca=certificate)
        self.assertTrue(server.url.startswith("https://127.0.0.1:"))
        stranger = ssl.create_default_context(cafile=certificate)
        with self.assertRaises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            client = await self.connect(server, ssl=stranger)
            await client.call("GET", "/v1/health")
        known = ssl.create_default_context(cafile=certificate)
        known.load_cert_chain(certificate, key)
        client = await self.connect(server, ssl=known)
        self.assertEqual((await client.call("POST", INVOKE, body()))[0], 200)
        plain = await Client.to(server)
        plain.writer.write(b"GET / HTTP/1.1\r\n\r\n")
        self.assertTrue(await plain.ended())
        plain.close()

    async def test_sync_nodes_run_beside_each_other_and_health_answers_meanwhile(self) -> None:
        both = threading.Barrier(2, timeout=60)

        @node("meet")
        def meet(input: NodeInput) -> None:
            both.wait()

        server = await self.serve(meet)
        answers = await asyncio.gather(call(server, "meet", body("a")), call(server, "meet", body("b")))
        self.assertEqual([status for status, _ in answers], [200, 200])

    async def test_context(self) -> None:
        seen: List[Any] = []

        @node("look")
        async def look(input: NodeInput) -> None:
            seen.append(input.context)

        server = await self.serve(look)
        before = time.monotonic()
        trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
        await call(server, "look", body("k", attempt=3, deadlineMs=5000, traceHeaders=trace, settings={"a": 1}))
        await call(server, "look", {"flowId": "f", "nodeId": "n", "inputs": {"in": {}}})
        first, second = seen
        self.assertEqual([first.flow_id, first.execution_id, first.node_id, first.packet_id], ["f", "x", "n", "p"])
        self.assertEqual([first.idempotency_key, first.attempt, first.trace_headers, first.settings], ["k", 3, trace, {"a": 1}])
        self.assertLessEqual(first.deadline - before, 5.0 + (time.monotonic() - before))
        self.assertEqual([second.idempotency_key, second.attempt, 3500 < second.remaining() <= 3600], [None, 1, True])
