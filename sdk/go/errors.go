package flowdsl

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrorCode says whether a failed delivery is retried.
type ErrorCode string

// The error codes of nodes. The first three are not retried: the packet becomes a dead letter at once.
const (
	ErrCodeValidation   ErrorCode = "VALIDATION"
	ErrCodeInputMissing ErrorCode = "INPUT_MISSING"
	ErrCodePermanent    ErrorCode = "PERMANENT"
	ErrCodeTimeout      ErrorCode = "TIMEOUT"
	ErrCodeRateLimited  ErrorCode = "RATE_LIMITED"
	ErrCodeTemporary    ErrorCode = "TEMPORARY"
	ErrCodeNetwork      ErrorCode = "NETWORK_ERROR"
)

var errorCodes = []ErrorCode{
	ErrCodeValidation, ErrCodeInputMissing, ErrCodePermanent,
	ErrCodeTimeout, ErrCodeRateLimited, ErrCodeTemporary, ErrCodeNetwork,
}

// Known reports whether c is one of the constants above.
func (c ErrorCode) Known() bool {
	for _, code := range errorCodes {
		if c == code {
			return true
		}
	}
	return false
}

// Retryable reports whether the runtime delivers the packet again, as the edge's retry policy says.
func (c ErrorCode) Retryable() bool {
	return c != ErrCodeValidation && c != ErrCodeInputMissing && c != ErrCodePermanent
}

// NodeError is an error that a node returns. Errors of any other type count as [ErrCodeTemporary].
type NodeError struct {
	Code ErrorCode
	// Message goes to the runtime, and into the history of the execution: no secrets.
	Message string
	// RetryAfter asks the runtime to wait at least this long. 0: the retry policy decides.
	RetryAfter time.Duration
	// Cause goes to the log of the server, not to the runtime.
	Cause error
}

// NewNodeError returns a NodeError. The cause may be nil.
func NewNodeError(code ErrorCode, message string, cause error) *NodeError {
	return &NodeError{Code: code, Message: message, Cause: cause}
}

// After returns a copy of the error that asks the runtime to wait at least this long before the next attempt.
func (e *NodeError) After(wait time.Duration) *NodeError {
	changed := *e
	changed.RetryAfter = wait
	return &changed
}

func (e *NodeError) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("%s: %s", e.Code, e.Message)
	}
	return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Cause)
}

// Unwrap returns the cause.
func (e *NodeError) Unwrap() error { return e.Cause }

// CodeOf returns the code of the first NodeError in err's chain, and ErrCodeTemporary for any other error.
func CodeOf(err error) ErrorCode {
	var node *NodeError
	if errors.As(err, &node) {
		return node.Code
	}
	return ErrCodeTemporary
}

func invalid(format string, values ...any) *NodeError {
	return NewNodeError(ErrCodeValidation, fmt.Sprintf(format, values...), nil)
}

func codeList() string {
	names := make([]string, len(errorCodes))
	for i, code := range errorCodes {
		names[i] = string(code)
	}
	return strings.Join(names, ", ")
}
