package flowdsl

import (
	"context"
	"fmt"
	"sort"
	"strings"
)

// NodeContext has the facts about one call of a node.
type NodeContext struct {
	FlowID string
	// ExecutionID is empty for a direct call without an execution.
	ExecutionID string
	NodeID      string
	// PacketID is the same at every attempt to deliver the packet.
	PacketID string
	// IdempotencyKey is the edge's key for this packet: pass it to providers. Empty if the edge has none.
	IdempotencyKey string
	// Attempt is the number of the delivery attempt, from 1.
	Attempt int
	// TraceHeaders is the W3C trace context of the trigger: traceparent and tracestate.
	TraceHeaders map[string]string
}

// NodeInput is the input of a node: one packet for each filled input port.
type NodeInput struct {
	packets  map[string]Packet
	context  NodeContext
	settings map[string]any
}

// Packet returns the packet at a port. It returns an INPUT_MISSING error if the port has none.
func (in NodeInput) Packet(port string) (Packet, error) {
	if packet, ok := in.packets[port]; ok {
		return packet, nil
	}
	filled := "none"
	if ports := in.Ports(); len(ports) > 0 {
		filled = `"` + strings.Join(ports, `", "`) + `"`
	}
	return Packet{}, NewNodeError(ErrCodeInputMissing, fmt.Sprintf("no packet at port %q; ports with a packet: %s", port, filled), nil)
}

// Has reports whether a port has a packet.
func (in NodeInput) Has(port string) bool {
	_, ok := in.packets[port]
	return ok
}

// Decode stores the packet at a port in the value that target points to. It returns an INPUT_MISSING error if the port has none, and a
// VALIDATION error if the packet does not fit.
func (in NodeInput) Decode(port string, target any) error {
	packet, err := in.Packet(port)
	if err != nil {
		return err
	}
	return packet.Decode(target)
}

// Ports returns the names of the ports that have a packet, sorted.
func (in NodeInput) Ports() []string {
	ports := make([]string, 0, len(in.packets))
	for port := range in.packets {
		ports = append(ports, port)
	}
	sort.Strings(ports)
	return ports
}

// Context returns the facts about this call.
func (in NodeInput) Context() NodeContext { return in.context }

// Settings returns the `settings` of the node in the document. Do not change the map.
func (in NodeInput) Settings() map[string]any { return in.settings }

type contextKey struct{}

// ContextOf returns the NodeContext of the call that ctx belongs to. Use it where a function has the context of a call and not its
// input: to pass trace headers on, for instance.
func ContextOf(ctx context.Context) (NodeContext, bool) {
	facts, ok := ctx.Value(contextKey{}).(NodeContext)
	return facts, ok
}

// MockOption changes the input that MockNodeInput returns.
type MockOption func(*NodeInput)

// MockNodeInput returns an input for a test: one packet at a port.
func MockNodeInput(port string, packet Packet, options ...MockOption) NodeInput {
	input := NodeInput{
		packets:  map[string]Packet{port: packet},
		context:  NodeContext{FlowID: "test_flow", ExecutionID: "x-1", NodeID: "node", PacketID: "p-1", Attempt: 1, TraceHeaders: map[string]string{}},
		settings: map[string]any{},
	}
	for _, option := range options {
		option(&input)
	}
	return input
}

// WithIdempotencyKey sets the key that the edge's template would make of the packet.
func WithIdempotencyKey(key string) MockOption {
	return func(input *NodeInput) { input.context.IdempotencyKey = key }
}

// WithPacket adds a packet at another port.
func WithPacket(port string, packet Packet) MockOption {
	return func(input *NodeInput) { input.packets[port] = packet }
}

// WithSettings sets the settings of the node.
func WithSettings(settings map[string]any) MockOption {
	return func(input *NodeInput) { input.settings = settings }
}

// WithContext changes the facts of the call: WithContext(func(facts *flowdsl.NodeContext) { facts.Attempt = 2 }).
func WithContext(change func(*NodeContext)) MockOption {
	return func(input *NodeInput) { change(&input.context) }
}
