package grpcnode

import (
	"context"
	"errors"
	"net"
	"time"

	flowdsl "github.com/onceflow/onceflow/sdk/go"
	"github.com/onceflow/onceflow/sdk/go/grpcnode/nodev1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

// NodeServer serves nodes over gRPC.
type NodeServer struct {
	invoker  *flowdsl.Invoker
	grpc     *grpc.Server
	listener net.Listener
	scheme   string
	failed   chan error
}

// Serve serves nodes over gRPC until ctx ends, and stops as [flowdsl.Serve] does. The options are those of flowdsl.Serve.
func Serve(ctx context.Context, options flowdsl.Options, nodes ...flowdsl.Node) error {
	server, err := NewNodeServer(options, nodes...)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		server.Stop()
		return nil
	case err := <-server.failed:
		server.Stop()
		return err
	}
}

// NewNodeServer starts a server that runs until Stop. Serve is the same with a context.
func NewNodeServer(options flowdsl.Options, nodes ...flowdsl.Node) (*NodeServer, error) {
	invoker, err := flowdsl.NewInvoker(options, nodes...)
	if err != nil {
		return nil, err
	}
	listener, security, err := options.Listen()
	if err != nil {
		return nil, err
	}
	options = invoker.Options()
	settings := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(int(options.BodyMax)),
		grpc.MaxHeaderListSize(64 << 10),
		grpc.ConnectionTimeout(options.BodyTimeout),
		// Twice the concurrency: health checks and refusals need streams, too.
		grpc.MaxConcurrentStreams(uint32(options.Concurrency)*2 + 100),
		// A connection whose other side is gone is closed, and runtimes may ping as often.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	}
	scheme := "grpc"
	if security != nil {
		scheme = "grpcs"
		settings = append(settings, grpc.Creds(credentials.NewTLS(security)))
	}
	server := &NodeServer{invoker: invoker, grpc: grpc.NewServer(settings...), listener: listener, scheme: scheme, failed: make(chan error, 1)}
	nodev1.RegisterNodeServiceServer(server.grpc, &service{invoker: invoker})
	go func() {
		if err := server.grpc.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			server.failed <- err
		}
	}()
	if options.OnListen != nil {
		options.OnListen(server.URL())
	}
	return server, nil
}

// URL returns the address of the server: "grpc://127.0.0.1:9000", or "grpcs://…" with TLS.
func (s *NodeServer) URL() string { return s.scheme + "://" + s.listener.Addr().String() }

// Stop stops the server as Serve does.
func (s *NodeServer) Stop() {
	if left := s.invoker.Stop(); left > 0 {
		s.invoker.Options().Logger.Warn("the server stops although invocations still run; their effects may or may not happen", "invocations", left)
		s.grpc.Stop()
		return
	}
	// Answers that are on their way get a second more.
	ended := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(time.Second):
		s.grpc.Stop()
		<-ended
	}
}
