package flowdsl

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// flight is one call of a node, and every invocation that waits for it.
type flight struct {
	key         DedupeKey
	keyed       bool
	fingerprint string
	done        chan struct{}
	// Set before done is closed.
	answer  Answer
	failure *Failure
}

// flights has the running flights by key, so that a second invocation with a key does not call the node while the first one runs.
type flights struct {
	mu    sync.Mutex
	byKey map[DedupeKey]*flight
}

// join returns the flight of the invocation's key, or a new one; first is true for a new one.
func (f *flights) join(call Invocation) (current *flight, first bool, failure *Failure) {
	current = &flight{done: make(chan struct{})}
	if call.Context.IdempotencyKey == "" {
		return current, true, nil
	}
	fingerprint, err := fingerprintOf(call.Inputs)
	if err != nil {
		return nil, false, Malformed("%v", err)
	}
	current.keyed, current.fingerprint = true, fingerprint
	current.key = DedupeKey{FlowID: call.Context.FlowID, NodeID: call.Context.NodeID, IdempotencyKey: call.Context.IdempotencyKey}
	f.mu.Lock()
	defer f.mu.Unlock()
	running, ok := f.byKey[current.key]
	if !ok {
		f.byKey[current.key] = current
		return current, true, nil
	}
	if running.fingerprint != fingerprint {
		return nil, false, mismatch(call.Context.IdempotencyKey)
	}
	return running, false, nil
}

// end wakes the waiting invocations. The answer was saved before: an invocation that comes after end finds it in the store.
func (f *flights) end(current *flight) {
	if current.keyed {
		f.mu.Lock()
		delete(f.byKey, current.key)
		f.mu.Unlock()
	}
	close(current.done)
}

// fly runs a flight to its end:
//
//	load ── kept ──▶ replay
//	     ── none ──▶ settings ──▶ call ──▶ save ──▶ answer
//
// The unknown window is between the node's effect and the end of save: if the process dies there, the next invocation calls the node.
func (v *Invoker) fly(node *served, call Invocation, current *flight) {
	defer v.flights.end(current)
	// Also if a store or Goexit ends this goroutine early.
	current.failure = &Failure{Code: ErrCodeTemporary, Message: "the invocation ended without a result; see the server's log", Reason: ReasonException}
	defer v.recovered(call, current)

	ctx, cancel := context.WithTimeout(context.WithValue(v.context, contextKey{}, call.Context), call.Deadline)
	defer cancel()
	if current.keyed {
		kept, ok, err := v.options.Dedupe.Load(ctx, current.key)
		switch {
		case err != nil:
			v.log(call).Error("the dedupe store cannot be read; the node was not called", "error", err)
			current.failure = &Failure{Code: ErrCodeTemporary, Message: "the dedupe store cannot be read; the node was not called", Reason: ReasonException}
			return
		case ok && kept.Fingerprint != current.fingerprint:
			current.failure = mismatch(current.key.IdempotencyKey)
			return
		case ok:
			current.answer, current.failure = Answer{Outputs: kept.Outputs, Replayed: true}, nil
			return
		}
	}
	outputs, err := v.call(ctx, node, call)
	if err != nil {
		current.failure = failureOf(ctx, err)
		v.log(call).Warn("the node failed", "code", current.failure.Code, "error", err)
		return
	}
	if current.keyed {
		v.save(call, current, outputs)
	}
	current.answer, current.failure = Answer{Outputs: outputs}, nil
}

func (v *Invoker) call(ctx context.Context, node *served, call Invocation) ([]Output, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := node.enter(ctx, call.Settings); err != nil {
		return nil, err
	}
	defer node.leave()
	output, err := node.node.Handle(ctx, NodeInput{packets: call.Inputs, context: call.Context, settings: call.Settings})
	if err != nil {
		return nil, err
	}
	return output.Sent(), output.Err()
}

const saveTimeout = 30 * time.Second

// save keeps the answer. The deadline does not count here: the effect happened, and the answer must be kept even if it is late.
// A store that fails does not fail the delivery: a failure would make the runtime repeat an effect that happened.
func (v *Invoker) save(call Invocation, current *flight, outputs []Output) {
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	defer func() {
		if panicked := recover(); panicked != nil {
			v.notKept(call, fmt.Errorf("the dedupe store panicked: %v", panicked))
		}
	}()
	answer := KeptAnswer{Fingerprint: current.fingerprint, Outputs: outputs, SavedAt: time.Now()}
	if err := v.options.Dedupe.Save(ctx, current.key, answer); err != nil {
		v.notKept(call, err)
	}
}

func (v *Invoker) notKept(call Invocation, err error) {
	v.log(call).Error("the answer is not kept: if it is lost, the next invocation with the key calls the node again", "error", err)
}

// recovered makes a failure of a panic. The stack goes to the log, not to the runtime.
func (v *Invoker) recovered(call Invocation, current *flight) {
	panicked := recover()
	if panicked == nil {
		return
	}
	v.log(call).Error("the node panicked", "panic", fmt.Sprint(panicked), "stack", string(debug.Stack()))
	current.failure = &Failure{Code: ErrCodeTemporary, Message: "the node panicked; see the server's log", Reason: ReasonException}
}
