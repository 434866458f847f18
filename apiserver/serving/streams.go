package serving

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
)

// What a request holds while its handler waits is paid for each watch, of which there are thousands. For HTTP/2, whose
// requests have a goroutine each, net/http holds more than it needs: frames of the stack that fill in what is there
// already, enough to keep it from shrinking to 4 kB, and the request as it came, with all headers.

// lean lets HTTP/2 requests go straight to the server's handler.
func lean(s *http.Server) {
	_ = s.Serve(nowhere{}) // makes net/http set up its HTTP/2; it fails, as it has to
	serve := s.TLSNextProto["h2"]
	if serve == nil {
		return // switched off, by GODEBUG
	}
	s.TLSNextProto["h2"] = func(hs *http.Server, c *tls.Conn, h http.Handler) {
		serve(hs, c, &straight{whole: h, next: hs.Handler})
	}
}

// nowhere is a listener that nobody comes to.
type nowhere struct{}

func (nowhere) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (nowhere) Close() error              { return nil }
func (nowhere) Addr() net.Addr            { return &net.TCPAddr{} }

// straight serves the requests of one HTTP/2 connection.
type straight struct {
	whole http.Handler // what net/http would have serve them
	next  http.Handler
}

// BaseContext is how net/http's HTTP/2 finds the connection's context.
func (s *straight) BaseContext() context.Context {
	if b, ok := s.whole.(interface{ BaseContext() context.Context }); ok {
		return b.BaseContext()
	}
	return context.Background()
}

// ServeHTTP implements http.Handler. Its frame stays as long as the request: it is kept small.
func (s *straight) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.TLS == nil || r.RequestURI == "*" || s.next == nil:
		s.whole.ServeHTTP(w, r)
	case r.ContentLength != 0:
		s.next.ServeHTTP(w, r) // net/http clears up after who reads a form
	default:
		s.next.ServeHTTP(w, taken(r))
	}
}

// taken is a request that can be collected when its handler no longer needs it. net/http holds on to the one it made
// until the handler returns, but asks it only for what is left in it.
//
//go:noinline
func taken(r *http.Request) *http.Request {
	own := r.WithContext(r.Context())
	r.Header, r.URL, r.Body, r.RequestURI = nil, nil, nil, ""
	return own
}
