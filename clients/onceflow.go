// Package onceflow runs an operation under a key, through the HTTP API of a store (createApi).
//
// The first caller with a key executes the operation. Every later caller with the same key gets its outcome, also from another process,
// another machine or another language. Copy this file into your project, as a folder onceflow: it needs Go 1.21 or newer and the standard
// library only.
//
//	client, err := onceflow.New(onceflow.Config{URL: "https://ops.example.com/onceflow", Token: token})
//	operation := onceflow.Operation{Scope: "shop", Key: "charge:order-1", Input: order, Effect: onceflow.Keyed}
//	result, err := onceflow.Once(ctx, client, operation, func(ctx context.Context, attempt onceflow.Attempt) (Charge, error) {
//		return provider.Charge(ctx, order, attempt.EffectKey)
//	})
//
// How a call goes: begin (the server answers that this caller owns the attempt), the handler runs while a goroutine renews the lease,
// settle, retried until the server has saved the outcome. Begin and settle can be sent again after a lost reply: the server recognizes them.
package onceflow

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// Effect says what may happen after an attempt crashed or returned an error.
type Effect string

const (
	// Idempotent is the default: the handler runs again; repeating it does no harm.
	Idempotent Effect = "idempotent"
	// Keyed: the handler runs again; the provider deduplicates by Attempt.EffectKey.
	Keyed Effect = "keyed"
	// Reconcile: the outcome is unknown until Operation.Reconcile has asked the other system.
	Reconcile Effect = "reconcile"
	// AtMostOnce: the outcome is unknown, and the handler does not run again until an operator frees the key.
	AtMostOnce Effect = "atMostOnce"
)

const (
	// Forever as Operation.Retention keeps the outcome forever.
	Forever time.Duration = -1
	// NoWait as Operation.Wait returns ErrRunning at once while another caller runs the key.
	NoWait time.Duration = -1

	leaseMin    = 50 * time.Millisecond
	leaseMax    = time.Hour
	durationMax = 100 * 366 * 24 * time.Hour
	keyBytesMax = 512
	depthMax    = 200
	// JSON numbers are doubles at the server: a larger integer would arrive as another one.
	integerMax = 1<<53 - 1
	// How long a begin is retried. Nothing has happened yet, so giving up is safe.
	beginMax = 10 * time.Second
	// How long a caller waits until the outcome is saved. After that a goroutine goes on saving.
	saveMax = 60 * time.Second
	// The same for a caller whose context ended while its handler ran.
	cancelledSaveMax = 10 * time.Second
)

// Errors to compare with errors.Is. The error itself is an *Error, with the facts.
var (
	// ErrInvalidInput: an argument is not valid. Nothing was written.
	ErrInvalidInput error = code("INVALID_INPUT")
	// ErrMismatch: the key was used with another input. The handler did not run.
	ErrMismatch error = code("MISMATCH")
	// ErrRunning: another caller still runs the key after Operation.Wait. Call again.
	ErrRunning error = code("RUNNING")
	// ErrUnknownOutcome: it is not known whether the attempt had its effect. The handler did not run. An operator resolves the key.
	ErrUnknownOutcome error = code("UNKNOWN_OUTCOME")
	// ErrGone: the key was settled and its outcome has expired. The handler did not run.
	ErrGone error = code("GONE")
	// ErrResultNotKept: the operation completed; its result could not be stored, or is not of the type that the caller expects.
	ErrResultNotKept error = code("RESULT_NOT_KEPT")
	// ErrOperationFailed: the stored failure of an earlier attempt. Error.Failure describes it.
	ErrOperationFailed error = code("OPERATION_FAILED")
	// ErrLeaseLost: this attempt lost its lease, and its outcome was not recorded; the effect may have happened. Call again.
	ErrLeaseLost error = code("LEASE_LOST")
	// ErrNotSaved: the handler ended, and its outcome is not saved yet. A goroutine goes on saving it. Call again later.
	ErrNotSaved error = code("NOT_SAVED")
	// ErrUnreachable: the server cannot be reached. The handler did not run.
	ErrUnreachable error = code("SERVER_UNREACHABLE")
	// ErrNotKnown: the reply to a begin was lost: the attempt may have begun. The handler did not run. Call again.
	ErrNotKnown error = code("NOT_KNOWN")
	// ErrServerRefused: token, role, scope or address is wrong. The handler did not run.
	ErrServerRefused error = code("SERVER_REFUSED")
)

type code string

func (c code) Error() string { return "onceflow: " + string(c) }

// Error is every error of this package. Decide with errors.Is and the variables above, not by the text.
type Error struct {
	Code       string
	Message    string
	Scope, Key string
	// Attempt is 0 if the error is not about an attempt.
	Attempt int
	// Retryable: the same call may succeed later.
	Retryable  bool
	RetryAfter time.Duration
	// Status is the HTTP status that the server refused the request with, or 0.
	Status int
	// ServerCode is the code of the problem that the server answered, or "".
	ServerCode string
	// Failure is set for ErrOperationFailed.
	Failure *Failure
	// Cause is the error of the handler if its outcome could not be saved.
	Cause error
}

// Failure is a stored error of an earlier attempt.
type Failure struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	Code    any    `json:"code,omitempty"`
}

func (e *Error) Error() string { return "onceflow: " + e.Message }

