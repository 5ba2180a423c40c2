//go:build unix

package filestore

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	flowdsl "github.com/onceflow/onceflow/sdk/go"
	"github.com/onceflow/onceflow/sdk/go/internal/conformance/nodes"
)

// TestMain is also the program that the crash tests start: a node server that kills itself at a point of the file store.
func TestMain(m *testing.M) {
	if path := os.Getenv("FILESTORE_CRASH_FILE"); path != "" {
		crashProgram(path, os.Getenv("FILESTORE_CRASH_POINT"))
		return
	}
	os.Exit(m.Run())
}

func crashProgram(path, doom string) {
	store, err := Open(path, Options{})
	if err != nil {
		panic(err)
	}
	store.fault = func(point string) error {
		if point == doom {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}
	server, err := flowdsl.NewNodeServer(flowdsl.Options{Dedupe: store}, nodes.All()...)
	if err != nil {
		panic(err)
	}
	fmt.Println(server.URL())
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends
}

type program struct {
	url     string
	process *exec.Cmd
}

func startProgram(t *testing.T, path, point string) program {
	t.Helper()
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), "FILESTORE_CRASH_FILE="+path, "FILESTORE_CRASH_POINT="+point)
	stdin, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	var url string
	if _, err := fmt.Fscanln(stdout, &url); err != nil {
		t.Fatal(err)
	}
	return program{url: url, process: process}
}

func (p program) invoke(key, provider string) (string, error) {
	body := fmt.Sprintf(`{"flowId":"f","executionId":"x","nodeId":"N","packetId":"p","idempotencyKey":%q,"attempt":1,"inputs":{"in":{"url":%q}}}`, key, provider)
	response, err := http.Post(p.url+"/v1/nodes/effect/invoke", "application/json", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// The process dies before or after the answer is on disk. Calls are counted at the provider. After a crash in the unknown window the
// node is called again with the same key; after the answer is on disk it is not.
func TestKilledAroundTheWrite(t *testing.T) {
	for point, callsWanted := range map[string]int{"before write": 2, "before sync": 1, "after sync": 1} {
		t.Run(point, func(t *testing.T) {
			var mu sync.Mutex
			keys := []string{}
			provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				keys = append(keys, r.Header.Get("Idempotency-Key"))
				_ = json.NewEncoder(w).Encode(map[string]int{"call": len(keys)})
			}))
			defer provider.Close()
			path := newPath(t)
			doomed := startProgram(t, path, point)
			if text, err := doomed.invoke("k", provider.URL); err == nil {
				t.Fatalf("the process answered before it died: %s", text)
			}
			if err := doomed.process.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
				t.Fatal(err)
			}
			next := startProgram(t, path, "")
			for range 2 {
				text, err := next.invoke("k", provider.URL)
				if err != nil || !strings.Contains(text, fmt.Sprintf(`"answer":{"call":%d}`, callsWanted)) {
					t.Fatal(text, err)
				}
			}
			// "before sync": the write was made, and a process that dies takes nothing of it along. Only a machine that dies does.
			if strings.Join(keys, ",") != strings.TrimSuffix(strings.Repeat("k,", callsWanted), ",") {
				t.Errorf("calls at the provider: %v", keys)
			}
		})
	}
}

// The process dies while it compacts: before the rename the old file counts, after it the new one. Both have the live answers.
func TestKilledWhileCompacting(t *testing.T) {
	for _, point := range []string{"before rename", "after rename"} {
		t.Run(point, func(t *testing.T) {
			path := newPath(t)
			store := open(t, path)
			for range 8 { // seven of eight are out of date
				save(t, store, 1, strings.Repeat("x", compactMin/4))
			}
			store.compactAt = 1 << 40
			_ = store.Close()
			process := exec.Command(os.Args[0], "-test.run", "TestCompactsAndDies")
			process.Env = append(os.Environ(), "FILESTORE_COMPACT_FILE="+path, "FILESTORE_COMPACT_POINT="+point)
			if text, err := process.CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
				t.Fatal(err, string(text))
			}
			store = open(t, path)
			want(t, "the live answer", kept(t, store, 1), "live")
			if _, err := os.Stat(path + compactSuffix); err == nil {
				t.Error("the unfinished file is still there")
			}
		})
	}
}

func TestCompactsAndDies(t *testing.T) {
	path := os.Getenv("FILESTORE_COMPACT_FILE")
	if path == "" {
		t.Skip("the program of TestKilledWhileCompacting")
	}
	store, err := Open(path, Options{Logger: slog.Default()})
	if err != nil {
		t.Fatal(err)
	}
	store.fault = func(point string) error {
		if point == os.Getenv("FILESTORE_COMPACT_POINT") {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}
	save(t, store, 1, "live")
	if err := store.compact(); err != nil {
		t.Fatal(err)
	}
}
