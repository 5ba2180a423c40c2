"""The service flowdsl.node.v1.NodeService. node_pb2.py is generated: ../../generate-proto.sh."""

from __future__ import annotations

import time
from typing import Any, AsyncIterator, Dict, Optional, Tuple

from .. import json_text
from ..delivery import Answer
from ..errors import NodeError
from ..invocation import BadRequest, Invocation, read_invocation
from ..service import Service, UnknownNode

try:
    import grpc
    import grpc.aio

    from . import node_pb2 as pb
except ImportError as error:  # pragma: no cover
    raise ImportError("gRPC needs two more packages: pip install 'flowdsl[grpc]'") from error

SERVICE = "flowdsl.node.v1.NodeService"


class GrpcServer:
    """Serves a Service over gRPC. Belongs to one event loop."""

    def __init__(self, service: Service, body_bytes_max: int) -> None:
        self._service = service
        self._server = grpc.aio.server(
            # Messages are read before the gate is asked: this bounds their memory.
            maximum_concurrent_rpcs=2 * service.gate.concurrency + 100,
            options=[
                ("grpc.max_receive_message_length", body_bytes_max),
                ("grpc.max_send_message_length", -1),
                # A second server on the port must fail to start, not take half of the calls.
                ("grpc.so_reuseport", 0),
                ("grpc.max_metadata_size", 64 * 1024),
            ],
        )
        handlers = {
            "Invoke": grpc.unary_unary_rpc_method_handler(
                self._invoke, pb.InvokeRequest.FromString, pb.InvokeResponse.SerializeToString
            ),
            "InvokeStream": grpc.unary_stream_rpc_method_handler(
                self._invoke_stream, pb.InvokeRequest.FromString, pb.InvokeStreamResponse.SerializeToString
            ),
            "Health": grpc.unary_unary_rpc_method_handler(self._health, pb.HealthRequest.FromString, pb.HealthResponse.SerializeToString),
            "Manifest": grpc.unary_unary_rpc_method_handler(
                self._manifest, pb.ManifestRequest.FromString, pb.ManifestResponse.SerializeToString
            ),
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))

    async def start(self, host: str, port: int, tls: Optional[Tuple[str, str, Optional[str]]]) -> int:
        """Listens, and returns the port."""
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        bound = self._server.add_secure_port(address, _credentials(*tls)) if tls else self._server.add_insecure_port(address)
        if bound == 0:
            raise OSError(f"{address}: cannot listen there")
        await self._server.start()
        return int(bound)

    async def stop(self) -> None:
        await self._server.stop(1.0)

    async def _invoke(self, request: Any, context: Any) -> Any:
        try:
            answer = await self._deliver(request, context)
        except NodeError as error:
            return pb.InvokeResponse(error=_error(error))
        outputs = [pb.Output(port=port, data_json=text) for port, text in answer.packets()]
        return pb.InvokeResponse(outputs=outputs, replayed=answer.replayed)

    async def _invoke_stream(self, request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            answer = await self._deliver(request, context)
        except NodeError as error:
            yield pb.InvokeStreamResponse(error=_error(error))
            return
        for port, text in answer.packets():
            yield pb.InvokeStreamResponse(output=pb.Output(port=port, data_json=text))
        yield pb.InvokeStreamResponse(done=pb.Done(replayed=answer.replayed))

    async def _deliver(self, request: Any, context: Any) -> Answer:
        """Raises NodeError for what is an answer; ends the call with a status for what the node did not decide."""
        received_at = time.monotonic()
        await self._authorise(context)
        try:
            self._service.node(request.operation_id)
        except UnknownNode as error:
            await context.abort(grpc.StatusCode.NOT_FOUND, error.message)
            raise
        slot = self._service.gate.enter()
        try:
            return await self._service.invoke(_invocation(request, context.time_remaining(), received_at), slot)
        except BadRequest as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, error.message)
            raise
        finally:
            slot.release()

    async def _authorise(self, context: Any) -> None:
        given = dict(context.invocation_metadata() or ()).get("authorization")
        if not self._service.authorised(given if isinstance(given, str) else None):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the token is missing or wrong; send the metadata authorization: Bearer <token>")

    async def _health(self, _request: Any, _context: Any) -> Any:
        facts = self._service.health()
        status = pb.HealthResponse.SERVING if facts["status"] == "serving" else pb.HealthResponse.STOPPING
        return pb.HealthResponse(status=status, in_flight=facts["inFlight"], concurrency=facts["concurrency"])

    async def _manifest(self, _request: Any, context: Any) -> Any:
        await self._authorise(context)
        facts = self._service.manifest()
        names = {"operationId": "operation_id"}
        nodes = [pb.ManifestNode(**{names.get(name, name): value for name, value in node.items()}) for node in facts["nodes"]]
        sdk = facts["sdk"]
        return pb.ManifestResponse(protocol=facts["protocol"], sdk_language=sdk["language"], sdk_version=sdk["version"], nodes=nodes)


def _invocation(request: Any, remaining_seconds: Optional[float], received_at: float) -> Invocation:
    try:
        inputs = {port: json_text.decode(text) for port, text in request.inputs_json.items()}
        settings = json_text.decode(request.settings_json) if request.settings_json else {}
    except ValueError as error:
        raise BadRequest(f"a packet or the settings are not JSON: {error}") from None
    body: Dict[str, Any] = {
        "flowId": request.flow_id,
        "executionId": request.execution_id,
        "nodeId": request.node_id,
        "packetId": request.packet_id,
        "attempt": request.attempt,
        "deadlineMs": None if remaining_seconds is None else max(1, int(remaining_seconds * 1000)),
        "traceHeaders": dict(request.trace_headers),
        "settings": settings,
        "inputs": inputs,
    }
    if request.HasField("idempotency_key"):
        body["idempotencyKey"] = request.idempotency_key
    return read_invocation(request.operation_id, body, received_at)


def _error(error: NodeError) -> Any:
    # Half of a surrogate pair has no UTF-8 form, and protobuf refuses it.
    message = error.message.encode("utf-8", "replace").decode()
    return pb.NodeError(code=error.code, message=message, retry_after_ms=error.retry_after_ms or 0)


def _credentials(certificate: str, key: str, tls_client_ca: Optional[str]) -> Any:
    with open(certificate, "rb") as chain, open(key, "rb") as private:
        pair = (private.read(), chain.read())
    if tls_client_ca is None:
        return grpc.ssl_server_credentials([pair])
    with open(tls_client_ca, "rb") as authority:
        return grpc.ssl_server_credentials([pair], root_certificates=authority.read(), require_client_auth=True)
