package flowdsl

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"
)

// Deliver calls a node as a runtime does: a second delivery with the same idempotency key returns the output of the first one, and
// does not call the node. Without a key every delivery calls the node. It is for tests.
//
// Answers are kept in memory, for each node by itself. Node must be a pointer; a node that NodeFunc returned is one. Pointers to
// structs without fields may be equal: such nodes share their answers. The error is a *NodeError, with the node's own error as its cause.
func Deliver(ctx context.Context, node Node, input NodeInput) (NodeOutput, error) {
	invoker, err := deliveries.of(node)
	if err != nil {
		return NodeOutput{}, err
	}
	slot, failure := invoker.Admit()
	if failure != nil {
		return NodeOutput{}, NewNodeError(failure.Code, failure.Message, nil)
	}
	defer slot.Release()
	call := Invocation{OperationID: node.OperationID(), Context: input.context, Settings: input.settings, Inputs: input.packets}
	if deadline, ok := ctx.Deadline(); ok {
		call.Deadline = max(time.Until(deadline), 1)
	}
	answer, failure := invoker.Invoke(ctx, slot, call)
	if failure != nil {
		return NodeOutput{}, NewNodeError(failure.Code, failure.Message, failure.Cause).After(failure.RetryAfter)
	}
	return outputFrom(answer.Outputs), nil
}

// deliveries has an invoker for each of the nodes that Deliver was called with last.
var deliveries = deliveryLedgers{byNode: map[Node]*Invoker{}}

const ledgersMax = 1000

type deliveryLedgers struct {
	mu     sync.Mutex
	byNode map[Node]*Invoker
	oldest []Node
}

func (d *deliveryLedgers) of(node Node) (*Invoker, error) {
	if reflect.ValueOf(node).Kind() != reflect.Pointer {
		return nil, errors.New("flowdsl: Deliver needs a pointer to a node: answers are kept for each node by itself")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if invoker, ok := d.byNode[node]; ok {
		return invoker, nil
	}
	invoker, err := NewInvoker(Options{}, node)
	if err != nil {
		return nil, err
	}
	d.byNode[node] = invoker
	if d.oldest = append(d.oldest, node); len(d.oldest) > ledgersMax {
		delete(d.byNode, d.oldest[0])
		d.oldest = d.oldest[1:]
	}
	return invoker, nil
}
