package flowdsl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"
)

// Options of a node server. The zero value serves on a free port of 127.0.0.1 and keeps answers in memory.
type Options struct {
	// Addr is "host:port". Default "127.0.0.1:0": loopback, and a free port.
	Addr string
	// Token is what a runtime sends as "Authorization: Bearer <token>". Empty: none is wanted.
	Token string
	// CertFile and KeyFile make the server use TLS. PEM files.
	CertFile, KeyFile string
	// ClientCAFile makes the server accept only clients with a certificate of these authorities (mutual TLS). A PEM file.
	ClientCAFile string
	// AllowUnauthenticated serves on an address other than loopback with neither Token nor ClientCAFile.
	AllowUnauthenticated bool

	// Dedupe keeps answers. Default: NewMemoryStore(KeepLimits{}).
	Dedupe DedupeStore
	// Concurrency is how many invocations the server takes at a time; waiting duplicates count. Default 100.
	Concurrency int
	// BodyMax is the size of a request in bytes. Default 10 MiB.
	BodyMax int64
	// BodyTimeout is the time that a client has to send a request. Default 30 s.
	BodyTimeout time.Duration
	// InvocationMax bounds the time of an invocation, if the request has no deadline or a later one. Default 1 hour.
	InvocationMax time.Duration
	// Grace is the time that running invocations have to end when the server stops. Default 10 s.
	Grace time.Duration

	// Logger gets panics with their stack, causes of errors, and answers that could not be kept. Default slog.Default().
	Logger *slog.Logger
	// OnListen is called when the server listens, with its URL.
	OnListen func(url string)
}

func (o Options) withDefaults() (Options, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	if o.Dedupe == nil {
		o.Dedupe = NewMemoryStore(KeepLimits{})
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Concurrency < 0 || o.BodyMax < 0 || o.BodyTimeout < 0 || o.InvocationMax < 0 || o.Grace < 0 {
		return o, errors.New("flowdsl: Concurrency, BodyMax, BodyTimeout, InvocationMax and Grace must not be negative")
	}
	setDefault(&o.Concurrency, 100)
	setDefault(&o.BodyMax, 10<<20)
	setDefault(&o.BodyTimeout, 30*time.Second)
	setDefault(&o.InvocationMax, time.Hour)
	setDefault(&o.Grace, 10*time.Second)
	return o, nil
}

func setDefault[T int | int64 | time.Duration](value *T, fallback T) {
	if *value == 0 {
		*value = fallback
	}
}

// Listen checks the address against the rules for strangers, reads the certificates, and opens the listener. TLS is nil without
// CertFile. It is for servers of other transports; Serve calls it.
func (o Options) Listen() (net.Listener, *tls.Config, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	security, err := o.tlsConfig()
	if err != nil {
		return nil, nil, err
	}
	if err := o.checkAddress(); err != nil {
		return nil, nil, err
	}
	listener, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, nil, fmt.Errorf("flowdsl: cannot listen on %s: %w", o.Addr, err)
	}
	return listener, security, nil
}

func (o Options) checkAddress() error {
	host, _, err := net.SplitHostPort(o.Addr)
	if err != nil {
		return fmt.Errorf(`flowdsl: Addr must be "host:port", for instance "127.0.0.1:9000": %w`, err)
	}
	loopback := host == "localhost" || net.ParseIP(host).IsLoopback()
	if loopback || o.Token != "" || o.ClientCAFile != "" || o.AllowUnauthenticated {
		return nil
	}
	return fmt.Errorf("flowdsl: %s can be reached by other machines: set Token or ClientCAFile, or AllowUnauthenticated if the network is trusted", o.Addr)
}

func (o Options) tlsConfig() (*tls.Config, error) {
	if o.CertFile == "" && o.KeyFile == "" {
		if o.ClientCAFile != "" {
			return nil, errors.New("flowdsl: ClientCAFile needs CertFile and KeyFile: client certificates are part of TLS")
		}
		return nil, nil
	}
	if o.CertFile == "" || o.KeyFile == "" {
		return nil, errors.New("flowdsl: CertFile and KeyFile belong together; one of them is missing")
	}
	certificate, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("flowdsl: CertFile and KeyFile: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}}
	if o.ClientCAFile == "" {
		return config, nil
	}
	authorities, err := os.ReadFile(o.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("flowdsl: ClientCAFile: %w", err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("flowdsl: ClientCAFile: %s has no PEM certificate", o.ClientCAFile)
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	return config, nil
}
