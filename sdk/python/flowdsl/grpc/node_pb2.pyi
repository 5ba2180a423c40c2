from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class InvokeRequest(_message.Message):
    __slots__ = ("operation_id", "flow_id", "execution_id", "node_id", "packet_id", "idempotency_key", "attempt", "trace_headers", "settings_json", "inputs_json")
    class TraceHeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class InputsJsonEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    FLOW_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    PACKET_ID_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TRACE_HEADERS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_JSON_FIELD_NUMBER: _ClassVar[int]
    INPUTS_JSON_FIELD_NUMBER: _ClassVar[int]
    operation_id: str
    flow_id: str
    execution_id: str
    node_id: str
    packet_id: str
    idempotency_key: str
    attempt: int
    trace_headers: _containers.ScalarMap[str, str]
    settings_json: bytes
    inputs_json: _containers.ScalarMap[str, bytes]
    def __init__(self, operation_id: _Optional[str] = ..., flow_id: _Optional[str] = ..., execution_id: _Optional[str] = ..., node_id: _Optional[str] = ..., packet_id: _Optional[str] = ..., idempotency_key: _Optional[str] = ..., attempt: _Optional[int] = ..., trace_headers: _Optional[_Mapping[str, str]] = ..., settings_json: _Optional[bytes] = ..., inputs_json: _Optional[_Mapping[str, bytes]] = ...) -> None: ...

class InvokeResponse(_message.Message):
    __slots__ = ("outputs", "replayed", "error")
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    outputs: _containers.RepeatedCompositeFieldContainer[Output]
    replayed: bool
    error: NodeError
    def __init__(self, outputs: _Optional[_Iterable[_Union[Output, _Mapping]]] = ..., replayed: bool = ..., error: _Optional[_Union[NodeError, _Mapping]] = ...) -> None: ...

class InvokeStreamResponse(_message.Message):
    __slots__ = ("output", "done", "error")
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    output: Output
    done: Done
    error: NodeError
    def __init__(self, output: _Optional[_Union[Output, _Mapping]] = ..., done: _Optional[_Union[Done, _Mapping]] = ..., error: _Optional[_Union[NodeError, _Mapping]] = ...) -> None: ...

class Done(_message.Message):
    __slots__ = ("replayed",)
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    replayed: bool
    def __init__(self, replayed: bool = ...) -> None: ...

class Output(_message.Message):
    __slots__ = ("port", "data_json")
    PORT_FIELD_NUMBER: _ClassVar[int]
    DATA_JSON_FIELD_NUMBER: _ClassVar[int]
    port: str
    data_json: bytes
    def __init__(self, port: _Optional[str] = ..., data_json: _Optional[bytes] = ...) -> None: ...

class NodeError(_message.Message):
    __slots__ = ("code", "message", "retry_after_ms")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    retry_after_ms: int
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., retry_after_ms: _Optional[int] = ...) -> None: ...

class HealthRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class HealthResponse(_message.Message):
    __slots__ = ("status", "in_flight", "concurrency")
    class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATUS_UNSPECIFIED: _ClassVar[HealthResponse.Status]
        SERVING: _ClassVar[HealthResponse.Status]
        STOPPING: _ClassVar[HealthResponse.Status]
    STATUS_UNSPECIFIED: HealthResponse.Status
    SERVING: HealthResponse.Status
    STOPPING: HealthResponse.Status
    STATUS_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    status: HealthResponse.Status
    in_flight: int
    concurrency: int
    def __init__(self, status: _Optional[_Union[HealthResponse.Status, str]] = ..., in_flight: _Optional[int] = ..., concurrency: _Optional[int] = ...) -> None: ...

class ManifestRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ManifestResponse(_message.Message):
    __slots__ = ("protocol", "sdk_language", "sdk_version", "nodes")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    SDK_LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    SDK_VERSION_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    protocol: str
    sdk_language: str
    sdk_version: str
    nodes: _containers.RepeatedCompositeFieldContainer[ManifestNode]
    def __init__(self, protocol: _Optional[str] = ..., sdk_language: _Optional[str] = ..., sdk_version: _Optional[str] = ..., nodes: _Optional[_Iterable[_Union[ManifestNode, _Mapping]]] = ...) -> None: ...

class ManifestNode(_message.Message):
    __slots__ = ("operation_id", "version", "summary", "inputs", "outputs")
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    operation_id: str
    version: str
    summary: str
    inputs: _containers.RepeatedScalarFieldContainer[str]
    outputs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, operation_id: _Optional[str] = ..., version: _Optional[str] = ..., summary: _Optional[str] = ..., inputs: _Optional[_Iterable[str]] = ..., outputs: _Optional[_Iterable[str]] = ...) -> None: ...
