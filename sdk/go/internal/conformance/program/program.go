// Package program has the command line of the programs that the conformance suite starts.
package program

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	flowdsl "github.com/onceflow/onceflow/sdk/go"
	"github.com/onceflow/onceflow/sdk/go/filestore"
	"github.com/onceflow/onceflow/sdk/go/internal/conformance/nodes"
)

// Serve is flowdsl.Serve, or the same for another transport.
type Serve func(ctx context.Context, options flowdsl.Options, nodes ...flowdsl.Node) error

// Main reads the command line, serves the nodes until SIGTERM, and prints {"url":"…"} when the server listens.
func Main(servers map[string]Serve) {
	if err := run(servers); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(servers map[string]Serve) error {
	protocol := flag.String("protocol", "http", "http or grpc")
	port := flag.Int("port", 0, "port on 127.0.0.1; 0: a free one")
	dedupe := flag.String("dedupe", "memory", "memory or file:PATH")
	token := flag.String("token", "", "token that callers need")
	concurrency := flag.Int("concurrency", 0, "invocations at a time")
	certFile := flag.String("tls-cert", "", "PEM file")
	keyFile := flag.String("tls-key", "", "PEM file")
	clientCAFile := flag.String("tls-client-ca", "", "PEM file: accept only clients with a certificate of these authorities")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flag.Arg(0))
	}
	serve, ok := servers[*protocol]
	if !ok {
		return fmt.Errorf("this program does not serve %q", *protocol)
	}
	options := flowdsl.Options{
		Addr: fmt.Sprintf("127.0.0.1:%d", *port), Token: *token, Concurrency: *concurrency,
		CertFile: *certFile, KeyFile: *keyFile, ClientCAFile: *clientCAFile,
		Logger:   slog.New(slog.NewTextHandler(os.Stderr, nil)),
		OnListen: func(url string) { _ = json.NewEncoder(os.Stdout).Encode(map[string]string{"url": url}) },
	}
	if path, isFile := strings.CutPrefix(*dedupe, "file:"); isFile {
		store, err := filestore.Open(path, filestore.Options{})
		if err != nil {
			return err
		}
		defer store.Close()
		options.Dedupe = store
	} else if *dedupe != "memory" {
		return fmt.Errorf("--dedupe must be memory or file:PATH, not %q", *dedupe)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return serve(ctx, options, nodes.All()...)
}
