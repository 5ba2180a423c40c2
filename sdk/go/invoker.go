package flowdsl

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"sort"
	"sync"
	"time"
)

// Invocation is a request to call a node.
type Invocation struct {
	OperationID string
	Context     NodeContext
	// Deadline is how long the runtime still waits. 0: it did not say.
	Deadline time.Duration
	Settings map[string]any
	Inputs   map[string]Packet
}

// Answer is the result of an invocation that succeeded.
type Answer struct {
	Outputs []Output
	// Replayed is true if the answer is that of an earlier invocation with the same key.
	Replayed bool
}

// Invoker runs invocations: concurrency limit, dedupe, deadline, settings, the node. It is what the transports share: Serve calls it
// over HTTP, and the module grpcnode over gRPC.
type Invoker struct {
	options Options
	token   [sha256.Size]byte
	nodes   map[string]*served
	flights flights
	// Ends the contexts of all nodes, when the grace period is over.
	context context.Context
	cancel  context.CancelFunc

	mu       sync.Mutex
	inFlight int
	stopping bool
	ended    chan struct{}
}

// NewInvoker returns an invoker for these nodes. It returns an error for an unusable option, a node without an operationId, and two
// nodes with the same one.
func NewInvoker(options Options, nodes ...Node) (*Invoker, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("flowdsl: a node server needs at least one node")
	}
	invoker := &Invoker{
		options: options,
		token:   sha256.Sum256([]byte(options.Token)),
		nodes:   map[string]*served{},
		flights: flights{byKey: map[DedupeKey]*flight{}},
		ended:   make(chan struct{}),
	}
	for _, node := range nodes {
		id := node.OperationID()
		if id == "" {
			return nil, fmt.Errorf("flowdsl: %T has no operationId; return the one that the node has in the document", node)
		}
		if _, taken := invoker.nodes[id]; taken {
			return nil, fmt.Errorf("flowdsl: two nodes have the operationId %q", id)
		}
		invoker.nodes[id] = newServed(node)
	}
	invoker.context, invoker.cancel = context.WithCancel(context.Background())
	return invoker, nil
}

// Options returns the options with their defaults.
func (v *Invoker) Options() Options { return v.options }

// Authorize checks the value of an Authorization header. It takes the same time for every wrong token.
func (v *Invoker) Authorize(header string) *Failure {
	const scheme = "Bearer "
	if v.options.Token == "" {
		return nil
	}
	given := ""
	if len(header) > len(scheme) && header[:len(scheme)] == scheme {
		given = header[len(scheme):]
	}
	// The hashes have one length: a comparison of the texts would show the length of the token.
	hash := sha256.Sum256([]byte(given))
	if subtle.ConstantTimeCompare(hash[:], v.token[:]) == 1 {
		return nil
	}
	return &Failure{Code: ErrCodeTemporary, Message: "the token is missing or wrong; send it as \"Authorization: Bearer <token>\"", Reason: ReasonUnauthorized}
}

// Slot is one of the invocations that the server takes at a time.
type Slot struct {
	invoker *Invoker
	mu      sync.Mutex
	holders int
}

// Admit takes a slot, or says why there is none. Transports admit before they read the body of a request: the limit also bounds memory.
func (v *Invoker) Admit() (*Slot, *Failure) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.stopping {
		return nil, &Failure{Code: ErrCodeTemporary, Message: "the server is stopping", Reason: ReasonStopping}
	}
	if v.inFlight >= v.options.Concurrency {
		message := fmt.Sprintf("the server runs %d invocations, which is its limit", v.inFlight)
		return nil, &Failure{Code: ErrCodeRateLimited, Message: message, RetryAfter: time.Second, Reason: ReasonBusy}
	}
	v.inFlight++
	return &Slot{invoker: v, holders: 1}, nil
}

