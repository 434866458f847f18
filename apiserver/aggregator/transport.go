package aggregator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// Limits of connections: how many kinds are kept, how many idle ones of a kind, and how long.
const (
	maxTransports = 200
	maxIdle       = 25
	maxIdleTime   = 90 * time.Second
	handshakeTime = 10 * time.Second
)

// identity is what a connection depends on besides its address.
type identity struct {
	server   string // the name in its certificate
	roots    string // of its certificate, PEM; empty means the system's
	insecure bool   // its certificate is not verified
	http1    bool   // for upgrades, which HTTP/2 does not have
}

// transports keeps connections.
type transports struct {
	dial        func(ctx context.Context, network, address string) (net.Conn, error)
	certificate func() (*tls.Certificate, error)

	mu    sync.Mutex
	known map[identity]*http.Transport
}

func (t *transports) transport(is identity) (*http.Transport, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.known[is]; known != nil {
		return known, nil
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: is.server,
		InsecureSkipVerify: is.insecure, //nolint:gosec // the APIService asks for it
	}
	if is.roots != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(is.roots)) {
			return nil, errors.New("unable to load root certificates: unable to parse bytes as PEM block")
		}
	}
	if t.certificate != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return t.certificate() }
	}
	if len(t.known) >= maxTransports {
		for old, transport := range t.known {
			transport.CloseIdleConnections() // its requests go on
			delete(t.known, old)
			break
		}
	}
	made := &http.Transport{
		DialContext: t.dial, TLSClientConfig: config, TLSHandshakeTimeout: handshakeTime, ForceAttemptHTTP2: !is.http1,
		MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: maxIdleTime, DisableCompression: true,
	}
	t.known[is] = made
	return made, nil
}

func (t *transports) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, transport := range t.known {
		transport.CloseIdleConnections()
	}
}
