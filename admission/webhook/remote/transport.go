package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
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
	roots  string // of its certificate, PEM; empty means the system's
	server string // the name in its certificate; empty means the host's
	http1  bool   // no HTTP/2, whose connections would bind all calls to one endpoint
}

// transports keeps the transports that were used last.
type transports struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu    sync.Mutex
	clock uint64
	known map[identity]*used
}

type used struct {
	*http.Transport
	last uint64 // by the clock
}

func (t *transports) transport(is identity) (*http.Transport, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clock++
	if u := t.known[is]; u != nil {
		u.last = t.clock
		return u.Transport, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: is.server}
	if is.roots != "" {
		var err error
		if config.RootCAs, err = pool([]byte(is.roots)); err != nil {
			return nil, fmt.Errorf("unable to load root certificates: %w", err)
		}
	}
	if len(t.known) >= maxTransports {
		t.drop()
	}
	u := &used{&http.Transport{
		DialContext: t.dial, TLSClientConfig: config, TLSHandshakeTimeout: handshakeTime, ForceAttemptHTTP2: !is.http1,
		MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: maxIdleTime,
	}, t.clock}
	t.known[is] = u
	return u.Transport, nil
}

// drop forgets the transport that was not used for longest. Its calls go on.
func (t *transports) drop() {
	var oldest identity
	last := t.clock
	for is, u := range t.known {
		if u.last < last {
			oldest, last = is, u.last
		}
	}
	t.known[oldest].CloseIdleConnections()
	delete(t.known, oldest)
}

func (t *transports) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, u := range t.known {
		u.CloseIdleConnections()
	}
}

// pool reads roots; the errors are upstream's.
func pool(text []byte) (*x509.CertPool, error) {
	roots := x509.NewCertPool()
	if roots.AppendCertsFromPEM(text) {
		return roots, nil
	}
	for block, rest := pem.Decode(text); ; block, rest = pem.Decode(rest) {
		if block == nil {
			return nil, errors.New("unable to parse bytes as PEM block")
		}
		if block.Type == "CERTIFICATE" && len(block.Headers) == 0 {
			if _, err := x509.ParseCertificate(block.Bytes); err != nil {
				return nil, fmt.Errorf("failed to parse certificate: %w", err)
			}
		}
		if len(rest) == 0 {
			return nil, errors.New("no valid certificate authority data seen")
		}
	}
}