// Is makes errors.Is(err, onceflow.ErrMismatch) work.
func (e *Error) Is(target error) bool {
	c, ok := target.(code)
	return ok && string(c) == e.Code
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

type notApplied struct{ cause error }

func (n *notApplied) Error() string { return n.cause.Error() }
func (n *notApplied) Unwrap() error { return n.cause }

// NotApplied wraps an error of a handler to state that the effect certainly did not happen: the key becomes free, whatever the effect class.
func NotApplied(cause error) error {
	if cause == nil {
		cause = errors.New("the effect did not happen")
	}
	return &notApplied{cause}
}

// Config is what New needs. Only URL is required.
type Config struct {
	// URL is where the application mounts the API.
	URL string
	// Token is sent as a bearer token; over plain http only to this machine.
	Token string
	// RequestTimeout bounds every request, connecting included. Default 10 s.
	RequestTimeout time.Duration
	// ResponseBytesMax bounds an answer. Default 16 MiB.
	ResponseBytesMax int64
	// TLS replaces the default settings, for a certificate authority of your own.
	TLS *tls.Config
	// Log gets warnings: an outcome that is not saved yet, a result that could not be stored. Default slog.Default().
	Log *slog.Logger
}

// Client is the API of one store. Many goroutines may use it at the same time.
type Client struct {
	url            string
	authorization  string
	http           *http.Client
	requestTimeout time.Duration
	bytesMax       int64
	log            *slog.Logger
}

// String does not show the token.
func (c *Client) String() string { return "onceflow.Client(" + c.url + ")" }

// GoString does not show the token either.
func (c *Client) GoString() string { return c.String() }

var printable = regexp.MustCompile(`^[\x21-\x7e]+$`)

// New checks the configuration. It sends nothing.
func New(config Config) (*Client, error) {
	if !printable.MatchString(config.URL) {
		return nil, invalid("URL", "must be a URL such as https://ops.example.com/onceflow")
	}
	parsed, err := url.Parse(config.URL)
	if err != nil {
		return nil, invalid("URL", "is not a valid URL")
	}
	if (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Hostname() == "" {
		return nil, invalid("URL", "must begin with https:// or http:// and name a host")
	}
	if parsed.User != nil || strings.ContainsAny(config.URL, `\?#`) {
		return nil, invalid("URL", "must not contain a user, a password, a query or a fragment; pass the token as Token")
	}
	if config.Token != "" && (!printable.MatchString(config.Token) || len(config.Token) > 4096) {
		return nil, invalid("Token", "must be at most 4096 printable ASCII characters without spaces")
	}
	if config.Token != "" && parsed.Scheme == "http" && !isLoopback(parsed.Hostname()) {
		return nil, invalid("URL", "a token is not sent to "+parsed.Hostname()+" over plain http, where others can read it; use https")
	}
	if config.RequestTimeout < 0 || config.RequestTimeout > 10*time.Minute {
		return nil, invalid("RequestTimeout", "must be at most 10 minutes")
	}
	if config.ResponseBytesMax < 0 {
		return nil, invalid("ResponseBytesMax", "must not be negative")
	}
	client := &Client{
		url:            strings.TrimRight(parsed.Scheme+"://"+parsed.Host+parsed.EscapedPath(), "/"),
		requestTimeout: orDefault(config.RequestTimeout, 10*time.Second),
		bytesMax:       orDefault(config.ResponseBytesMax, 16<<20),
		log:            config.Log,
		http: &http.Client{
			// No proxy of the environment: the token belongs to this host only. For the same reason redirects are not followed.
			Transport:     &http.Transport{TLSClientConfig: config.TLS, MaxIdleConnsPerHost: 16, IdleConnTimeout: 4 * time.Second},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if config.Token != "" {
		client.authorization = "Bearer " + config.Token
	}
	if client.log == nil {
		client.log = slog.Default()
	}
	return client, nil
}

// Operation names an operation and says how it may be repeated. Only Key is required.
type Operation struct {
	// Key is the same at every retry of the operation, and different for every other operation.
	Key string
	// Scope is the tenant or namespace: the same key in two scopes is two operations.
	Scope string
	// Input is the request. The same key with another input is ErrMismatch. nil: not compared.
	Input any
	// Fingerprint is compared in place of Input.
	Fingerprint string
	// Effect is Idempotent by default.
	Effect Effect
	// Reconcile asks the other system about an attempt whose outcome is unknown. Required with, and only with, the effect Reconcile.
	Reconcile func(context.Context, ReconcileRequest) (Reconciled, error)
	// ReconcileAfter is how long after an attempt's lease expired the other system's answer can be trusted. Default: Lease.
	ReconcileAfter time.Duration
	// Lease is how long this process may be silent before another process may take over. Default 10 s.
	Lease time.Duration
	// Retention is how long the outcome is replayed. Default 24 h; Forever.
	Retention time.Duration
	// Horizon is how long after the retention a late call gets ErrGone. Default 0.
	Horizon time.Duration
	// Wait is how long to wait while another caller runs the key; then ErrRunning. Default 30 s; NoWait.
	Wait time.Duration
	// KeepFailures stores the error of the handler: replays return ErrOperationFailed.
	KeepFailures bool
}

// ReconcileRequest is the attempt whose outcome is unknown. EffectKey is the key that the attempt passed to the provider.
type ReconcileRequest struct {
	Scope, Key, EffectKey string
	Attempt               int
	Input                 any
}

// Reconciled is what the other system says: Found(value), Absent or Unknown.
type Reconciled struct {
	verdict string
	value   any
}

// Found says that the effect happened, with this result.
func Found(value any) Reconciled { return Reconciled{"found", value} }

var (
	// Absent says that the effect did not happen and cannot happen any more: the handler runs again.
	Absent = Reconciled{verdict: "absent"}
	// Unknown says that the other system cannot tell.
	Unknown = Reconciled{verdict: "unknown"}
)

// Attempt is what a handler runs as. Its context ends when the lease is lost, with ErrLeaseLost as cause.
type Attempt struct {
	Scope, Key string
	// EffectKey is the idempotency key to pass to the provider: the same at every attempt, 64 hexadecimal characters.
	EffectKey string
	// Number is 1 for the first attempt.
	Number int
}

// Status says how a call got its result.
type Status string

const (
	// Executed: this call ran the handler.
	Executed Status = "executed"
	// Replayed: an earlier attempt, Reconcile or an operator has settled the key.
	Replayed Status = "replayed"
)

// Result is the outcome of a call. Value is what a replay returns: it has been JSON.
type Result[T any] struct {
	Status  Status
	Value   T
	Attempt int
}

// EffectKey is the idempotency key for providers: SHA-256 of scope and key, as in every other client.
func EffectKey(scope, key string) string {
	sum := sha256.Sum256([]byte(scope + "\x00" + key))
	return hex.EncodeToString(sum[:])
}

// Once runs handler under a key: the first caller executes it, and every later caller with the same key gets its outcome. It returns an
// *Error, the error of the handler, or the cause of ctx.
func Once[T any](ctx context.Context, client *Client, operation Operation, handler func(context.Context, Attempt) (T, error)) (Result[T], error) {
	var none Result[T]
	run := func(ctx context.Context, attempt Attempt) (any, error) { return handler(ctx, attempt) }
	call, err := newCall(client, operation, run)
	if err != nil {
		return none, err
	}
	done, err := call.run(ctx)
	if err != nil {
		return none, err
	}
	result := Result[T]{Status: done.status, Attempt: done.attempt}
	if done.kept != nil {
		if err := json.Unmarshal(done.kept, &result.Value); err != nil {
			message := call.name() + " completed, but its result is not of the type that this caller expects"
			return none, call.fail(ErrResultNotKept, done.attempt, message)
		}
		return result, nil
	}
	// The result could not be stored: this caller gets it as it is.
	if value, ok := done.value.(T); ok {
		result.Value = value
	}
	return result, nil
}

// ------------------------------------------------------------------------------------------------------------------------- one call

type call struct {
	client    *Client
	operation Operation
	handler   func(context.Context, Attempt) (any, error)
	begin     map[string]any
}

// outcome has kept, or the value that could not be stored.
type outcome struct {
	status  Status
	attempt int
	kept    json.RawMessage
	value   any
}

func newCall(client *Client, operation Operation, handler func(context.Context, Attempt) (any, error)) (*call, error) {
	if client == nil {
		return nil, invalid("client", "is nil; make one with New")
	}
	if err := checkName("Key", operation.Key); err != nil {
		return nil, err
	}
	if err := checkName("Scope", operation.Scope); err != nil {
		return nil, err
	}
	operation.Effect = orDefault(operation.Effect, Idempotent)
	switch operation.Effect {
	case Idempotent, Keyed, Reconcile, AtMostOnce:
	default:
		return nil, invalid("Effect", fmt.Sprintf("must be idempotent, keyed, reconcile or atMostOnce, not %.40q", string(operation.Effect)))
	}
	if (operation.Effect == Reconcile) != (operation.Reconcile != nil) {
		return nil, invalid("Reconcile", "must be a function when, and only when, Effect is Reconcile")
	}
	if operation.Input != nil && operation.Fingerprint != "" {
		return nil, invalid("Fingerprint", "replaces the input: pass one of the two")
	}
	operation.Lease = orDefault(operation.Lease, 10*time.Second)
	if operation.Lease < leaseMin || operation.Lease > leaseMax {
		return nil, invalid("Lease", "must be from 50 ms to 1 h")
	}
	operation.Retention = orDefault(operation.Retention, 24*time.Hour)
	operation.Wait = orDefault(operation.Wait, 30*time.Second)
	for field, value := range map[string]time.Duration{"Retention": operation.Retention, "Wait": operation.Wait} {
		if value < -1 || value > durationMax {
			return nil, invalid(field, "must be positive, and at most 100 years")
		}
	}
	for field, value := range map[string]time.Duration{"Horizon": operation.Horizon, "ReconcileAfter": operation.ReconcileAfter} {
		if value < 0 || value > durationMax {
			return nil, invalid(field, "must not be negative, and at most 100 years")
		}
	}
	begin := map[string]any{
		"scope":       operation.Scope,
		"key":         operation.Key,
		"effect":      operation.Effect,
		"leaseMs":     operation.Lease.Milliseconds(),
		"horizonMs":   operation.Horizon.Milliseconds(),
		"retentionMs": "forever",
	}
	if operation.Retention != Forever {
		begin["retentionMs"] = operation.Retention.Milliseconds()
	}
	if operation.ReconcileAfter > 0 {
		begin["reconcileAfterMs"] = operation.ReconcileAfter.Milliseconds()
	}
	if operation.Fingerprint != "" {
		begin["fingerprint"] = operation.Fingerprint
	}
	if operation.Input != nil {
		text, err := encode(operation.Input)
		if err != nil {
			return nil, invalid("Input", err.Error())
		}
		begin["input"] = text
	}
	return &call{client: client, operation: operation, handler: handler, begin: begin}, nil
}

func (c *call) run(ctx context.Context) (*outcome, error) {
	deadline := time.Now().Add(max(c.operation.Wait, 0))
	over := 0
	var found *Reconciled
	for polls := 1; ; polls++ {
		started, reply, err := c.sendBegin(ctx, over)
		if err != nil {
			return nil, err
		}
		if started != nil {
			return c.execute(ctx, started, found)
		}
		over, found = 0, nil
		if reply.status == http.StatusOK {
			return c.replay(reply)
		}
		switch {
		case reply.problem.Code == "RUNNING":
			left := time.Until(deadline)
			after := max(reply.retryAfter, time.Millisecond)
			if left <= 0 {
				err := c.fail(ErrRunning, reply.problem.Attempt, fmt.Sprintf("%s is running; try again in %v", c.name(), after))
				err.Retryable, err.RetryAfter = true, after
				return nil, err
			}
			delay := min(backoff(polls, 20*time.Millisecond, 500*time.Millisecond, 1.6), after, left)
			if err := sleep(ctx, max(delay, time.Millisecond)); err != nil {
				return nil, err
			}
		case reply.problem.Code == "UNKNOWN_OUTCOME" && reply.problem.Effect == Reconcile && c.operation.Reconcile != nil:
			if in := time.Duration(reply.problem.ReconcileInMs) * time.Millisecond; in > 0 {
				left := time.Until(deadline)
				if left <= 0 {
					return nil, c.refusal(reply)
				}
				if err := sleep(ctx, min(in, left)); err != nil {
					return nil, err
				}
				continue
			}
			operation := c.operation
			verdict, err := operation.Reconcile(ctx, ReconcileRequest{
				Scope: operation.Scope, Key: operation.Key, EffectKey: EffectKey(operation.Scope, operation.Key),
				Attempt: reply.problem.Attempt, Input: operation.Input,
			})
			if err != nil {
				return nil, err
			}
			// Nothing is claimed while Reconcile runs, so a crash here changes nothing. The next begin starts an attempt over the one that
			// was checked, and only if that one is still unknown: of two callers that reconcile, one gets it.
			switch verdict.verdict {
			case "found":
				found = &verdict
			case "absent":
			default:
				return nil, c.refusal(reply)
			}
			over = reply.problem.Attempt
		default:
			return nil, c.refusal(reply)
		}
	}
}

// started is the answer to a begin: this caller owns the attempt. Effect may be stricter than the requested class.
type started struct {
	Owner   string
	Attempt int
	Effect  Effect
	sentAt  time.Time
}

// sendBegin sends the same begin until it is answered: after a lost reply it finds its own success, because the request id is the same.
func (c *call) sendBegin(ctx context.Context, over int) (*started, *reply, error) {
	giveUpAt := time.Now().Add(beginMax)
	for {
		body := copyOf(c.begin)
		requestID := make([]byte, 16)
		if _, err := rand.Read(requestID); err != nil {
			return nil, nil, err
		}
		body["requestId"] = hex.EncodeToString(requestID)
		if over > 0 {
			body["over"] = over
		}
		sentAt := time.Now()
		reply, err := c.askBeforeEffect(ctx, "/keys/begin", body, giveUpAt)
		if err != nil {
			return nil, nil, err
		}
		if reply.problem.Code == "LEASE_LOST" {
			// An earlier try had begun the attempt, and its lease was over before the answer came.
			if time.Now().After(giveUpAt) {
				return nil, nil, c.tooSlow()
			}
			continue
		}
		if reply.status != http.StatusOK || reply.answer.Status != "started" {
			return nil, reply, nil
		}
		begun := &started{Owner: reply.answer.Owner, Attempt: reply.answer.Attempt, Effect: reply.answer.Effect, sentAt: sentAt}
		if begun.Owner == "" || begun.Attempt < 1 {
			return nil, nil, c.notValid()
		}
		// The lease counts from the first try. If that was a while ago, it may have expired: renew it before the handler runs.
		if time.Since(sentAt) < c.operation.Lease/3 {
			return begun, nil, nil
		}
		begun.sentAt = time.Now()
		renewed, err := c.askBeforeEffect(ctx, "/keys/renew", c.renewal(begun), giveUpAt)
		if err != nil {
			return nil, nil, err
		}
		if renewed.status == http.StatusOK {
			return begun, nil, nil
		}
		if renewed.problem.Code != "LEASE_LOST" {
			return nil, nil, c.refusal(renewed)
		}
		if time.Now().After(giveUpAt) {
			return nil, nil, c.tooSlow()
		}
	}
}

func (c *call) askBeforeEffect(ctx context.Context, path string, body map[string]any, giveUpAt time.Time) (*reply, error) {
	wasSent := false
	for failures := 1; ; failures++ {
		reply, err := c.client.post(ctx, path, body, c.client.requestTimeout)
		var passing *passing
		if !errors.As(err, &passing) {
			return reply, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		wasSent = wasSent || passing.wasSent
		delay := max(backoff(failures, 20*time.Millisecond, time.Second, 2), passing.retryAfter)
		if time.Now().Add(delay).After(giveUpAt) {
			if wasSent {
				err := c.fail(ErrNotKnown, 0, "the begin of "+c.name()+" was not answered: "+passing.text)
				err.Retryable = true
				return nil, err
			}
			err := c.fail(ErrUnreachable, 0, "the server cannot be reached: "+passing.text)
			err.Retryable = true
			return nil, err
		}
		if err := sleep(ctx, delay); err != nil {
			return nil, err
		}
	}
}

func (c *call) fence(begun *started) map[string]any {
	return map[string]any{"scope": c.operation.Scope, "key": c.operation.Key, "owner": begun.Owner, "attempt": begun.Attempt}
}

func (c *call) renewal(begun *started) map[string]any {
	body := c.fence(begun)
	body["leaseMs"] = c.operation.Lease.Milliseconds()
	return body
}

func (c *call) execute(ctx context.Context, begun *started, found *Reconciled) (*outcome, error) {
	operation := c.operation
	attempt := Attempt{Scope: operation.Scope, Key: operation.Key, EffectKey: EffectKey(operation.Scope, operation.Key), Number: begun.Attempt}
	handlerCtx, cancel := context.WithCancelCause(ctx)
	held := newLease(c, begun, cancel)
	go held.keep()
	defer cancel(nil)
	defer held.end()
	if found != nil {
		kept, settlement := c.settlementOf(found.value)
		settlement["note"] = "reconcile"
		if isOurs, err := c.save(ctx, begun, settlement, held); err != nil || !isOurs {
			return nil, orElse(err, c.lost(begun))
		}
		return &outcome{status: Replayed, attempt: begun.Attempt, kept: kept, value: found.value}, nil
	}
	value, err := c.runHandler(handlerCtx, attempt, begun, held)
	if err != nil {
		// The handler stopped because its lease is lost: there is nothing to settle.
		if held.isLost() && ctx.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(handlerCtx))) {
			return nil, context.Cause(handlerCtx)
		}
		if _, notSaved := c.save(ctx, begun, settlementOfError(err, begun.Effect, operation.KeepFailures), held); notSaved != nil {
			notSaved.Cause = err
			return nil, notSaved
		}
		return nil, err
	}
	kept, settlement := c.settlementOf(value)
	if isOurs, err := c.save(ctx, begun, settlement, held); err != nil || !isOurs {
		return nil, orElse(err, c.lost(begun))
	}
	return &outcome{status: Executed, attempt: begun.Attempt, kept: kept, value: value}, nil
}

// runHandler calls the handler. If that panics, the attempt is settled like one that returned an error, and the panic goes on.
func (c *call) runHandler(ctx context.Context, attempt Attempt, begun *started, held *lease) (value any, err error) {
	returned := false
	defer func() {
		if !returned {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			_, _ = c.save(ended, begun, settlementOfError(errPanic, begun.Effect, false), held)
		}
	}()
	value, err = c.handler(ctx, attempt)
	returned = true
	return value, err
}

var errPanic = errors.New("the handler panicked")

// save saves the outcome; isOurs is false if it was refused as stale. A failed save is not a failed operation: the effect has happened, so
// the save is retried until it is answered. The caller stops waiting after a minute, or when its context ends; a goroutine goes on.
func (c *call) save(ctx context.Context, begun *started, settlement map[string]any, held *lease) (isOurs bool, notSaved *Error) {
	bound := saveMax
	ended := ctx.Done()
	if ctx.Err() != nil {
		// The context ended while the handler ran, and the handler could react to it. The save still gets some time.
		bound, ended = cancelledSaveMax, nil
	}
	saved := make(chan bool, 1)
	held.hold()
	go func() {
		defer held.end()
		saved <- c.saveUntilAnswered(begun, settlement)
	}()
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case isOurs = <-saved:
		return isOurs, nil
	case <-timer.C:
	case <-ended:
	}
	message := fmt.Sprintf("attempt %d of %s ended, but its outcome is not saved yet; call again later with the same key", begun.Attempt, c.name())
	notSaved = c.fail(ErrNotSaved, begun.Attempt, message)
	notSaved.Retryable = true
	return false, notSaved
}

func (c *call) saveUntilAnswered(begun *started, settlement map[string]any) bool {
	var warnAt time.Time
	for failures := 1; ; failures++ {
		body := c.fence(begun)
		for name, value := range settlement {
			body[name] = value
		}
		reply, err := c.client.post(context.Background(), "/keys/settle", body, c.client.requestTimeout)
		var why string
		var retryAfter time.Duration
		var passing *passing
		switch {
		case errors.As(err, &passing):
			why, retryAfter = passing.text, passing.retryAfter
		case err != nil:
			why = err.Error()
		case reply.status == http.StatusOK && reply.answer.Attempt == begun.Attempt:
			return true
		case reply.status == http.StatusOK:
			why = "the answer is not that of the API"
		case reply.problem.Code == "LEASE_LOST":
			return false
		default:
			why = reply.text()
			// The server never accepts this value. Settle the key without it: the key must not become free because of that.
			if shorter := shorterThan(settlement); shorter != nil && isAboutTheRequest(reply.status) {
				c.client.log.Warn("onceflow: the server refused an outcome and gets it without its value", "key", c.operation.Key, "why", why)
				settlement = shorter
				continue
			}
		}
		if now := time.Now(); now.After(warnAt) {
			warnAt = now.Add(time.Minute)
			c.client.log.Warn("onceflow: an outcome is not saved yet; the save is retried until it succeeds", "key", c.operation.Key, "attempt", begun.Attempt, "why", why)
		}
		time.Sleep(max(backoff(failures, 20*time.Millisecond, time.Second, 2), retryAfter))
	}
}

func isAboutTheRequest(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge || status == http.StatusUnprocessableEntity
}

// shorterThan returns the settlement without its value, or nil if nothing can be left out.
func shorterThan(settlement map[string]any) map[string]any {
	shorter := copyOf(settlement)
	if text, ok := settlement["completed"].(json.RawMessage); ok && text != nil {
		shorter["completed"], shorter["kept"] = nil, false
		return shorter
	}
	if failed, ok := settlement["failed"].(Failure); ok && failed.Message != "" {
		shorter["failed"] = Failure{Name: "Error"}
		return shorter
	}
	return nil
}

// settlementOf returns the JSON of a result, and the settlement. A result that cannot be stored does not undo the effect: the key
// completes without it.
func (c *call) settlementOf(value any) (json.RawMessage, map[string]any) {
	text, err := encode(value)
	if err != nil {
		c.client.log.Warn("onceflow: a result could not be stored; replays return ErrResultNotKept", "key", c.operation.Key, "why", err.Error())
		return nil, map[string]any{"completed": nil, "kept": false}
	}
	return text, map[string]any{"completed": text}
}

// settlementOfError says how an attempt whose handler failed is settled, by its effect class. The note has no message, which may contain secrets.
func settlementOfError(err error, effect Effect, keepFailures bool) map[string]any {
	note := fmt.Sprintf("%.100s", reflect.TypeOf(err).String())
	if applied := new(notApplied); errors.As(err, &applied) {
		return map[string]any{"free": true, "note": "NotApplied"}
	}
	if effect != Idempotent && effect != Keyed {
		return map[string]any{"unknown": true, "note": note}
	}
	if keepFailures {
		message := strings.ToValidUTF8(err.Error(), "\ufffd")
		for len(message) > 4096 {
			_, size := utf8.DecodeLastRuneInString(message)
			message = message[:len(message)-size]
		}
		return map[string]any{"failed": Failure{Name: note, Message: message}, "note": note}
	}
	return map[string]any{"free": true, "note": note}
}

func (c *call) replay(reply *reply) (*outcome, error) {
	answer := reply.answer
	switch {
	case answer.Status != "replayed":
		return nil, c.notValid()
	case answer.State == "failed":
		failure := answer.Error
		if failure == nil {
			failure = &Failure{Name: "Error"}
		}
		err := c.fail(ErrOperationFailed, answer.Attempt, strings.TrimSuffix(failure.Name+": "+failure.Message, ": "))
		err.Failure = failure
		return nil, err
	case answer.State != "completed":
		return nil, c.notValid()
	case answer.Kept != nil && !*answer.Kept:
		return nil, c.fail(ErrResultNotKept, answer.Attempt, c.name()+" completed, but its result could not be stored; it does not run again")
	case answer.Value == nil:
		err := c.fail(ErrServerRefused, answer.Attempt, c.name()+` completed; the server does not show its result, because the token lacks the role "values"`)
		err.Status, err.ServerCode = reply.status, "VALUES_HIDDEN"
		return nil, err
	}
	return &outcome{status: Replayed, attempt: answer.Attempt, kept: answer.Value}, nil
}

func (c *call) refusal(reply *reply) *Error {
	attempt := reply.problem.Attempt
	var err *Error
	switch {
	case reply.problem.Code == "MISMATCH":
		err = c.fail(ErrMismatch, attempt, c.name()+" was already used with a different input; use a new key for a new operation")
	case reply.problem.Code == "UNKNOWN_OUTCOME":
		err = c.fail(ErrUnknownOutcome, attempt, fmt.Sprintf("it is not known whether attempt %d of %s had its effect; an operator resolves the key", attempt, c.name()))
	case reply.problem.Code == "GONE":
		err = c.fail(ErrGone, attempt, c.name()+" was settled, but its outcome has expired, so this late call is refused")
	case isAboutTheRequest(reply.status):
		err = c.fail(ErrInvalidInput, 0, "the server refused the request: "+reply.text())
	default:
		err = c.fail(ErrServerRefused, attempt, "the server refused the request: "+reply.text())
	}
	err.Status, err.ServerCode = reply.status, reply.problem.Code
	return err
}

func (c *call) lost(begun *started) *Error {
	message := fmt.Sprintf("attempt %d of %s lost its lease: another attempt took over, or the outcome was resolved by an operator. Call again with the same key to get the outcome", begun.Attempt, c.name())
	err := c.fail(ErrLeaseLost, begun.Attempt, message)
	err.Retryable = true
	return err
}

func (c *call) tooSlow() *Error {
	err := c.fail(ErrNotKnown, 0, "the lease of "+c.name()+" ends before the answers arrive; raise Lease")
	err.Retryable = true
	return err
}

func (c *call) notValid() *Error {
	err := c.fail(ErrServerRefused, 0, "the answer of the server is not valid; the URL must be that of the API")
	err.Status = http.StatusOK
	return err
}

func (c *call) fail(kind error, attempt int, message string) *Error {
	return &Error{Code: string(kind.(code)), Message: message, Scope: c.operation.Scope, Key: c.operation.Key, Attempt: attempt}
}

func (c *call) name() string {
	if c.operation.Scope == "" {
		return fmt.Sprintf("key %q", c.operation.Key)
	}
	return fmt.Sprintf("key %q in scope %q", c.operation.Key, c.operation.Scope)
}

// lease is renewed until every holder has ended: the handler, and the goroutine that saves its outcome. It is lost if the server says that
// it is stale, or could not be reached until it expired; then the context of the handler ends.
type lease struct {
	call    *call
	begun   *started
	cancel  context.CancelCauseFunc
	until   time.Time
	stop    chan struct{}
	holders atomic.Int32
	lost    atomic.Bool
}

func newLease(c *call, begun *started, cancel context.CancelCauseFunc) *lease {
	held := &lease{call: c, begun: begun, cancel: cancel, until: begun.sentAt.Add(c.operation.Lease), stop: make(chan struct{})}
	held.holders.Store(1)
	return held
}

func (l *lease) hold() { l.holders.Add(1) }

func (l *lease) end() {
	if l.holders.Add(-1) == 0 {
		close(l.stop)
	}
}

func (l *lease) isLost() bool { return l.lost.Load() }

func (l *lease) keep() {
	length := l.call.operation.Lease
	timer := time.NewTimer(time.Until(l.until.Add(-length * 2 / 3)))
	defer timer.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-timer.C:
		}
		sentAt := time.Now()
		// At least a short time: a process that was stopped for longer than its lease asks before it gives up.
		limit := max(time.Until(l.until), min(time.Second, length))
		reply, err := l.call.client.post(context.Background(), "/keys/renew", l.call.renewal(l.begun), min(limit, l.call.client.requestTimeout))
		switch {
		case err == nil && reply.status == http.StatusOK && reply.answer.Attempt == l.begun.Attempt:
			l.until = sentAt.Add(length)
			timer.Reset(length / 3)
			continue
		case err == nil && reply.problem.Code == "LEASE_LOST":
			l.lose("it expired, and another attempt took over or the outcome was resolved by an operator")
			return
		case !time.Now().Before(l.until):
			l.lose("the server could not be reached until it expired")
			return
		}
		timer.Reset(min(length/10, time.Second))
	}
}