// Release gives the slot back. A node that goes on after its deadline holds it, too, until it returns.
func (s *Slot) Release() {
	s.mu.Lock()
	s.holders--
	last := s.holders == 0
	s.mu.Unlock()
	if !last {
		return
	}
	v := s.invoker
	v.mu.Lock()
	defer v.mu.Unlock()
	v.inFlight--
	if v.stopping && v.inFlight == 0 {
		close(v.ended)
	}
}

func (s *Slot) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holders++
}

// Invoke runs one invocation. ctx is that of the connection: if it ends, the caller gets no answer, but the node goes on to its
// deadline, because the runtime asks again with the same key.
func (v *Invoker) Invoke(ctx context.Context, slot *Slot, call Invocation) (Answer, *Failure) {
	node, ok := v.nodes[call.OperationID]
	if !ok {
		message := fmt.Sprintf("this server has no node %q; see its manifest", short(call.OperationID, 200))
		return Answer{}, &Failure{Code: ErrCodeTemporary, Message: message, Reason: ReasonUnknownNode}
	}
	if call.Deadline <= 0 || call.Deadline > v.options.InvocationMax {
		call.Deadline = v.options.InvocationMax
	}
	current, first, failure := v.flights.join(call)
	if failure != nil {
		return Answer{}, failure
	}
	if first {
		slot.hold()
		go func() {
			defer slot.Release()
			v.fly(node, call, current)
		}()
	}
	ctx, cancel := context.WithTimeout(ctx, call.Deadline)
	defer cancel()
	select {
	case <-current.done:
		answer := current.answer
		answer.Replayed = answer.Replayed || !first
		return answer, current.failure
	case <-ctx.Done():
		return Answer{}, timedOut(call.Deadline)
	}
}

// Health is the state of a server.
type Health struct {
	Stopping    bool
	InFlight    int
	Concurrency int
}

// Health returns the state of the server.
func (v *Invoker) Health() Health {
	v.mu.Lock()
	defer v.mu.Unlock()
	return Health{Stopping: v.stopping, InFlight: v.inFlight, Concurrency: v.options.Concurrency}
}

// ManifestNode is a node in a manifest.
type ManifestNode struct {
	OperationID string   `json:"operationId"`
	Version     string   `json:"version,omitempty"`
	Summary     string   `json:"summary,omitempty"`
	Inputs      []string `json:"inputs,omitempty"`
	Outputs     []string `json:"outputs,omitempty"`
}

// Manifest returns the nodes of the server, sorted by operationId.
func (v *Invoker) Manifest() []ManifestNode {
	nodes := make([]ManifestNode, 0, len(v.nodes))
	for id, served := range v.nodes {
		one := ManifestNode{OperationID: id}
		if describer, ok := served.node.(Describer); ok {
			about := describer.Describe()
			one.Version, one.Summary, one.Inputs, one.Outputs = about.Version, about.Summary, about.Inputs, about.Outputs
		}
		nodes = append(nodes, one)
	}
	sort.Slice(nodes, func(a, b int) bool { return nodes[a].OperationID < nodes[b].OperationID })
	return nodes
}

// Stop refuses new invocations and waits for the running ones, for Grace at most. Then it ends the contexts of the nodes. It returns
// how many invocations had not ended.
func (v *Invoker) Stop() int {
	v.mu.Lock()
	if !v.stopping {
		v.stopping = true
		if v.inFlight == 0 {
			close(v.ended)
		}
	}
	v.mu.Unlock()
	defer v.cancel()
	timer := time.NewTimer(v.options.Grace)
	defer timer.Stop()
	select {
	case <-v.ended:
	case <-timer.C:
	}
	return v.Health().InFlight
}

func (v *Invoker) log(call Invocation) *slog.Logger {
	return v.options.Logger.With("operationId", call.OperationID, "flowId", call.Context.FlowID, "executionId", call.Context.ExecutionID,
		"nodeId", call.Context.NodeID, "packetId", call.Context.PacketID, "attempt", call.Context.Attempt)
}
