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

// ErrAddressInUse says that the address is in use by another listener.
var ErrAddressInUse = errors.New("address already in use")

const (
	readHeaderTimeout = 32 * time.Second // upstream's
	idleTimeout       = 90 * time.Second // upstream's
	streams           = 100              // per HTTP/2 connection, upstream's, which clients assume at first
	window            = 256 << 10        // of a stream, and of a frame, upstream's
	defaultGrace      = 10 * time.Second
	defaultStall      = 30 * time.Second
)

// Options of a Server. The zero value is usable.
type Options struct {
	// Drain, if set, is called when the shutdown begins: it ends requests that do not end by themselves, such as watches.
	// It must not block.
	Drain func()
	// Grace is how long requests may take to finish after that. 0 is 10 s.
	Grace time.Duration
	// Stall is how long a client may read nothing of what is sent to it over HTTP/2 before its connection is closed. 0 is
	// 30 s. One request that stalls blocks all those of its connection, which cannot be ended one by one.
	Stall time.Duration
	// Logger gets what goes wrong. nil discards.
	Logger *slog.Logger
}

// Server serves one handler at one address.
type Server struct {
	listener net.Listener
	http     *http.Server
	drain    func()
	grace    time.Duration
}

// Listen listens at a TCP address, as host:port; port 0 takes a free one. The error wraps ErrAddressInUse if that is the
// reason.
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

// New returns a server that presents certificate to its clients. It takes over the listener.
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

// Address is the address at which the server listens.
func (s *Server) Address() net.Addr { return s.listener.Addr() }

// Run serves until ctx ends. Then it accepts no more connections, waits up to Options.Grace for the requests that are being
// served, and closes the connections of those that remain, which is an error.
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

// quiet is the log handler of net/http, whose lines are about clients that misbehave: their faults are not errors of the
// server.
type quiet struct{ slog.Handler }

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Message = strings.TrimPrefix(strings.TrimSpace(r.Message), "http: ")
	return q.Handler.Handle(ctx, r)
}
