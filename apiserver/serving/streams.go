package serving

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
)

// What a request holds while its handler waits is multiplied by the number of watches, which may be thousands. For HTTP/2,
// whose requests have a goroutine each, net/http holds more than it needs: stack frames of handlers that fill in what is
// there already, enough to keep the stack from shrinking to 4 kB, and the original request with all its headers.

// lean passes HTTP/2 requests directly to the server's handler.
func lean(s *http.Server) {
	_ = s.Serve(nowhere{}) // makes net/http set up HTTP/2; it is meant to fail
	serve := s.TLSNextProto["h2"]
	if serve == nil {
		return // switched off, by GODEBUG
	}
	s.TLSNextProto["h2"] = func(hs *http.Server, c *tls.Conn, h http.Handler) {
		serve(hs, c, &straight{whole: h, next: hs.Handler})
	}
}

// nowhere is a listener that accepts no connections.
type nowhere struct{}

func (nowhere) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (nowhere) Close() error              { return nil }
func (nowhere) Addr() net.Addr            { return &net.TCPAddr{} }

// straight serves the requests of one HTTP/2 connection.
type straight struct {
	whole http.Handler // net/http's, which would serve them otherwise
	next  http.Handler
}

// BaseContext is how net/http's HTTP/2 gets the connection's context.
func (s *straight) BaseContext() context.Context {
	if b, ok := s.whole.(interface{ BaseContext() context.Context }); ok {
		return b.BaseContext()
	}
	return context.Background()
}

// ServeHTTP implements http.Handler. Its frame lasts as long as the request: it is kept small.
func (s *straight) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.TLS == nil || r.RequestURI == "*" || s.next == nil:
		s.whole.ServeHTTP(w, r)
	case r.ContentLength != 0:
		s.next.ServeHTTP(w, r) // net/http removes the files of a form that the handler read
	default:
		s.next.ServeHTTP(w, taken(r))
	}
}

// taken returns a request that is garbage as soon as its handler no longer needs it. net/http keeps the one it made until
// the handler returns, but uses only what is left in it.
//
//go:noinline
func taken(r *http.Request) *http.Request {
	own := r.WithContext(r.Context())
	r.Header, r.URL, r.Body, r.RequestURI = nil, nil, nil, ""
	return own
}
