package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// ErrAddressInUse: somebody else listens there.
var ErrAddressInUse = errors.New("address already in use")

const (
	readHeaderTimeout = 32 * time.Second // upstream's
	idleTimeout       = 90 * time.Second // upstream's
	streams           = 100              // per HTTP/2 connection, upstream's: what clients assume before they are told
	window            = 256 << 10        // of a stream, and of a frame, upstream's
	defaultGrace      = 10 * time.Second
	defaultStall      = 30 * time.Second
)

// Options of a Server; the zero value is good.
type Options struct {
	// Drain, if set, is called when the shutdown begins: it ends requests that would last for
	// ever, such as watches. It must not block.
	Drain func()
	// Grace is how long requests may go on after that; 0 is 10 s.
	Grace time.Duration
	// Stall is how long a client may take in nothing of what is sent to it over HTTP/2 before its connection is closed;
	// 0 is 30 s. All requests of a connection wait for one such, and cannot be ended one by one.
	Stall  time.Duration
	Logger *slog.Logger
}

// Server serves one handler at one address.
type Server struct {
	listener net.Listener
	http     *http.Server
	drain    func()
	grace    time.Duration
}

// Listen opens a TCP address, as host:port; port 0 takes a free one.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen address %q: %w; write it as HOST:PORT, as in 127.0.0.1:6443", address, err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%w: %s; end what listens there or choose another port (0 takes a free one)", ErrAddressInUse, address)
	}
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", address, err)
	}
	return l, nil
}

// New returns a server that shows certificate to its clients. It takes the listener over.
func New(l net.Listener, certificate tls.Certificate, handler http.Handler, o Options) *Server {
	if o.Grace <= 0 {
		o.Grace = defaultGrace
	}
	if o.Stall <= 0 {
		o.Stall = defaultStall
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Drain == nil {
		o.Drain = func() {}
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{certificate},
		MinVersion:   tls.VersionTLS12,
		ClientAuth:   tls.RequestClientCert,
		NextProtos:   []string{"h2", "http/1.1"},
	}
	s := &Server{
		listener: tls.NewListener(l, config),
		http: &http.Server{
			Handler: handler, TLSConfig: config, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout,
			HTTP2: &http.HTTP2Config{
				MaxConcurrentStreams: streams, MaxReadFrameSize: window,
				MaxReceiveBufferPerStream: window, MaxReceiveBufferPerConnection: streams * window,
				WriteByteTimeout: o.Stall,
			},
			ErrorLog: slog.NewLogLogger(quiet{o.Logger.Handler()}, slog.LevelDebug),
		},
		drain: o.Drain, grace: o.Grace,
	}
	lean(s.http)
	return s
}

// Address is where the server listens.
func (s *Server) Address() net.Addr { return s.listener.Addr() }

// Run serves until ctx ends. Then it takes no more connections, waits for the requests under way up to
// Options.Grace and cuts off what is left, which is an error.
func (s *Server) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(s.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", errors.Join(err, s.http.Close()))
	case <-ctx.Done():
	}
	s.drain()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.grace)
	defer cancel()
	err := s.http.Shutdown(grace)
	if err != nil {
		err = fmt.Errorf("requests were cut off, still running %v after the shutdown began: %w", s.grace, errors.Join(err, s.http.Close()))
	}
	if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, failed)
	}
	return err
}

// quiet is the log of net/http, whose lines are about clients that misbehave: what somebody else does
// wrong is no error here.
type quiet struct{ slog.Handler }

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Message = strings.TrimPrefix(strings.TrimSpace(r.Message), "http: ")
	return q.Handler.Handle(ctx, r)
}
