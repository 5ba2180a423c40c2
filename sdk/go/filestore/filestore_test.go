package filestore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	flowdsl "github.com/onceflow/onceflow/sdk/go"
)

var ctx = context.Background()

func quiet(limits flowdsl.KeepLimits) Options {
	return Options{KeepLimits: limits, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

func open(t *testing.T, path string, options ...Options) *Store {
	t.Helper()
	store, err := Open(path, append(options, quiet(flowdsl.KeepLimits{}))[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func newPath(t *testing.T) string { return filepath.Join(t.TempDir(), "answers") }

func keyOf(i int) flowdsl.DedupeKey {
	return flowdsl.DedupeKey{FlowID: "f", NodeID: "N", IdempotencyKey: fmt.Sprintf("key-%d", i)}
}

func answerOf(text string) flowdsl.KeptAnswer {
	data, _ := json.Marshal(map[string]string{"text": text})
	return flowdsl.KeptAnswer{Fingerprint: "print", Outputs: []flowdsl.Output{{Port: "out", Data: data}}, SavedAt: time.Now()}
}

func save(t *testing.T, store *Store, i int, text string) {
	t.Helper()
	if err := store.Save(ctx, keyOf(i), answerOf(text)); err != nil {
		t.Fatal(err)
	}
}

// kept returns the text of an answer, or "none".
func kept(t *testing.T, store *Store, i int) string {
	t.Helper()
	answer, ok, err := store.Load(ctx, keyOf(i))
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return "none"
	}
	var data struct{ Text string }
	if err := json.Unmarshal(answer.Outputs[0].Data, &data); err != nil || answer.Fingerprint != "print" {
		t.Fatal(err, answer)
	}
	return data.Text
}

func want(t *testing.T, what, got, wanted string) {
	t.Helper()
	if got != wanted {
		t.Errorf("%s: got %q, want %q", what, got, wanted)
	}
}

func TestKeepsAnswersAcrossRestarts(t *testing.T) {
	path := newPath(t)
	store := open(t, path)
	save(t, store, 1, "one\n<ü>")
	save(t, store, 2, "two")
	save(t, store, 2, "two again")
	save(t, store, 3, "three")
	if found, err := store.Forget(ctx, keyOf(3)); !found || err != nil {
		t.Fatal(found, err)
	}
	if found, err := store.Forget(ctx, keyOf(9)); found || err != nil {
		t.Fatal(found, err)
	}
	for range 2 {
		want(t, "1", kept(t, store, 1), "one\n<ü>")
		want(t, "2", kept(t, store, 2), "two again")
		want(t, "3", kept(t, store, 3), "none")
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		if err := store.Save(ctx, keyOf(4), answerOf("x")); !errors.Is(err, errClosed) {
			t.Fatal(err)
		}
		store = open(t, path)
	}
}

func TestSecondOpenIsRefused(t *testing.T) {
	path := newPath(t)
	store := open(t, path)
	if _, err := Open(path, quiet(flowdsl.KeepLimits{})); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Fatal(err)
	}
	_ = store.Close()
	open(t, path)
}

// Every byte at which a crash can leave the last write: the answers before it are there, the file can be used, and nothing is invented.
func TestLastWriteCutAtEveryByte(t *testing.T) {
	path := newPath(t)
	store := open(t, path)
	save(t, store, 1, "one")
	whole := fileOf(t, path)
	save(t, store, 2, "two")
	_ = store.Close()
	longer := fileOf(t, path)
	for length := 0; length <= len(longer); length++ {
		cut := newPath(t)
		if err := os.WriteFile(cut, longer[:length], 0o600); err != nil {
			t.Fatal(err)
		}
		store, err := Open(cut, quiet(flowdsl.KeepLimits{}))
		if err != nil {
			t.Fatalf("length %d: %v", length, err)
		}
		first, second := "one", "none"
		if length < len(whole) {
			first = "none"
		}
		if length == len(longer) {
			second = "two"
		}
		want(t, fmt.Sprintf("length %d, first", length), kept(t, store, 1), first)
		want(t, fmt.Sprintf("length %d, second", length), kept(t, store, 2), second)
		save(t, store, 3, "three")
		_ = store.Close()
		store = open(t, cut)
		want(t, fmt.Sprintf("length %d, after a restart", length), kept(t, store, 1)+kept(t, store, 2)+kept(t, store, 3), first+second+"three")
		_ = store.Close()
	}
}

// A power failure can leave zeros or other bytes within the last write. Damage before the last write is never cut off.
func TestDamagedBytes(t *testing.T) {
	path := newPath(t)
	store := open(t, path)
	save(t, store, 1, "one")
	before := len(fileOf(t, path))
	save(t, store, 2, "two")
	_ = store.Close()
	whole := fileOf(t, path)
	for position := len(header); position < len(whole); position++ {
		damaged := bytes.Clone(whole)
		damaged[position] = 0
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		store, err := Open(path, quiet(flowdsl.KeepLimits{}))
		if position < before {
			if err == nil || !strings.Contains(err.Error(), "is damaged, and lines follow it") {
				t.Fatalf("byte %d: %v", position, err)
			}
			if !bytes.Equal(fileOf(t, path), damaged) {
				t.Fatalf("byte %d: a damaged file was changed", position)
			}
			continue
		}
		if err != nil {
			t.Fatalf("byte %d: %v", position, err)
		}
		want(t, fmt.Sprintf("byte %d", position), kept(t, store, 1)+kept(t, store, 2), "onenone")
		_ = store.Close()
	}
	if err := os.WriteFile(path, []byte("something else\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, quiet(flowdsl.KeepLimits{})); err == nil {
		t.Fatal("a file that is not a dedupe file was opened")
	}
}

func fileOf(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A write that fails at any point: Save says so, Load refuses while the file cannot be written, and later answers are kept.
func TestFailingDisk(t *testing.T) {
	for _, point := range []string{"before write", "before sync", "after sync"} {
		t.Run(point, func(t *testing.T) {
			path := newPath(t)
			store := open(t, path)
			save(t, store, 1, "one")
			full := errors.New("no space left on device")
			store.fault = func(at string) error {
				if at == point {
					return full
				}
				return nil
			}
			if err := store.Save(ctx, keyOf(2), answerOf("two")); !errors.Is(err, full) {
				t.Fatal(err)
			}
			if _, _, err := store.Load(ctx, keyOf(3)); !errors.Is(err, full) {
				t.Fatalf("a server that cannot keep answers must not call nodes: %v", err)
			}
			store.fault = func(string) error { return nil }
			want(t, "the failed one", kept(t, store, 2), "none")
			save(t, store, 4, "four")
			_ = store.Close()
			store = open(t, path)
			want(t, "after a restart", kept(t, store, 1)+kept(t, store, 2)+kept(t, store, 4), "onenonefour")
		})
	}
}

func TestLimits(t *testing.T) {
	path := newPath(t)
	limits := quiet(flowdsl.KeepLimits{AnswersMax: 3, AgeMax: time.Hour})
	store := open(t, path, limits)
	for i := range 5 {
		save(t, store, i, fmt.Sprint(i))
	}
	want(t, "the newest three", kept(t, store, 1)+kept(t, store, 2)+kept(t, store, 4), "none24")
	_ = store.Close()
	store = open(t, path, limits)
	want(t, "after a restart", kept(t, store, 1)+kept(t, store, 2)+kept(t, store, 4), "none24")
	store.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	if store.Len() != 0 {
		t.Errorf("%d answers are kept for too long", store.Len())
	}
}

func TestCompaction(t *testing.T) {
	path := newPath(t)
	store := open(t, path, quiet(flowdsl.KeepLimits{AnswersMax: 5}))
	big := strings.Repeat("x", 100_000)
	for i := range 60 {
		save(t, store, i, big)
	}
	size := len(fileOf(t, path))
	if size > 2*compactMin+5*200_000 {
		t.Errorf("the file has %d bytes", size)
	}
	for i := 55; i < 60; i++ {
		want(t, "a live answer", kept(t, store, i), big)
	}
	_ = store.Close()
	store = open(t, path, quiet(flowdsl.KeepLimits{AnswersMax: 5}))
	want(t, "after a restart", kept(t, store, 59)+kept(t, store, 54), big+"none")
}

func TestCompactionThatFails(t *testing.T) {
	path := newPath(t)
	store := open(t, path, quiet(flowdsl.KeepLimits{AnswersMax: 2}))
	failures := 0
	store.fault = func(point string) error {
		if point == "before rename" {
			failures++
			return errors.New("no")
		}
		return nil
	}
	big := strings.Repeat("x", 200_000)
	for i := range 20 {
		save(t, store, i, big)
	}
	if failures == 0 || failures > 3 {
		t.Errorf("%d compactions were tried", failures)
	}
	want(t, "an answer", kept(t, store, 19), big)
	if _, err := os.Stat(path + compactSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestConcurrentSavesShareSyncs(t *testing.T) {
	path := newPath(t)
	store := open(t, path)
	entered, hold := make(chan struct{}), make(chan struct{})
	syncs := 0 // changed by one writer at a time
	store.fault = func(point string) error {
		if point != "before sync" {
			return nil
		}
		if syncs++; syncs == 1 {
			close(entered)
			<-hold
		}
		return nil
	}
	var group sync.WaitGroup
	saveInBackground := func(i int) {
		group.Add(1)
		go func() {
			defer group.Done()
			save(t, store, i, fmt.Sprint(i))
		}()
	}
	saveInBackground(0)
	<-entered
	for i := 1; i < 50; i++ {
		saveInBackground(i)
	}
	for waiting := 0; waiting < 49; time.Sleep(time.Millisecond) {
		store.mu.Lock()
		waiting = len(store.waiting)
		store.mu.Unlock()
	}
	close(hold)
	group.Wait()
	if syncs != 2 {
		t.Errorf("%d syncs, want one for the first answer and one for the 49 that waited", syncs)
	}
	_ = store.Close()
	store = open(t, path)
	for i := range 50 {
		want(t, "an answer", kept(t, store, i), fmt.Sprint(i))
	}
}
