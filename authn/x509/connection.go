package x509

import (
	"crypto/tls"
	"crypto/x509"
	"runtime"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/keelson-dev/keelson/authn"
)

// connections cache the identity of a connection's certificate, so that its chain is verified once and not for each
// request. The cache entry ends with the connection.
type connections struct {
	mu    sync.RWMutex
	known map[weak.Pointer[tls.ConnectionState]]*verified
}

// verified is a certificate found valid. It stays so while the same authorities are trusted and each certificate of its
// chain is valid.
type verified struct {
	certs       []*x509.Certificate
	roots       *x509.CertPool
	from, until time.Time
	identity    *authn.Identity
}

// good reports whether verifying again would give the same result.
func (v *verified) good(certs []*x509.Certificate, roots *x509.CertPool, now time.Time) bool {
	return v.roots == roots && !now.Before(v.from) && !now.After(v.until) && slices.Equal(v.certs, certs)
}

// find returns the identity of the certificates, if it is cached and still valid.
func (c *connections) find(state *tls.ConnectionState, roots *x509.CertPool) *authn.Identity {
	c.mu.RLock()
	v := c.known[weak.Make(state)]
	c.mu.RUnlock()
	if v == nil || !v.good(state.PeerCertificates, roots, time.Now()) {
		return nil
	}
	return v.identity
}

// keep caches the identity of the certificates, as verified by the chain.
func (c *connections) keep(state *tls.ConnectionState, roots *x509.CertPool, chain []*x509.Certificate, id *authn.Identity) {
	v := &verified{certs: slices.Clone(state.PeerCertificates), roots: roots, from: chain[0].NotBefore, until: chain[0].NotAfter, identity: id}
	for _, cert := range chain[1:] {
		if cert.NotBefore.After(v.from) {
			v.from = cert.NotBefore
		}
		if cert.NotAfter.Before(v.until) {
			v.until = cert.NotAfter
		}
	}
	key := weak.Make(state)
	c.mu.Lock()
	_, was := c.known[key]
	c.known[key] = v
	c.mu.Unlock()
	if !was {
		runtime.AddCleanup(state, c.forget, key)
	}
}

func (c *connections) forget(key weak.Pointer[tls.ConnectionState]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, key)
}
