import asyncio
import math
import unittest
from datetime import datetime, timezone
from typing import Any

from flowdsl import BaseNode, FunctionNode, NodeError, NodeInput, NodeOutput, Packet, deliver, json_text, mock_node_input, node
from flowdsl.errors import CODES
from flowdsl.registry import register


class PacketTest(unittest.TestCase):
    def test_members_by_name_and_by_path(self) -> None:
        packet = Packet({"email": {"messageId": "m-1", "read": False}, "a.b": 1, "score": 0, "nothing": None})
        self.assertEqual(packet.get("email", {}).get("messageId"), "m-1")
        self.assertEqual([packet.get("email.messageId"), packet.get("a.b"), packet.get("email.subject", "none")], ["m-1", 1, "none"])
        self.assertEqual([packet.has("nothing"), packet.get("nothing", 5), packet.has("email.subject")], [True, None, False])
        self.assertEqual([packet.get_string("email.messageId"), packet.get_number("score")], ["m-1", 0])
        self.assertEqual([packet.get_boolean("email.read", True), packet.get_number("x", 7)], [False, 7])
        self.assertEqual([packet["score"], "score" in packet, len(packet), dict(packet)["a.b"]], [0, True, 4, 1])

    def test_a_missing_member_or_one_of_the_wrong_type_is_a_validation_error(self) -> None:
        packet = Packet({"amount": "12", "deep": None, "flag": True})
        for work, text in (
            (lambda: packet.get_number("amount"), 'the packet\'s "amount" is text; it must be a number'),
            (lambda: packet.get_number("flag"), 'the packet\'s "flag" is a boolean; it must be a number'),
            (lambda: packet.get_string("id"), 'the packet\'s "id" is missing; it must be text'),
            (lambda: packet.get_string("deep"), 'the packet\'s "deep" is null; it must be text'),
        ):
            with self.assertRaises(NodeError) as caught:
                work()
            self.assertEqual([caught.exception.code, caught.exception.message], ["VALIDATION", text])

    def test_awaiting_a_packet_returns_it(self) -> None:
        async def read() -> Any:
            return (await mock_node_input("in", {"a": 1}).packet("in")).get("a")

        self.assertEqual(asyncio.run(read()), 1)


class NodeErrorTest(unittest.TestCase):
    def test_codes_and_cause(self) -> None:
        cause = OSError("why")
        error = NodeError("RATE_LIMITED", "slow", cause, retry_after_ms=5)
        self.assertEqual([error.code, str(error), error.cause, error.retryable, error.retry_after_ms], ["RATE_LIMITED", "slow", cause, True, 5])
        retried = sorted(code for code in CODES if NodeError(code, "x").retryable)
        self.assertEqual(retried, ["NETWORK_ERROR", "RATE_LIMITED", "TEMPORARY", "TIMEOUT"])
        with self.assertRaisesRegex(ValueError, "code: must be one of"):
            NodeError("OOPS", "x")


class OutputTest(unittest.TestCase):
    def test_keeps_what_is_sent_in_order_and_as_it_was(self) -> None:
        data = {"n": 1}
        output = NodeOutput().send("out", data).send("audit", {"n": 2}).send("out", Packet({"n": 3}))
        data["n"] = 99
        self.assertEqual([(sent.port, sent.text) for sent in output.sent], [("out", b'{"n":1}'), ("audit", b'{"n":2}'), ("out", b'{"n":3}')])

    def test_refuses_what_has_no_json_form_and_says_where(self) -> None:
        circle: Any = {}
        circle["me"] = circle
        for data, text in (
            ({"a": [1, {"b": math.nan}]}, "a[1].b is nan"),
            ({"a": math.inf}, "a is inf"),
            ({"at": datetime.now(timezone.utc)}, "at is of type datetime"),
            ({"a": {1: "x"}}, "a has the member name 1"),
            (circle, "contains itself"),
            ([1], "must be an object, not list"),
        ):
            with self.assertRaises(NodeError) as caught:
                NodeOutput().send("out", data)  # type: ignore[arg-type]
            self.assertEqual(caught.exception.code, "PERMANENT")
            self.assertIn(text, caught.exception.message)
        with self.assertRaises(NodeError):
            NodeOutput().send("", {})


