package flowdsl

import (
	"math"
	"time"

	"github.com/onceflow/onceflow/sdk/go/internal/strictjson"
)

// parseInvocation reads the body of an invocation. Unknown members are ignored, so that a newer runtime can call this server.
func parseInvocation(operationID string, text []byte) (Invocation, *Failure) {
	members, err := strictjson.Object(text)
	if err != nil {
		return Invocation{}, Malformed("the body %v", err)
	}
	body := requestBody{members: members}
	call := Invocation{
		OperationID: operationID,
		Context: NodeContext{
			FlowID:         body.text("flowId"),
			ExecutionID:    body.optionalText("executionId"),
			NodeID:         body.text("nodeId"),
			PacketID:       body.optionalText("packetId"),
			IdempotencyKey: body.optionalText("idempotencyKey"),
			Attempt:        body.attempt(),
			TraceHeaders:   body.traceHeaders(),
		},
		Deadline: body.deadline(),
		Settings: body.object("settings"),
		Inputs:   body.inputs(),
	}
	if body.failure != nil {
		return Invocation{}, body.failure
	}
	if failure := CheckInvocation(call, members["idempotencyKey"] != nil); failure != nil {
		return Invocation{}, failure
	}
	return call, nil
}

// CheckInvocation checks what every transport checks. keyed is true if the request has a key.
func CheckInvocation(call Invocation, keyed bool) *Failure {
	switch {
	case call.Context.FlowID == "" || call.Context.NodeID == "":
		return Malformed("flowId and nodeId must not be empty")
	case keyed && call.Context.IdempotencyKey == "":
		return Malformed("idempotencyKey must not be empty; leave it out if the edge has none")
	case len(call.Inputs) == 0:
		return Malformed("inputs must have a packet for at least one port")
	}
	return nil
}

// requestBody reads members of a body and keeps the first problem.
type requestBody struct {
	members map[string]any
	failure *Failure
}

func (b *requestBody) problem(format string, values ...any) {
	if b.failure == nil {
		b.failure = Malformed(format, values...)
	}
}

func (b *requestBody) text(name string) string {
	if b.members[name] == nil {
		b.problem("%s is missing; it must be text", name)
	}
	return b.optionalText(name)
}

func (b *requestBody) optionalText(name string) string {
	value := b.members[name]
	text, ok := value.(string)
	if value != nil && !ok {
		b.problem("%s is %s; it must be text", name, typeName(value))
	}
	return text
}

func (b *requestBody) object(name string) map[string]any {
	value := b.members[name]
	object, ok := value.(map[string]any)
	if value != nil && !ok {
		b.problem("%s is %s; it must be an object", name, typeName(value))
	}
	if object == nil {
		return map[string]any{}
	}
	return object
}

func (b *requestBody) attempt() int {
	if b.members["attempt"] == nil {
		return 1
	}
	return int(b.count("attempt", math.MaxInt32))
}

func (b *requestBody) deadline() time.Duration {
	const msMax = int64(math.MaxInt64 / time.Millisecond)
	if b.members["deadlineMs"] == nil {
		return 0
	}
	return time.Duration(b.count("deadlineMs", msMax)) * time.Millisecond
}

// count returns a whole number from 1.
func (b *requestBody) count(name string, largest int64) int64 {
	count, ok := toInt(b.members[name])
	if !ok || count < 1 || count > largest {
		b.problem("%s must be a whole number from 1", name)
	}
	return count
}

func (b *requestBody) traceHeaders() map[string]string {
	headers := map[string]string{}
	for name, value := range b.object("traceHeaders") {
		text, ok := value.(string)
		if !ok {
			b.problem("traceHeaders.%s is %s; it must be text", name, typeName(value))
		}
		headers[name] = text
	}
	return headers
}

func (b *requestBody) inputs() map[string]Packet {
	packets := map[string]Packet{}
	for port, value := range b.object("inputs") {
		data, ok := value.(map[string]any)
		if !ok {
			b.problem("the packet of input %q must be an object", port)
		}
		packets[port] = NewPacket(data)
	}
	return packets
}