func (l *lease) lose(why string) {
	err := l.call.fail(ErrLeaseLost, l.begun.Attempt, fmt.Sprintf("attempt %d of %s lost its lease: %s", l.begun.Attempt, l.call.name(), why))
	err.Retryable = true
	l.lost.Store(true)
	l.cancel(err)
}

// ------------------------------------------------------------------------------------------------------------------------- HTTP

// passing: the request may succeed later. wasSent: the server may have executed it.
type passing struct {
	text       string
	wasSent    bool
	retryAfter time.Duration
}

func (p *passing) Error() string { return p.text }

// reply is an answer that is final: 200, or a problem (RFC 9457) with a code.
type reply struct {
	status     int
	retryAfter time.Duration
	answer     struct {
		Status, State, Owner string
		Attempt              int
		Effect               Effect
		Kept                 *bool
		Value                json.RawMessage
		Error                *Failure
	}
	problem struct {
		Code, Title, Detail string
		Attempt             int
		Effect              Effect
		RetryAfterMs        int64
		ReconcileInMs       int64
	}
}

var controls = regexp.MustCompile(`[\x00-\x1f\x7f-\x{9f}\x{2028}\x{2029}]`)

// text is what the server said. It goes into messages and logs: one short line.
func (r *reply) text() string {
	said := r.problem.Detail
	if said == "" {
		said = orDefault(r.problem.Title, "no problem document")
	}
	return fmt.Sprintf("%.500s", controls.ReplaceAllString(fmt.Sprintf("%d %s %s", r.status, r.problem.Code, said), " "))
}