class JsonTest(unittest.TestCase):
    def test_numbers_and_texts_come_back_as_they_were(self) -> None:
        text = '{"big":123456789012345678901234567890,"float":0.1,"exp":1e+21,"one":1.0,"neg":-0.0,"half":"\\ud800","ü":"ü"}'
        self.assertEqual(json_text.decode(json_text.encode(json_text.decode(text))), json_text.decode(text))
        self.assertEqual(json_text.encode(json_text.decode('{"a":123456789012345678901234567890,"b":1.0}')), b'{"a":123456789012345678901234567890,"b":1.0}')
        self.assertEqual(math.copysign(1, json_text.decode("-0")), -1)
        digits = "1" * json_text.INTEGER_DIGITS_MAX
        self.assertEqual(json_text.encode(json_text.decode(digits)), digits.encode())

    def test_refuses_what_is_not_json(self) -> None:
        for text in ("NaN", "-Infinity", "1e999", "1" * 5000, "[" * 100_000, b"\xff", "{", '{"a":1}x'):
            with self.assertRaises(ValueError):
                json_text.decode(text)


class RegistryTest(unittest.TestCase):
    def test_nodes_classes_and_functions(self) -> None:
        class Charge(BaseNode):
            operation_id = "charge"

        @node("other")
        def other(input: NodeInput) -> None:
            return None

        self.assertEqual(sorted(register([Charge, other])), ["charge", "other"])
        by_name: Any = {"a": lambda input: None, "charge": Charge()}
        self.assertEqual(sorted(register(by_name)), ["a", "charge"])
        self.assertIsInstance(other, FunctionNode)

    def test_mistakes_are_named(self) -> None:
        class NoName(BaseNode):
            pass

        def bare(input: NodeInput) -> None:
            return None

        mistakes: Any = (
            ([], "is empty"),
            ([NoName], "NoName has no operation_id"),
            ([bare], 'put @node\\("…"\\) above it'),
            ([node("a")(bare), node("a")(bare)], 'two nodes have the operation_id "a"'),
            (node("a")(bare), "must be a list"),
        )
        for nodes, text in mistakes:
            with self.assertRaisesRegex((ValueError, TypeError), text):
                register(nodes)
        with self.assertRaisesRegex(TypeError, '@node\\("operation_id"\\)'):
            node(bare)  # type: ignore[arg-type]


class InitTest(unittest.IsolatedAsyncioTestCase):
    async def test_init_is_called_once_for_each_settings(self) -> None:
        calls = []

        class Greet(BaseNode):
            operation_id = "greet"
            greeting = ""

            async def init(self, settings: Any) -> None:
                calls.append(dict(settings))
                self.greeting = settings["greeting"]

            async def handle(self, input: NodeInput) -> NodeOutput:
                return NodeOutput().send("out", {"text": self.greeting})

        registered = register([Greet])["greet"]
        texts = []
        for greeting in ("hello", "hallo", "hello"):
            output = await registered.handle(mock_node_input("in", {}, settings={"greeting": greeting}))
            texts.append(output.sent[0].data["text"])
        self.assertEqual(texts, ["hello", "hallo", "hello"])
        self.assertEqual(calls, [{"greeting": "hello"}, {"greeting": "hallo"}])

    async def test_a_wrong_return_value_is_permanent(self) -> None:
        with self.assertRaisesRegex(NodeError, "must return a NodeOutput or None, not dict"):
            await deliver(node("wrong")(lambda input: {"a": 1}), mock_node_input("in", {}))  # type: ignore[arg-type,return-value]


if __name__ == "__main__":
    unittest.main()
