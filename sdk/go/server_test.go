package flowdsl_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	flowdsl "github.com/onceflow/onceflow/sdk/go"
	"github.com/onceflow/onceflow/sdk/go/internal/conformance/nodes"
)

func start(t *testing.T, options flowdsl.Options, nodes ...flowdsl.Node) string {
	t.Helper()
	if options.Logger == nil {
		options.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	server, err := flowdsl.NewNodeServer(options, nodes...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	return server.URL()
}

type reply struct {
	Status   int
	Header   http.Header
	Text     string
	Outputs  []flowdsl.Output
	Replayed bool
	Error    struct {
		Code         string
		Message      string
		RetryAfterMs int64
	}
}

func post(t *testing.T, url string, body string, headers ...string) reply {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	answer := reply{Status: response.StatusCode, Header: response.Header, Text: string(text)}
	_ = json.Unmarshal(text, &answer)
	return answer
}

func body(key, inputs string) string {
	keyed := ""
	if key != "" {
		keyed = fmt.Sprintf(`"idempotencyKey":%q,`, key)
	}
	return fmt.Sprintf(`{"flowId":"f","executionId":"x","nodeId":"N","packetId":"p",%s"attempt":1,"deadlineMs":60000,"inputs":%s}`, keyed, inputs)
}

const invokeEcho = "/v1/nodes/echo/invoke"

func TestNumbersComeBackUnchanged(t *testing.T) {
	url := start(t, flowdsl.Options{}, nodes.All()...)
	packet := `{"a":9223372036854775807,"b":1.0,"c":1e400,"d":0.1,"e":-0,"f":123456789012345678901234567890,"g":"<ü😀\u2028>"}`
	answer := post(t, url+invokeEcho, body("k", `{"in":`+packet+`}`))
	again := post(t, url+invokeEcho, body("k", `{"in":`+packet+`}`))
	want := strings.ReplaceAll(packet, `\u2028`, "\\u2028")
	if got := string(answer.Outputs[0].Data); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if !again.Replayed || string(again.Outputs[0].Data) != want {
		t.Errorf("replay: %s", again.Text)
	}
}

func TestMalformedRequests(t *testing.T) {
	url := start(t, flowdsl.Options{BodyMax: 2000}, nodes.All()...)
	good := body("k", `{"in":{}}`)
	for name, one := range map[string]struct {
		body   string
		status int
	}{
		"empty":         {"", 400},
		"no JSON":       {"{", 400},
		"an array":      {"[]", 400},
		"two values":    {good + "{}", 400},
		"no inputs":     {body("k", `{}`), 400},
		"input is list": {body("k", `{"in":[]}`), 400},
		"input is null": {body("k", `{"in":null}`), 400},
		"attempt 0":     {strings.Replace(good, `"attempt":1`, `"attempt":0`, 1), 400},
		"attempt text":  {strings.Replace(good, `"attempt":1`, `"attempt":"1"`, 1), 400},
		"deadline 0":    {strings.Replace(good, `60000`, `0`, 1), 400},
		"deadline text": {strings.Replace(good, `60000`, `"1"`, 1), 400},
		"key is number": {strings.Replace(good, `"k"`, `5`, 1), 400},
		"key is empty":  {strings.Replace(good, `"k"`, `""`, 1), 400},
		"no flowId":     {strings.Replace(good, `"flowId":"f",`, ``, 1), 400},
		"wrong case":    {strings.Replace(good, `flowId`, `FLOWID`, 1), 400},
		"trace headers": {strings.Replace(good, `"attempt"`, `"traceHeaders":{"a":1},"attempt"`, 1), 400},
		"settings":      {strings.Replace(good, `"attempt"`, `"settings":[],"attempt"`, 1), 400},
		"bad UTF-8":     {body("k", "{\"in\":{\"a\":\"\xff\"}}"), 400},
		"too large":     {body("k", `{"in":{"a":"`+strings.Repeat("x", 2000)+`"}}`), 413},
		"deep":          {body("k", `{"in":`+strings.Repeat("[", 900)+`}`), 400},
	} {
		t.Run(name, func(t *testing.T) {
			answer := post(t, url+invokeEcho, one.body)
			if answer.Status != one.status || answer.Error.Code != "VALIDATION" || answer.Error.Message == "" {
				t.Errorf("%d %s", answer.Status, answer.Text)
			}
		})
	}
	if answer := post(t, url+invokeEcho, good); answer.Status != 200 || answer.Replayed {
		t.Errorf("the good request: %d %s", answer.Status, answer.Text)
	}
}

func TestStatusOfFailures(t *testing.T) {
	url := start(t, flowdsl.Options{}, nodes.All()...)
	for code, status := range map[string]int{
		"VALIDATION": 422, "INPUT_MISSING": 422, "PERMANENT": 422, "TIMEOUT": 504, "RATE_LIMITED": 429, "NETWORK_ERROR": 502, "TEMPORARY": 503,
		"EXCEPTION": 500, "PANIC": 500, "OOPS": 500,
	} {
		answer := post(t, url+"/v1/nodes/fail/invoke", body("", fmt.Sprintf(`{"in":{"code":%q,"message":"secret no"}}`, code)))
		want := code
		if status == 500 {
			want = "TEMPORARY"
		}
		if answer.Status != status || answer.Error.Code != want || strings.Contains(answer.Text, "goroutine") || strings.Contains(answer.Text, ".go:") {
			t.Errorf("%s: %d %s", code, answer.Status, answer.Text)
		}
		if code == "PANIC" && strings.Contains(answer.Text, "secret") {
			t.Errorf("the panic's value left the server: %s", answer.Text)
		}
	}
	if answer := post(t, url+"/v1/nodes/nope/invoke", body("", `{"in":{}}`)); answer.Status != 404 || answer.Error.Code != "TEMPORARY" {
		t.Errorf("%d %s", answer.Status, answer.Text)
	}
	if answer := post(t, url+invokeEcho, body("", `{"in":{}}`), "Content-Type", "text/plain"); answer.Status != 415 {
		t.Errorf("another type: %d", answer.Status)
	}
	if answer := post(t, url+invokeEcho, body("", `{"in":{}}`), "Origin", "https://evil.example"); answer.Status != 403 {
		t.Errorf("a request of a web page: %d", answer.Status)
	}
}

func TestPanicGoesToTheLog(t *testing.T) {
	var log lockedBuffer
	url := start(t, flowdsl.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))}, nodes.All()...)
	post(t, url+"/v1/nodes/fail/invoke", body("", `{"in":{"code":"PANIC","message":"boom"}}`))
	if text := log.String(); !strings.Contains(text, "boom") || !strings.Contains(text, "nodes.go:") {
		t.Errorf("log: %s", text)
	}
}

