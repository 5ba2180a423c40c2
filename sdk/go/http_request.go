package flowdsl

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	invokePrefix = "/v1/nodes/"
	invokeSuffix = "/invoke"
)

// handler is the data path of a request: browser check, token, route.
func (s *NodeServer) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The deadline of the answer before this one on the same connection.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		path := r.URL.Path
		id, isInvoke := strings.CutPrefix(path, invokePrefix)
		if isInvoke {
			id, isInvoke = strings.CutSuffix(id, invokeSuffix)
		}
		// A page in a browser of this machine can reach a server on loopback, with any type if its name resolves to loopback. Runtimes send
		// neither header.
		if site := r.Header.Get("Sec-Fetch-Site"); r.Header.Get("Origin") != "" || (site != "" && site != "none") {
			s.refuse(w, r, http.StatusForbidden, "requests from web pages are refused")
			return
		}
		if path == "/v1/health" && isRead(r) {
			s.health(w)
			return
		}
		if failure := s.invoker.Authorize(r.Header.Get("Authorization")); failure != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			writeFailure(w, r, failure)
			return
		}
		switch {
		case path == "/v1/manifest" && isRead(r):
			s.manifest(w)
		case isInvoke && r.Method == http.MethodPost:
			s.invoke(w, r, id)
		case isInvoke:
			w.Header().Set("Allow", http.MethodPost)
			s.refuse(w, r, http.StatusMethodNotAllowed, "use POST")
		case path == "/v1/manifest" || path == "/v1/health":
			w.Header().Set("Allow", http.MethodGet)
			s.refuse(w, r, http.StatusMethodNotAllowed, "use GET")
		default:
			s.refuse(w, r, http.StatusNotFound, "no such path; see docs/reference/node-protocol.md")
		}
	})
}

func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

func (s *NodeServer) refuse(w http.ResponseWriter, r *http.Request, status int, message string) {
	writeError(w, r, status, &Failure{Code: ErrCodeTemporary, Message: message})
}

// invoke admits the request before it reads the body, so that the concurrency limit also bounds memory.
func (s *NodeServer) invoke(w http.ResponseWriter, r *http.Request, operationID string) {
	slot, failure := s.invoker.Admit()
	if failure != nil {
		writeFailure(w, r, failure)
		return
	}
	defer slot.Release()
	// A web page can send other types to a server on loopback without a preflight.
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		writeError(w, r, http.StatusUnsupportedMediaType, Malformed("Content-Type must be application/json"))
		return
	}
	body, failure := s.readBody(w, r)
	if failure == nil {
		var call Invocation
		if call, failure = parseInvocation(operationID, body); failure == nil {
			var answer Answer
			if answer, failure = s.invoker.Invoke(r.Context(), slot, call); failure == nil {
				writeAnswer(w, r, answer)
				return
			}
		}
	}
	writeFailure(w, r, failure)
}

func (s *NodeServer) readBody(w http.ResponseWriter, r *http.Request) ([]byte, *Failure) {
	options := s.invoker.options
	tooLarge := &Failure{Code: ErrCodeValidation, Message: fmt.Sprintf("the request is larger than %d bytes", options.BodyMax), Reason: ReasonTooLarge}
	if r.ContentLength > options.BodyMax {
		w.Header().Set("Connection", "close")
		return nil, tooLarge
	}
	connection := http.NewResponseController(w)
	// A deadline for the body alone: http.Server.ReadTimeout would also end requests whose node takes longer.
	_ = connection.SetReadDeadline(time.Now().Add(options.BodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, options.BodyMax))
	var large *http.MaxBytesError
	switch {
	case err == nil:
		_ = connection.SetReadDeadline(time.Time{})
		return body, nil
	case errors.As(err, &large):
		return nil, tooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		panic(http.ErrAbortHandler) // closes the connection
	}
	return nil, Malformed("the body ended early")
}
