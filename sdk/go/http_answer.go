package flowdsl

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/onceflow/onceflow/sdk/go/internal/strictjson"
)

const (
	typeJSON  = "application/json; charset=utf-8"
	typeLines = "application/x-ndjson; charset=utf-8"
)

func (s *NodeServer) health(w http.ResponseWriter) {
	health := s.invoker.Health()
	status, text := http.StatusOK, "serving"
	if health.Stopping {
		status, text = http.StatusServiceUnavailable, "stopping"
	}
	writeJSON(w, status, struct {
		Status      string `json:"status"`
		InFlight    int    `json:"inFlight"`
		Concurrency int    `json:"concurrency"`
	}{text, health.InFlight, health.Concurrency})
}

func (s *NodeServer) manifest(w http.ResponseWriter) {
	type sdk struct {
		Language string `json:"language"`
		Version  string `json:"version"`
	}
	writeJSON(w, http.StatusOK, struct {
		Protocol string         `json:"protocol"`
		SDK      sdk            `json:"sdk"`
		Nodes    []ManifestNode `json:"nodes"`
	}{Protocol, sdk{"go", Version}, s.invoker.Manifest()})
}

func wantsLines(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "application/x-ndjson")
}

func writeAnswer(w http.ResponseWriter, r *http.Request, answer Answer) {
	if answer.Outputs == nil {
		answer.Outputs = []Output{}
	}
	if !wantsLines(r) {
		writeJSON(w, http.StatusOK, struct {
			Outputs  []Output `json:"outputs"`
			Replayed bool     `json:"replayed"`
		}{answer.Outputs, answer.Replayed})
		return
	}
	var body bytes.Buffer
	for _, output := range answer.Outputs {
		writeLine(&body, struct {
			Output Output `json:"output"`
		}{output})
	}
	writeLine(&body, struct {
		Done     bool `json:"done"`
		Replayed bool `json:"replayed"`
	}{true, answer.Replayed})
	send(w, http.StatusOK, typeLines, body.Bytes())
}

// statusOf is the status of a failure: the reason decides where the node did not, otherwise the code.
func statusOf(failure *Failure) int {
	switch failure.Reason {
	case ReasonException:
		return http.StatusInternalServerError
	case ReasonDeadline:
		return http.StatusGatewayTimeout
	case ReasonUnknownNode:
		return http.StatusNotFound
	case ReasonUnauthorized:
		return http.StatusUnauthorized
	case ReasonBusy:
		return http.StatusTooManyRequests
	case ReasonStopping:
		return http.StatusServiceUnavailable
	case ReasonMalformed:
		return http.StatusBadRequest
	case ReasonTooLarge:
		return http.StatusRequestEntityTooLarge
	}
	switch failure.Code {
	case ErrCodeValidation, ErrCodeInputMissing, ErrCodePermanent:
		return http.StatusUnprocessableEntity
	case ErrCodeTimeout:
		return http.StatusGatewayTimeout
	case ErrCodeRateLimited:
		return http.StatusTooManyRequests
	case ErrCodeNetwork:
		return http.StatusBadGateway
	}
	return http.StatusServiceUnavailable
}

func writeFailure(w http.ResponseWriter, r *http.Request, failure *Failure) {
	writeError(w, r, statusOf(failure), failure)
}

// writeError writes one JSON text, which is also one line of NDJSON: clients that asked for either can read it.
func writeError(w http.ResponseWriter, r *http.Request, status int, failure *Failure) {
	type errorBody struct {
		Code         ErrorCode `json:"code"`
		Message      string    `json:"message"`
		RetryAfterMs int64     `json:"retryAfterMs,omitempty"`
	}
	if failure.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64(math.Ceil(failure.RetryAfter.Seconds())), 10))
	}
	var body bytes.Buffer
	writeLine(&body, struct {
		Error errorBody `json:"error"`
	}{errorBody{failure.Code, failure.Message, failure.RetryAfter.Milliseconds()}})
	contentType := typeJSON
	if wantsLines(r) {
		contentType = typeLines
	}
	send(w, status, contentType, body.Bytes())
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	var body bytes.Buffer
	writeLine(&body, value)
	send(w, status, typeJSON, body.Bytes())
}

func writeLine(body *bytes.Buffer, value any) {
	text, err := strictjson.Text(value)
	if err != nil {
		// Outputs were checked when the node sent them, and messages are strings.
		text, _ = json.Marshal(map[string]any{"error": map[string]string{"code": "TEMPORARY", "message": "the answer cannot be written as JSON"}})
	}
	body.Write(text)
	body.WriteByte('\n')
}

const writeTimeout = 30 * time.Second

// send bounds the time of a client that does not read its answer.
func send(w http.ResponseWriter, status int, contentType string, body []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