func (c *Client) post(ctx context.Context, path string, body map[string]any, limit time.Duration) (*reply, error) {
	sent, err := json.Marshal(body)
	if err != nil {
		return nil, invalid("request", "cannot be encoded")
	}
	ctx, cancel := context.WithTimeout(ctx, min(limit, c.requestTimeout))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, bytes.NewReader(sent))
	if err != nil {
		return nil, invalid("URL", "is not a valid URL")
	}
	request.Header.Set("content-type", "application/json")
	request.Header.Set("accept", "application/json, application/problem+json")
	request.Header.Set("user-agent", "onceflow-go")
	if c.authorization != "" {
		request.Header.Set("authorization", c.authorization)
	}
	response, err := c.http.Do(request)
	if err != nil {
		if certificate := new(tls.CertificateVerificationError); errors.As(err, &certificate) {
			return nil, &Error{Code: "SERVER_REFUSED", Message: c.url + ": the certificate of the server is not trusted (TLS)"}
		}
		var operation *net.OpError
		isDial := errors.As(err, &operation) && operation.Op == "dial"
		return nil, &passing{text: c.url + ": " + whyOf(err), wasSent: !isDial}
	}
	defer response.Body.Close()
	received, err := io.ReadAll(io.LimitReader(response.Body, c.bytesMax+1))
	if err != nil {
		return nil, &passing{text: c.url + ": " + whyOf(err), wasSent: true}
	}
	var retryAfter time.Duration
	if seconds, err := strconv.ParseUint(response.Header.Get("retry-after"), 10, 20); err == nil {
		retryAfter = min(time.Duration(seconds)*time.Second, time.Minute)
	}
	switch status := response.StatusCode; {
	case status >= 500 || status == 408 || status == 425 || status == 429:
		return nil, &passing{text: fmt.Sprintf("%s answered %d", c.url, status), wasSent: true, retryAfter: retryAfter}
	case int64(len(received)) > c.bytesMax:
		return nil, &Error{Code: "SERVER_REFUSED", Status: status, Message: fmt.Sprintf("%s: the answer is longer than %d bytes (ResponseBytesMax)", c.url, c.bytesMax)}
	}
	result := &reply{status: response.StatusCode, retryAfter: retryAfter}
	if result.status == http.StatusOK {
		if err := json.Unmarshal(received, &result.answer); err != nil {
			return nil, &Error{Code: "SERVER_REFUSED", Status: result.status, Message: c.url + ": the answer is not JSON; the URL must be that of the API"}
		}
		return result, nil
	}
	if json.Unmarshal(received, &result.problem) == nil && result.problem.RetryAfterMs > 0 {
		result.retryAfter = time.Duration(result.problem.RetryAfterMs) * time.Millisecond
	}
	return result, nil
}