type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(text)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func TestRetryAfter(t *testing.T) {
	url := start(t, flowdsl.Options{}, flowdsl.NodeFunc("slow_down", func(context.Context, flowdsl.NodeInput) (flowdsl.NodeOutput, error) {
		return flowdsl.NodeOutput{}, fmt.Errorf("wrapped: %w", flowdsl.NewNodeError(flowdsl.ErrCodeRateLimited, "wait", errors.New("cause")).After(1500*time.Millisecond))
	}))
	answer := post(t, url+"/v1/nodes/slow_down/invoke", body("", `{"in":{}}`))
	if answer.Status != 429 || answer.Error.RetryAfterMs != 1500 || answer.Header.Get("Retry-After") != "2" || strings.Contains(answer.Text, "cause") {
		t.Errorf("%d %v %s", answer.Status, answer.Header, answer.Text)
	}
}

func TestToken(t *testing.T) {
	url := start(t, flowdsl.Options{Token: "geheim"}, nodes.All()...)
	for header, status := range map[string]int{"": 401, "geheim": 401, "Bearer ": 401, "Bearer geheiM": 401, "Bearer geheim": 200} {
		if answer := post(t, url+invokeEcho, body("", `{"in":{}}`), "Authorization", header); answer.Status != status {
			t.Errorf("%q: %d", header, answer.Status)
		}
	}
	response, err := http.Get(url + "/v1/health")
	if err != nil || response.StatusCode != 200 {
		t.Fatal(err, response)
	}
	if response, err = http.Get(url + "/v1/manifest"); err != nil || response.StatusCode != 401 {
		t.Fatal(err, response)
	}
}

// gate is a node that counts its calls and waits until the test opens it.
type gate struct {
	calls   atomic.Int32
	entered chan struct{}
	open    chan error
	ended   chan struct{}
	stuck   bool
}

func newGate() *gate {
	return &gate{entered: make(chan struct{}, 100), open: make(chan error, 100), ended: make(chan struct{}, 100)}
}

