package flowdsl

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Reason says which part of the server made a Failure. Transports choose their status by it.
type Reason int

// The reasons of failures.
const (
	// ReasonNode: the node returned a NodeError, or the key was used with other inputs.
	ReasonNode Reason = iota
	// ReasonException: the node returned another error, or panicked.
	ReasonException
	// ReasonDeadline: the deadline passed before the node returned.
	ReasonDeadline
	// ReasonUnknownNode: the server has no node with the operationId.
	ReasonUnknownNode
	// ReasonUnauthorized: the token is missing or wrong.
	ReasonUnauthorized
	// ReasonBusy: the concurrency limit is reached.
	ReasonBusy
	// ReasonStopping: the server stops.
	ReasonStopping
	// ReasonMalformed: the request is not one of the protocol.
	ReasonMalformed
	// ReasonTooLarge: the request is larger than the limit.
	ReasonTooLarge
)

// Failure is a failed invocation, as the runtime sees it.
type Failure struct {
	Code       ErrorCode
	Message    string
	RetryAfter time.Duration
	Reason     Reason
	// Cause is the error that the node returned, if it returned one. It does not go to the runtime.
	Cause error
}

func (f *Failure) Error() string { return fmt.Sprintf("%s: %s", f.Code, f.Message) }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Cause }

// Malformed returns the failure of a request that is not one of the protocol.
func Malformed(format string, values ...any) *Failure {
	return &Failure{Code: ErrCodeValidation, Message: "malformed request: " + fmt.Sprintf(format, values...), Reason: ReasonMalformed}
}

func mismatch(key string) *Failure {
	message := fmt.Sprintf("idempotency key %q was used with other inputs; its template is probably too general", short(key, 200))
	return &Failure{Code: ErrCodeValidation, Message: message}
}

func timedOut(limit time.Duration) *Failure {
	message := fmt.Sprintf("the node did not return within %v", limit.Round(time.Millisecond))
	return &Failure{Code: ErrCodeTimeout, Message: message, Reason: ReasonDeadline}
}

const messageMax = 4000

// failureOf makes a failure of an error that a node returned. ctx is the context of the call.
func failureOf(ctx context.Context, err error) *Failure {
	failure := classify(ctx, err)
	failure.Cause = err
	return failure
}

func classify(ctx context.Context, err error) *Failure {
	var node *NodeError
	switch {
	case errors.As(err, &node) && node.Code.Known():
		return &Failure{Code: node.Code, Message: short(node.Message, messageMax), RetryAfter: node.RetryAfter}
	case node != nil:
		message := fmt.Sprintf("the node returned the error code %q; the codes are %s: %s", node.Code, codeList(), node.Message)
		return &Failure{Code: ErrCodeTemporary, Message: short(message, messageMax), Reason: ReasonException}
	case errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &Failure{Code: ErrCodeTimeout, Message: "the deadline passed before the node returned", Reason: ReasonDeadline}
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return &Failure{Code: ErrCodeTemporary, Message: "the server stopped before the node returned", Reason: ReasonStopping}
	}
	return &Failure{Code: ErrCodeTemporary, Message: short(err.Error(), messageMax), Reason: ReasonException}
}

func short(text string, bytesMax int) string {
	if len(text) <= bytesMax {
		return text
	}
	end := bytesMax
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