// whyOf names the reason without the request, which errors of net/http quote.
func whyOf(err error) string {
	var timeout net.Error
	if errors.Is(err, context.DeadlineExceeded) || (errors.As(err, &timeout) && timeout.Timeout()) {
		return "no answer within the time limit"
	}
	var operation *net.OpError
	if errors.As(err, &operation) && operation.Op == "dial" {
		return "the connection was refused or failed"
	}
	return "the connection was closed before the answer"
}

// ------------------------------------------------------------------------------------------------------------------------- checks

func invalid(field, problem string) *Error {
	return &Error{Code: string(ErrInvalidInput.(code)), Message: field + ": " + problem}
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func checkName(field, text string) error {
	if text == "" && field == "Key" {
		return invalid(field, "is empty; it must name one logical operation")
	}
	if !utf8.ValidString(text) {
		return invalid(field, "is not valid UTF-8")
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
		return invalid(field, "has control characters; use printable text")
	}
	if len(text) > keyBytesMax {
		return invalid(field, fmt.Sprintf("is %d bytes long; %d are allowed. Hash long parts", len(text), keyBytesMax))
	}
	return nil
}

// encode returns a value as JSON. It refuses what would arrive as another value: two inputs could then look the same, or a replay return
// something else.
func encode(value any) (json.RawMessage, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, errors.New("cannot be encoded as JSON")
	}
	if hasReplacement(text) {
		return nil, errors.New("has text that is not valid UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	for depth := 0; ; {
		token, err := decoder.Token()
		if err == io.EOF {
			return text, nil
		}
		if err != nil {
			return nil, errors.New("cannot be encoded as JSON")
		}
		switch token := token.(type) {
		case json.Delim:
			if depth += map[json.Delim]int{'{': 1, '[': 1, '}': -1, ']': -1}[token]; depth > depthMax {
				return nil, fmt.Errorf("is nested deeper than %d levels", depthMax)
			}
		case json.Number:
			if !fits(string(token)) {
				return nil, errors.New("has an integer beyond 2^53, which JSON numbers cannot hold; turn it into a string")
			}
		}
	}
}

// hasReplacement reports whether json.Marshal has replaced bytes that are not UTF-8: it writes the replacement as an escape, and a
// replacement character that was in the text as it is.
func hasReplacement(text []byte) bool {
	for i := 0; i+5 < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		if strings.EqualFold(string(text[i+1:i+6]), "ufffd") {
			return true
		}
		i++
	}
	return false
}

func fits(number string) bool {
	if strings.ContainsAny(number, ".eE") {
		_, err := strconv.ParseFloat(number, 64)
		return err == nil
	}
	whole, err := strconv.ParseInt(number, 10, 64)
	return err == nil && whole <= integerMax && whole >= -integerMax
}

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

func orElse(err *Error, other *Error) *Error {
	if err != nil {
		return err
	}
	return other
}

func copyOf(members map[string]any) map[string]any {
	copied := make(map[string]any, len(members)+2)
	for name, value := range members {
		copied[name] = value
	}
	return copied
}

// backoff is random between half and all of a delay that grows: callers that failed together do not come back together.
func backoff(failures int, low, high time.Duration, factor float64) time.Duration {
	delay := float64(low)
	for i := 1; i < failures && delay < float64(high); i++ {
		delay *= factor
	}
	return time.Duration(min(delay, float64(high)) * (0.5 + mathrand.Float64()/2))
}

func sleep(ctx context.Context, delay time.Duration) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
