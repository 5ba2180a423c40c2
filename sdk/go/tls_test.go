package flowdsl_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	flowdsl "github.com/onceflow/onceflow/sdk/go"
	"github.com/onceflow/onceflow/sdk/go/internal/conformance/nodes"
	"github.com/onceflow/onceflow/sdk/go/internal/testcert"
)

func TestTLSAndClientCertificates(t *testing.T) {
	files := testcert.Make(t)
	with := flowdsl.Options{CertFile: files.Cert, KeyFile: files.Key}
	mutual := with
	mutual.ClientCAFile = files.CA
	for _, one := range []struct {
		name         string
		options      flowdsl.Options
		certificates []tls.Certificate
		ok           bool
	}{
		{"TLS", with, nil, true},
		{"mutual TLS with a client certificate", mutual, []tls.Certificate{files.Client}, true},
		{"mutual TLS without one", mutual, nil, false},
	} {
		t.Run(one.name, func(t *testing.T) {
			url := start(t, one.options, nodes.All()...)
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: files.Roots, Certificates: one.certificates}}}
			defer client.CloseIdleConnections()
			response, err := client.Post(url+invokeEcho, "application/json", strings.NewReader(body("k", `{"in":{"a":1}}`)))
			if !one.ok {
				if err == nil {
					t.Fatal("a client without a certificate was served")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if text, _ := io.ReadAll(response.Body); !strings.HasPrefix(url, "https://") || !strings.Contains(string(text), `{"a":1}`) {
				t.Errorf("%s: %s", url, text)
			}
		})
	}
}
