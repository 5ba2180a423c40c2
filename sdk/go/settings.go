package flowdsl

import (
	"context"
	"sync"

	"github.com/onceflow/onceflow/sdk/go/internal/strictjson"
)

// served is a node of a server. It calls Init of the node when the settings change, and never while Handle runs:
//
//	new ── enter ──▶ initialising ── Init returns ──▶ ready ── enter with other settings, after the last leave ──▶ initialising
type served struct {
	node Node

	mu           sync.Mutex
	initialising bool
	ready        bool
	settings     string
	running      int
	// changeWaiters blocks calls with the present settings, so that a call with new ones gets its turn on a busy node.
	changeWaiters int
	changed       chan struct{}
}

func newServed(node Node) *served { return &served{node: node, changed: make(chan struct{})} }

// enter waits until the node has these settings. leave must follow if it returns nil.
func (s *served) enter(ctx context.Context, settings map[string]any) error {
	initializer, ok := s.node.(Initializer)
	if !ok {
		return nil
	}
	text, err := strictjson.Text(settings)
	if err != nil {
		return invalid("the settings cannot be written as JSON: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		same := s.ready && s.settings == string(text)
		switch {
		case !s.initialising && same && s.changeWaiters == 0:
			s.running++
			return nil
		case !s.initialising && !same && s.running == 0:
			if err := s.init(ctx, initializer, settings, string(text)); err != nil {
				return err
			}
			s.running++
			return nil
		}
		if err := s.wait(ctx, !same); err != nil {
			return err
		}
	}
}

func (s *served) leave() {
	if _, ok := s.node.(Initializer); !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.broadcast()
}

func (s *served) init(ctx context.Context, node Initializer, settings map[string]any, text string) error {
	s.initialising = true
	s.mu.Unlock()
	initialised := false
	// Deferred, because Init may panic.
	defer func() {
		s.mu.Lock()
		s.initialising = false
		s.ready = initialised
		s.settings = text
		s.broadcast()
	}()
	if err := node.Init(ctx, settings); err != nil {
		return err
	}
	initialised = true
	return nil
}

func (s *served) wait(ctx context.Context, forChange bool) error {
	changed := s.changed
	if forChange {
		s.changeWaiters++
	}
	s.mu.Unlock()
	var err error
	select {
	case <-changed:
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.mu.Lock()
	if forChange {
		if s.changeWaiters--; s.changeWaiters == 0 {
			s.broadcast()
		}
	}
	return err
}

func (s *served) broadcast() {
	close(s.changed)
	s.changed = make(chan struct{})
}
