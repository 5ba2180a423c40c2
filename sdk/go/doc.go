// Package flowdsl is the Go SDK for nodes of Onceflow graphs.
//
// A node handles one delivery at a time: it reads packets from its input ports, has its effect, and sends packets to its output
// ports. [Serve] serves nodes over HTTP to a runtime in another process; the module grpcnode serves them over gRPC.
//
// A delivery with an idempotency key reaches the node once, as long as the dedupe store has its answer: a second invocation with
// the key returns the kept answer, or waits for the invocation that runs. If the process dies after the effect and before the store
// has the answer, the next invocation calls the node again. Pass the key to the provider to close that window.
package flowdsl

// Version is the version of this SDK. A manifest carries it.
const Version = "0.1.0"

// Protocol is the name of the protocol between a runtime and a node server.
const Protocol = "flowdsl.node.v1"