func (g *gate) OperationID() string { return "gate" }

func (g *gate) Handle(ctx context.Context, _ flowdsl.NodeInput) (flowdsl.NodeOutput, error) {
	defer func() { g.ended <- struct{}{} }()
	call := g.calls.Add(1)
	g.entered <- struct{}{}
	done := ctx.Done()
	if g.stuck {
		done = nil
	}
	select {
	case err := <-g.open:
		return flowdsl.NodeOutput{}.Send("out", map[string]any{"call": call}), err
	case <-done:
		return flowdsl.NodeOutput{}, ctx.Err()
	}
}

const invokeGate = "/v1/nodes/gate/invoke"

func inFlight(t *testing.T, url string) int {
	response, err := http.Get(url + "/v1/health")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var health struct{ InFlight int }
	if err := json.NewDecoder(response.Body).Decode(&health); err != nil {
		t.Fatal(err)
	}
	return health.InFlight
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("does not happen: %s", what)
		}
	}
}

func TestDuplicateWaitsForTheFirst(t *testing.T) {
	node := newGate()
	url := start(t, flowdsl.Options{}, node)
	answers := make(chan reply, 3)
	for range 3 {
		go func() { answers <- post(t, url+invokeGate, body("k", `{"in":{}}`)) }()
	}
	until(t, "all three invocations are there", func() bool { return inFlight(t, url) == 3 })
	if answer := post(t, url+invokeGate, body("k", `{"in":{"other":1}}`)); answer.Status != 422 || answer.Error.Code != "VALIDATION" {
		t.Errorf("other inputs: %d %s", answer.Status, answer.Text)
	}
	node.open <- nil
	replayed := 0
	for range 3 {
		answer := <-answers
		if string(answer.Outputs[0].Data) != `{"call":1}` {
			t.Error(answer.Text)
		}
		if answer.Replayed {
			replayed++
		}
	}
	if replayed != 2 || node.calls.Load() != 1 {
		t.Errorf("%d replayed, %d calls", replayed, node.calls.Load())
	}
	if answer := post(t, url+invokeGate, body("k", `{"in":{"other":1}}`)); answer.Error.Code != "VALIDATION" || node.calls.Load() != 1 {
		t.Errorf("other inputs later: %s", answer.Text)
	}
}

func TestFailureIsNotKept(t *testing.T) {
	node := newGate()
	url := start(t, flowdsl.Options{}, node)
	node.open <- errors.New("no")
	node.open <- nil
	first, second, third := post(t, url+invokeGate, body("k", `{"in":{}}`)), post(t, url+invokeGate, body("k", `{"in":{}}`)), post(t, url+invokeGate, body("k", `{"in":{}}`))
	if first.Status != 500 || second.Replayed || !third.Replayed || node.calls.Load() != 2 {
		t.Error(first.Text, second.Text, third.Text)
	}
}

func TestNodeThatOutlivesItsDeadlineKeepsItsKey(t *testing.T) {
	node := newGate()
	node.stuck = true
	url := start(t, flowdsl.Options{}, node)
	late := strings.Replace(body("k", `{"in":{}}`), "60000", "30", 1)
	if answer := post(t, url+invokeGate, late); answer.Status != 504 || answer.Error.Code != "TIMEOUT" {
		t.Fatalf("%d %s", answer.Status, answer.Text)
	}
	if answer := post(t, url+invokeGate, late); answer.Status != 504 || node.calls.Load() != 1 {
		t.Fatalf("the second invocation: %d %s, %d calls", answer.Status, answer.Text, node.calls.Load())
	}
	node.open <- nil
	if answer := post(t, url+invokeGate, body("k", `{"in":{}}`)); answer.Status != 200 || !answer.Replayed || node.calls.Load() != 1 {
		t.Fatalf("after the node returned: %d %s, %d calls", answer.Status, answer.Text, node.calls.Load())
	}
}

func TestLostConnectionDoesNotEndTheNode(t *testing.T) {
	node := newGate()
	url := start(t, flowdsl.Options{}, node)
	ctx, cancel := context.WithCancel(context.Background())
	request, _ := http.NewRequestWithContext(ctx, http.MethodPost, url+invokeGate, strings.NewReader(body("k", `{"in":{}}`)))
	request.Header.Set("Content-Type", "application/json")
	lost := make(chan struct{})
	go func() {
		_, _ = http.DefaultClient.Do(request)
		close(lost)
	}()
	<-node.entered
	cancel()
	<-lost
	node.open <- nil
	<-node.ended
	if answer := post(t, url+invokeGate, body("k", `{"in":{}}`)); answer.Status != 200 || !answer.Replayed || node.calls.Load() != 1 {
		t.Errorf("%d %s", answer.Status, answer.Text)
	}
}

