package flowdsl

import "context"

// Node has the logic of one operation.
type Node interface {
	// OperationID is the operationId of the node in the document.
	OperationID() string
	// Handle handles one delivery. Its context ends at the deadline of the delivery. It is called by several goroutines at a time.
	Handle(ctx context.Context, input NodeInput) (NodeOutput, error)
}

// Initializer is a node that wants the settings of the document before its first delivery.
type Initializer interface {
	Node
	// Init is called before the first delivery, and again before the first delivery with other settings. Handle of the node does not
	// run at the same time. After an error the delivery fails as if Handle had returned the error, and the next one calls Init again.
	Init(ctx context.Context, settings map[string]any) error
}

// Description has what a manifest tells about a node. All fields are optional.
type Description struct {
	Version string
	Summary string
	// Inputs and Outputs are names of ports. The runtime compares them with the document.
	Inputs  []string
	Outputs []string
}

// Describer is a node that describes itself in the manifest.
type Describer interface {
	Node
	Describe() Description
}

// HandlerFunc is the type of Handle.
type HandlerFunc func(ctx context.Context, input NodeInput) (NodeOutput, error)

// NodeFunc returns a node with this operationId that calls handle. The manifest has the description, if one is given.
func NodeFunc(operationID string, handle HandlerFunc, about ...Description) Node {
	node := &funcNode{operationID: operationID, handle: handle}
	if len(about) > 0 {
		node.about = about[0]
	}
	return node
}

type funcNode struct {
	operationID string
	handle      HandlerFunc
	about       Description
}

func (n *funcNode) Describe() Description { return n.about }

func (n *funcNode) OperationID() string { return n.operationID }

func (n *funcNode) Handle(ctx context.Context, input NodeInput) (NodeOutput, error) {
	return n.handle(ctx, input)
}
