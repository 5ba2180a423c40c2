// The program conformance is a node server over HTTP or gRPC for the conformance suite (test/nodes).
package main

import (
	flowdsl "github.com/onceflow/onceflow/sdk/go"
	"github.com/onceflow/onceflow/sdk/go/grpcnode"
	"github.com/onceflow/onceflow/sdk/go/internal/conformance/program"
)

func main() {
	program.Main(map[string]program.Serve{"http": flowdsl.Serve, "grpc": grpcnode.Serve})
}
