package flowdsl

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// KeepLimits bounds a store of answers. Zero values mean the defaults.
type KeepLimits struct {
	// AnswersMax is the number of answers. Default 100,000.
	AnswersMax int
	// BytesMax is the size of all packets in the answers. Default 256 MiB in memory, 4 GiB in a file.
	BytesMax int64
	// AgeMax is the time for which an answer is kept. Default 24 hours.
	AgeMax time.Duration
}

// WithDefaults fills in the defaults.
func (l KeepLimits) WithDefaults(bytesMax int64) KeepLimits {
	if l.AnswersMax <= 0 {
		l.AnswersMax = 100_000
	}
	if l.BytesMax <= 0 {
		l.BytesMax = bytesMax
	}
	if l.AgeMax <= 0 {
		l.AgeMax = 24 * time.Hour
	}
	return l
}

// MemoryStore keeps answers in memory, as long as the process lives. Beyond a limit it forgets the oldest answer.
type MemoryStore struct {
	limits KeepLimits
	now    func() time.Time

	mu     sync.Mutex
	byKey  map[DedupeKey]*list.Element
	oldest *list.List
	bytes  int64
}

type memoryEntry struct {
	key    DedupeKey
	answer KeptAnswer
	bytes  int64
}

// NewMemoryStore returns an empty store.
func NewMemoryStore(limits KeepLimits) *MemoryStore {
	return &MemoryStore{limits: limits.WithDefaults(256 << 20), now: time.Now, byKey: map[DedupeKey]*list.Element{}, oldest: list.New()}
}

// Load implements DedupeStore.
func (s *MemoryStore) Load(_ context.Context, key DedupeKey) (KeptAnswer, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	element, ok := s.byKey[key]
	if !ok {
		return KeptAnswer{}, false, nil
	}
	return element.Value.(*memoryEntry).answer, true, nil
}

// Save implements DedupeStore.
func (s *MemoryStore) Save(_ context.Context, key DedupeKey, answer KeptAnswer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if element, ok := s.byKey[key]; ok {
		s.remove(element)
	}
	entry := &memoryEntry{key: key, answer: answer, bytes: int64(len(key.FlowID) + len(key.NodeID) + len(key.IdempotencyKey))}
	for _, output := range answer.Outputs {
		entry.bytes += int64(len(output.Port) + len(output.Data))
	}
	s.byKey[key] = s.oldest.PushBack(entry)
	s.bytes += entry.bytes
	s.expire()
	return nil
}

// Forget implements DedupeStore.
func (s *MemoryStore) Forget(_ context.Context, key DedupeKey) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	element, ok := s.byKey[key]
	if ok {
		s.remove(element)
	}
	return ok, nil
}

// Len returns the number of answers.
func (s *MemoryStore) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	return len(s.byKey)
}

func (s *MemoryStore) expire() {
	before := s.now().Add(-s.limits.AgeMax)
	for first := s.oldest.Front(); first != nil; first = s.oldest.Front() {
		tooMany := len(s.byKey) > s.limits.AnswersMax || s.bytes > s.limits.BytesMax
		if !tooMany && first.Value.(*memoryEntry).answer.SavedAt.After(before) {
			return
		}
		s.remove(first)
	}
}

func (s *MemoryStore) remove(element *list.Element) {
	entry := s.oldest.Remove(element).(*memoryEntry)
	delete(s.byKey, entry.key)
	s.bytes -= entry.bytes
}