func TestConcurrencyLimit(t *testing.T) {
	node := newGate()
	url := start(t, flowdsl.Options{Concurrency: 1}, node)
	first := make(chan reply, 1)
	go func() { first <- post(t, url+invokeGate, body("a", `{"in":{}}`)) }()
	<-node.entered
	busy := post(t, url+invokeGate, body("b", `{"in":{}}`))
	if busy.Status != 429 || busy.Error.Code != "RATE_LIMITED" || busy.Error.RetryAfterMs <= 0 || busy.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s", busy.Status, busy.Text)
	}
	node.open <- nil
	node.open <- nil
	<-first
	until(t, "the slot is free", func() bool { return inFlight(t, url) == 0 })
	if answer := post(t, url+invokeGate, body("b", `{"in":{}}`)); answer.Status != 200 {
		t.Errorf("%d %s", answer.Status, answer.Text)
	}
}

func TestStopsInOrder(t *testing.T) {
	node := newGate()
	ctx, cancel := context.WithCancel(context.Background())
	listening := make(chan string, 1)
	stopped := make(chan error, 1)
	options := flowdsl.Options{Grace: time.Minute, OnListen: func(url string) { listening <- url }}
	go func() { stopped <- flowdsl.Serve(ctx, options, node) }()
	url := <-listening
	first := make(chan reply, 1)
	go func() { first <- post(t, url+invokeGate, body("a", `{"in":{}}`)) }()
	<-node.entered
	cancel()
	until(t, "health says stopping", func() bool {
		response, err := http.Get(url + "/v1/health")
		return err == nil && response.StatusCode == 503
	})
	if answer := post(t, url+invokeGate, body("b", `{"in":{}}`)); answer.Status != 503 || answer.Error.Code != "TEMPORARY" {
		t.Errorf("%d %s", answer.Status, answer.Text)
	}
	node.open <- nil
	if answer := <-first; answer.Status != 200 {
		t.Errorf("the running invocation: %d %s", answer.Status, answer.Text)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestGraceEnds(t *testing.T) {
	node := newGate()
	server, err := flowdsl.NewNodeServer(flowdsl.Options{Grace: time.Millisecond, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}, node)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = http.Post(server.URL()+invokeGate, "application/json", strings.NewReader(body("a", `{"in":{}}`)))
	}()
	<-node.entered
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
	<-node.ended // its context ended
}

func TestSlowBodyIsCut(t *testing.T) {
	url := start(t, flowdsl.Options{BodyTimeout: 20 * time.Millisecond}, nodes.All()...)
	connection, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", invokeEcho)
	if text, err := io.ReadAll(connection); err != nil || len(text) > 0 {
		t.Errorf("%q %v", text, err)
	}
}

func TestLines(t *testing.T) {
	url := start(t, flowdsl.Options{}, nodes.All()...)
	answer := post(t, url+"/v1/nodes/many/invoke", body("", `{"in":{"n":3}}`), "Accept", "application/x-ndjson")
	lines := []string{}
	for scanner := bufio.NewScanner(strings.NewReader(answer.Text)); scanner.Scan(); {
		lines = append(lines, scanner.Text())
	}
	want := `{"output":{"port":"out","data":{"i":0}}} {"output":{"port":"out","data":{"i":1}}} {"output":{"port":"out","data":{"i":2}}} {"done":true,"replayed":false}`
	if got := strings.Join(lines, " "); got != want || !strings.HasPrefix(answer.Header.Get("Content-Type"), "application/x-ndjson") {
		t.Errorf("got %s", got)
	}
}

// settingsNode counts calls of Init and shows that Handle does not run at the same time.
type settingsNode struct {
	gate
	inits   atomic.Int32
	running atomic.Int32
	fail    atomic.Bool
	t       *testing.T
}

func (n *settingsNode) Init(_ context.Context, settings map[string]any) error {
	if n.running.Load() != 0 {
		n.t.Error("Init runs while Handle runs")
	}
	n.inits.Add(1)
	if n.fail.Swap(false) {
		return errors.New("no connection yet")
	}
	return nil
}

func (n *settingsNode) Handle(context.Context, flowdsl.NodeInput) (flowdsl.NodeOutput, error) {
	n.running.Add(1)
	defer n.running.Add(-1)
	return flowdsl.NodeOutput{}, nil
}

func TestInitBeforeTheFirstDeliveryAndWhenSettingsChange(t *testing.T) {
	node := &settingsNode{t: t}
	node.fail.Store(true)
	url := start(t, flowdsl.Options{}, node)
	with := func(settings string) string {
		return strings.Replace(body("", `{"in":{}}`), `"attempt"`, `"settings":`+settings+`,"attempt"`, 1)
	}
	if answer := post(t, url+invokeGate, with(`{"a":1}`)); answer.Status != 500 {
		t.Errorf("Init failed: %d", answer.Status)
	}
	var group sync.WaitGroup
	for range 20 {
		group.Add(1)
		go func() {
			defer group.Done()
			if answer := post(t, url+invokeGate, with(`{"a":1}`)); answer.Status != 200 {
				t.Errorf("%d %s", answer.Status, answer.Text)
			}
		}()
	}
	group.Wait()
	if node.inits.Load() != 2 {
		t.Errorf("%d calls of Init, want 2: one that failed and one for the settings", node.inits.Load())
	}
	for i := range 40 {
		group.Add(1)
		go func() {
			defer group.Done()
			if answer := post(t, url+invokeGate, with(fmt.Sprintf(`{"a":%d}`, i%3))); answer.Status != 200 {
				t.Errorf("%d %s", answer.Status, answer.Text)
			}
		}()
	}
	group.Wait()
}

// brokenStore fails to read or to save.
type brokenStore struct{ load, save error }

func (s brokenStore) Load(context.Context, flowdsl.DedupeKey) (flowdsl.KeptAnswer, bool, error) {
	return flowdsl.KeptAnswer{}, false, s.load
}
func (s brokenStore) Save(context.Context, flowdsl.DedupeKey, flowdsl.KeptAnswer) error {
	return s.save
}
func (s brokenStore) Forget(context.Context, flowdsl.DedupeKey) (bool, error) { return false, nil }

func TestStoreThatFails(t *testing.T) {
	node := newGate()
	url := start(t, flowdsl.Options{Dedupe: brokenStore{load: errors.New("disk")}}, node)
	if answer := post(t, url+invokeGate, body("k", `{"in":{}}`)); answer.Error.Code != "TEMPORARY" || node.calls.Load() != 0 {
		t.Errorf("cannot read: %s, %d calls", answer.Text, node.calls.Load())
	}
	var log lockedBuffer
	url = start(t, flowdsl.Options{Dedupe: brokenStore{save: errors.New("disk is full")}, Logger: slog.New(slog.NewTextHandler(&log, nil))}, node)
	node.open <- nil
	if answer := post(t, url+invokeGate, body("k", `{"in":{}}`)); answer.Status != 200 || !strings.Contains(log.String(), "disk is full") {
		t.Errorf("cannot save: the effect happened, and the answer is sent: %d %s; log %s", answer.Status, answer.Text, log.String())
	}
}

func TestOptionsThatAreRefused(t *testing.T) {
	echo := nodes.All()[0]
	for want, one := range map[string]struct {
		options flowdsl.Options
		nodes   []flowdsl.Node
	}{
		"at least one node":         {flowdsl.Options{}, nil},
		"two nodes":                 {flowdsl.Options{}, []flowdsl.Node{echo, echo}},
		"has no operationId":        {flowdsl.Options{}, []flowdsl.Node{flowdsl.NodeFunc("", nil)}},
		"set Token or ClientCAFile": {flowdsl.Options{Addr: ":0"}, []flowdsl.Node{echo}},
		"belong together":           {flowdsl.Options{CertFile: "x"}, []flowdsl.Node{echo}},
		"needs CertFile":            {flowdsl.Options{ClientCAFile: "x"}, []flowdsl.Node{echo}},
		"host:port":                 {flowdsl.Options{Addr: "x"}, []flowdsl.Node{echo}},
		"negative":                  {flowdsl.Options{Concurrency: -1}, []flowdsl.Node{echo}},
	} {
		if _, err := flowdsl.NewNodeServer(one.options, one.nodes...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	start(t, flowdsl.Options{Addr: "0.0.0.0:0", Token: "t"}, echo)
}
