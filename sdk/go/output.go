package flowdsl

import (
	"encoding/json"

	"github.com/onceflow/onceflow/sdk/go/internal/strictjson"
)

// Output is a packet that a node sent.
type Output struct {
	Port string `json:"port"`
	// Data is a JSON object.
	Data json.RawMessage `json:"data"`
}

// NodeOutput is the output of a node: any number of packets, sent to any of its output ports, in order.
// The zero value has no packets. A NodeOutput is never changed: Send returns a new one.
type NodeOutput struct {
	// A list from the last packet to the first: Send takes constant time, and two outputs made from the same one do not share memory
	// that is written to.
	last *sent
}

type sent struct {
	output Output
	err    *NodeError
	before *sent
	count  int
}

// Send returns the output with one more packet. Data is anything that encodes to a JSON object: a map, a struct, a Packet, a
// json.RawMessage. It is encoded at once, so that later changes of the map do not matter. Data that is not an object fails the
// delivery with VALIDATION when the node returns the output; Err returns that error before.
func (o NodeOutput) Send(port string, data any) NodeOutput {
	next := &sent{output: Output{Port: port}, before: o.last, count: 1}
	if o.last != nil {
		next.count += o.last.count
		next.err = o.last.err
	}
	text, err := packetText(port, data)
	next.output.Data = text
	if next.err == nil {
		next.err = err
	}
	return NodeOutput{last: next}
}

func packetText(port string, data any) (json.RawMessage, *NodeError) {
	if port == "" {
		return nil, invalid("a packet was sent to a port without a name")
	}
	text, err := strictjson.Text(data)
	if err != nil {
		return nil, invalid("the packet for port %q cannot be written as JSON: %v", port, err)
	}
	if len(text) == 0 || text[0] != '{' {
		return nil, invalid("the packet for port %q is not a JSON object", port)
	}
	return text, nil
}

// Err returns the error of the first packet that cannot be sent, or nil.
func (o NodeOutput) Err() error {
	if o.last == nil || o.last.err == nil {
		return nil
	}
	return o.last.err
}

// Sent returns the packets in the order in which they were sent.
func (o NodeOutput) Sent() []Output {
	if o.last == nil {
		return []Output{}
	}
	outputs := make([]Output, o.last.count)
	for one := o.last; one != nil; one = one.before {
		outputs[one.count-1] = one.output
	}
	return outputs
}

// Packets returns the packets that were sent to a port, decoded: for tests.
func (o NodeOutput) Packets(port string) []Packet {
	packets := []Packet{}
	for _, output := range o.Sent() {
		if output.Port != port {
			continue
		}
		if packet, err := PacketFromJSON(output.Data); err == nil {
			packets = append(packets, packet)
		}
	}
	return packets
}

func outputFrom(outputs []Output) NodeOutput {
	result := NodeOutput{}
	for _, output := range outputs {
		result = result.Send(output.Port, output.Data)
	}
	return result
}
