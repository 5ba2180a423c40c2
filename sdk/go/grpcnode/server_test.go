package grpcnode_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	flowdsl "github.com/onceflow/onceflow/sdk/go"
	"github.com/onceflow/onceflow/sdk/go/grpcnode"
	"github.com/onceflow/onceflow/sdk/go/grpcnode/nodev1"
	"github.com/onceflow/onceflow/sdk/go/internal/conformance/nodes"
	"github.com/onceflow/onceflow/sdk/go/internal/testcert"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

func start(t *testing.T, options flowdsl.Options, security credentials.TransportCredentials, served ...flowdsl.Node) nodev1.NodeServiceClient {
	t.Helper()
	options.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	server, err := grpcnode.NewNodeServer(options, served...)
	if err != nil {
		t.Fatal(err)
	}
	_, address, _ := strings.Cut(server.URL(), "://")
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(security))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = connection.Close()
		server.Stop()
	})
	return nodev1.NewNodeServiceClient(connection)
}

func request(operation, key, packet string) *nodev1.InvokeRequest {
	made := &nodev1.InvokeRequest{OperationId: operation, FlowId: "f", NodeId: "N", Attempt: 1, InputsJson: map[string][]byte{"in": []byte(packet)}}
	if key != "" {
		made.IdempotencyKey = &key
	}
	return made
}

func TestInvokeKeepsNumbersAndAnswers(t *testing.T) {
	client := start(t, flowdsl.Options{}, insecure.NewCredentials(), nodes.All()...)
	packet := `{"a":9223372036854775807,"b":1.0,"c":1e400}`
	for _, replayed := range []bool{false, true} {
		response, err := client.Invoke(context.Background(), request("echo", "k", packet))
		if err != nil || response.GetReplayed() != replayed || string(response.GetOutputs()[0].GetDataJson()) != packet {
			t.Fatal(response, err)
		}
	}
	response, err := client.Invoke(context.Background(), request("echo", "k", `{"a":1}`))
	if err != nil || response.GetError().GetCode() != "VALIDATION" {
		t.Fatal(response, err)
	}
}

func TestStatuses(t *testing.T) {
	client := start(t, flowdsl.Options{Token: "geheim", BodyMax: 1000}, insecure.NewCredentials(), nodes.All()...)
	ctx := metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer geheim")
	badAttempt := request("echo", "", "{}")
	badAttempt.Attempt = 0
	for name, one := range map[string]struct {
		ctx     context.Context
		request *nodev1.InvokeRequest
		code    codes.Code
	}{
		"no token":     {context.Background(), request("echo", "", "{}"), codes.Unauthenticated},
		"unknown node": {ctx, request("nope", "", "{}"), codes.NotFound},
		"no JSON":      {ctx, request("echo", "", "{"), codes.InvalidArgument},
		"no attempt":   {ctx, badAttempt, codes.InvalidArgument},
		"too large":    {ctx, request("echo", "", `{"a":"`+strings.Repeat("x", 1000)+`"}`), codes.ResourceExhausted},
	} {
		if _, err := client.Invoke(one.ctx, one.request); status.Code(err) != one.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := client.Manifest(context.Background(), &nodev1.ManifestRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Error(err)
	}
	if health, err := client.Health(context.Background(), &nodev1.HealthRequest{}); err != nil || health.GetStatus() != nodev1.HealthResponse_SERVING {
		t.Error(health, err)
	}
	manifest, err := client.Manifest(ctx, &nodev1.ManifestRequest{})
	if err != nil || len(manifest.GetNodes()) != 6 || manifest.GetSdkLanguage() != "go" {
		t.Error(manifest, err)
	}
	panicked, err := client.Invoke(ctx, request("fail", "", `{"code":"PANIC","message":"secret"}`))
	if err != nil || panicked.GetError().GetCode() != "TEMPORARY" || strings.Contains(panicked.GetError().GetMessage(), "secret") {
		t.Error(panicked, err)
	}
}

func TestDeadlineEndsTheContextOfTheNode(t *testing.T) {
	ended := make(chan error, 1)
	node := flowdsl.NodeFunc("waits", func(ctx context.Context, _ flowdsl.NodeInput) (flowdsl.NodeOutput, error) {
		<-ctx.Done()
		ended <- ctx.Err()
		return flowdsl.NodeOutput{}, ctx.Err()
	})
	client := start(t, flowdsl.Options{}, insecure.NewCredentials(), node)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.Invoke(ctx, request("waits", "k", "{}")); status.Code(err) != codes.DeadlineExceeded {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestClientCertificates(t *testing.T) {
	files := testcert.Make(t)
	options := flowdsl.Options{CertFile: files.Cert, KeyFile: files.Key, ClientCAFile: files.CA}
	for name, certificates := range map[string][]tls.Certificate{"with": {files.Client}, "without": nil} {
		client := start(t, options, credentials.NewTLS(&tls.Config{RootCAs: files.Roots, Certificates: certificates}), nodes.All()...)
		if _, err := client.Invoke(context.Background(), request("echo", "", "{}")); (err == nil) != (name == "with") {
			t.Errorf("%s a certificate: %v", name, err)
		}
	}
}
