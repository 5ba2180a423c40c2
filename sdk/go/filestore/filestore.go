// Package filestore keeps the answers of a node server in a file.
//
// The file is a log: a header, then one line for each write, with the checksum of the line. A write is synced before the answer leaves
// the server, and writes that wait for the disk at the same time share one sync. Open cuts off the last line if a crash left it
// incomplete; that answer had not left the server. When more than half of a file is out of date, it is written anew beside the old one,
// synced and renamed.
//
// One process at a time can open a file.
package filestore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	flowdsl "github.com/onceflow/onceflow/sdk/go"
)

// Options of a store. The zero value has the defaults.
type Options struct {
	flowdsl.KeepLimits
	// Logger gets a message when Open cuts off an incomplete line, and when a compaction fails. Default slog.Default().
	Logger *slog.Logger
}

// Store keeps answers in a file. It implements flowdsl.DedupeStore.
type Store struct {
	path   string
	limits flowdsl.KeepLimits
	logger *slog.Logger
	now    func() time.Time
	// fault lets tests fail or kill at a named point.
	fault func(point string) error
	lock  *os.File

	// writing is held by the goroutine that writes to the file. It is locked before mu.
	writing sync.Mutex

	mu      sync.Mutex
	file    *os.File
	index   index
	waiting []*change
	closed  bool
	// synced is the length of the file that is known to be on disk; failing is set after a write or sync that failed behind it.
	synced  int64
	failing error
	// renamed is set while a compacted file has its name, but the folder is not synced.
	renamed bool
	// compactAt is the length at which the next compaction is considered.
	compactAt int64
}

const defaultBytesMax = 4 << 30

// Open opens or creates a store. It returns an error if another process has the file open, or if the file is damaged anywhere but in
// its last line.
func Open(path string, options Options) (*Store, error) {
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("filestore: %s: %w", path, err)
	}
	store := &Store{
		path:   path,
		limits: options.KeepLimits.WithDefaults(defaultBytesMax),
		logger: options.Logger,
		now:    time.Now,
		fault:  func(string) error { return nil },
		lock:   lock,
		index:  newIndex(),
	}
	if err := store.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("filestore: %s: %w", path, err), lock.Close())
	}
	return store, nil
}

// Close closes the file and lets another process open it.
func (s *Store) Close() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return errors.Join(s.file.Close(), s.lock.Close())
}

var errClosed = errors.New("filestore: the store is closed")

// Load implements flowdsl.DedupeStore. If the last write failed, it first checks that the file can be written again: a server that
// cannot keep answers must not call nodes.
func (s *Store) Load(_ context.Context, key flowdsl.DedupeKey) (flowdsl.KeptAnswer, bool, error) {
	if err := s.repair(); err != nil {
		return flowdsl.KeptAnswer{}, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return flowdsl.KeptAnswer{}, false, errClosed
	}
	s.index.expire(s.limits, s.now())
	entry, ok := s.index.get(key)
	if !ok {
		return flowdsl.KeptAnswer{}, false, nil
	}
	record, err := readRecord(s.file, entry)
	if err != nil {
		return flowdsl.KeptAnswer{}, false, fmt.Errorf("filestore: %s: the answer at byte %d cannot be read: %w", s.path, entry.offset, err)
	}
	return record.Answer(), true, nil
}

// Save implements flowdsl.DedupeStore: it returns nil when the answer is on disk.
func (s *Store) Save(_ context.Context, key flowdsl.DedupeKey, answer flowdsl.KeptAnswer) error {
	return s.write(recordOf(key, answer))
}

// Forget implements flowdsl.DedupeStore.
func (s *Store) Forget(_ context.Context, key flowdsl.DedupeKey) (bool, error) {
	s.mu.Lock()
	_, ok := s.index.get(key)
	s.mu.Unlock()
	if !ok {
		return false, nil
	}
	return true, s.write(record{Key: key, Forgotten: true})
}

// Len returns the number of answers.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index.expire(s.limits, s.now())
	return s.index.len()
}
