package flowdsl

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// NodeServer serves nodes over HTTP.
type NodeServer struct {
	invoker  *Invoker
	listener net.Listener
	http     *http.Server
	security *tls.Config
	failed   chan error
}

// Serve serves nodes over HTTP until ctx ends, and stops in order: health answers 503, new invocations are refused, running ones have
// Options.Grace to end. It returns nil after that, and an error if the server cannot start or breaks down.
//
//	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
//	defer stop()
//	err := flowdsl.Serve(ctx, flowdsl.Options{Addr: "127.0.0.1:9000"}, &SmsAlertNode{})
func Serve(ctx context.Context, options Options, nodes ...Node) error {
	server, err := NewNodeServer(options, nodes...)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return server.Stop()
	case err := <-server.failed:
		server.invoker.Stop()
		return err
	}
}

// NewNodeServer starts a server that runs until Stop. Serve is the same with a context.
func NewNodeServer(options Options, nodes ...Node) (*NodeServer, error) {
	invoker, err := NewInvoker(options, nodes...)
	if err != nil {
		return nil, err
	}
	listener, security, err := options.Listen()
	if err != nil {
		return nil, err
	}
	server := &NodeServer{invoker: invoker, listener: listener, security: security, failed: make(chan error, 1)}
	server.http = &http.Server{
		Handler:           server.handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		TLSConfig:         security,
		ErrorLog:          log.New(debugWriter{invoker.options.Logger}, "", 0),
	}
	go func() {
		var err error
		if security == nil {
			err = server.http.Serve(listener)
		} else {
			err = server.http.ServeTLS(listener, "", "")
		}
		if !errors.Is(err, http.ErrServerClosed) {
			server.failed <- err
		}
	}()
	if options.OnListen != nil {
		options.OnListen(server.URL())
	}
	return server, nil
}

// URL returns the address of the server: "http://127.0.0.1:9000".
func (s *NodeServer) URL() string {
	scheme := "http"
	if s.security != nil {
		scheme = "https"
	}
	return scheme + "://" + s.listener.Addr().String()
}

// Stop stops the server as Serve does.
func (s *NodeServer) Stop() error {
	if left := s.invoker.Stop(); left > 0 {
		s.invoker.options.Logger.Warn("the server stops although invocations still run; their effects may or may not happen", "invocations", left)
	}
	// Answers that are on their way get a second more.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.http.Shutdown(ctx); err == nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return s.http.Close()
}

// debugWriter takes the messages of net/http, most of which are about clients that go away or fail in the TLS handshake.
type debugWriter struct{ logger *slog.Logger }

func (w debugWriter) Write(text []byte) (int, error) {
	w.logger.Debug("http", "message", string(text))
	return len(text), nil
}
