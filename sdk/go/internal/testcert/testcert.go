// Package testcert makes certificates for tests: an authority, a server certificate for 127.0.0.1, and a client certificate.
package testcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Files are PEM files.
type Files struct {
	CA, Cert, Key string
	// Roots trusts the authority; Client has a certificate of the authority.
	Roots  *x509.CertPool
	Client tls.Certificate
}

// Make makes certificates that are valid for an hour.
func Make(t *testing.T) Files {
	t.Helper()
	folder := t.TempDir()
	authority, authorityKey := template("authority"), newKey(t)
	authority.IsCA, authority.BasicConstraintsValid, authority.KeyUsage = true, true, x509.KeyUsageCertSign
	authorityBytes := sign(t, authority, authority, authorityKey, authorityKey)
	server, serverKey := template("server"), newKey(t)
	server.IPAddresses, server.ExtKeyUsage = []net.IP{net.IPv4(127, 0, 0, 1)}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	client, clientKey := template("client"), newKey(t)
	client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	keyBytes, err := x509.MarshalPKCS8PrivateKey(serverKey)
	if err != nil {
		t.Fatal(err)
	}
	files := Files{
		CA:     write(t, folder, "ca.pem", "CERTIFICATE", authorityBytes),
		Cert:   write(t, folder, "cert.pem", "CERTIFICATE", sign(t, server, authority, serverKey, authorityKey)),
		Key:    write(t, folder, "key.pem", "PRIVATE KEY", keyBytes),
		Roots:  x509.NewCertPool(),
		Client: tls.Certificate{Certificate: [][]byte{sign(t, client, authority, clientKey, authorityKey)}, PrivateKey: clientKey},
	}
	parsed, err := x509.ParseCertificate(authorityBytes)
	if err != nil {
		t.Fatal(err)
	}
	files.Roots.AddCert(parsed)
	return files
}

func template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t *testing.T, certificate, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) []byte {
	t.Helper()
	text, err := x509.CreateCertificate(rand.Reader, certificate, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func write(t *testing.T, folder, name, kind string, text []byte) string {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: text}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
