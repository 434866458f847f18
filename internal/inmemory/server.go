package inmemory

import (
	"context"
	"log"
	"net"
	"net/http"
	"sync"
)

// Server serves HTTP/1.1 over connections in memory. Make one with NewServer.
type Server struct {
	handler http.Handler

	mu       sync.Mutex
	closed   bool
	server   *http.Server // nil before the first connection
	accepted chan accepted
	end      context.CancelFunc
	running  sync.WaitGroup // the server, and requests, which may have taken their connections over
}

// accepted is the server's end of a connection.
type accepted struct {
	*Conn
	attach func(context.Context) context.Context
}

// NewServer returns a server for the handler. It needs no Close if it is never dialed.
func NewServer(h http.Handler) *Server { return &Server{handler: h} }

// Dial connects to the server, or fails with net.ErrClosed once that is closed. attach, if not nil, derives the context of the
// connection's requests, to which it can attach who makes them.
func (s *Server) Dial(ctx context.Context, attach func(context.Context) context.Context) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !s.start() {
		return nil, net.ErrClosed
	}
	client, server := Pipe()
	select {
	case s.accepted <- accepted{server, attach}:
		return client, nil
	case <-s.base().Done(): // closed in this moment
		return nil, net.ErrClosed
	}
}

func (s *Server) base() context.Context { return s.server.BaseContext(nil) }

// start starts the server unless it runs, and returns false if it is closed.
func (s *Server) start() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.server != nil {
		return !s.closed
	}
	base, end := context.WithCancel(context.Background())
	s.end, s.accepted = end, make(chan accepted)
	s.server = &http.Server{ //nolint:gosec // its clients are in this process
		Handler:     http.HandlerFunc(s.serve),
		BaseContext: func(net.Listener) context.Context { return base },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if a, _ := c.(accepted); a.attach != nil {
				return a.attach(ctx)
			}
			return ctx
		},
		ErrorLog: log.New(discard{}, "", 0),
	}
	s.running.Go(func() { _ = s.server.Serve(listener{s, base.Done()}) }) // it ends with its listener, which Close ends
	return true
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	s.running.Add(1)
	s.mu.Unlock()
	defer s.running.Done()
	s.handler.ServeHTTP(w, r)
}

// Close ends all requests through their contexts, closes all connections that were not taken over, and waits for all of it.
// It may be called more than once.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	server, end := s.server, s.end
	s.mu.Unlock()
	if server == nil {
		return
	}
	end()
	_ = server.Close() // connections in memory close without errors
	s.running.Wait()
}

// listener accepts what is dialed.
type listener struct {
	server *Server
	done   <-chan struct{}
}

func (l listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.server.accepted:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l listener) Close() error { return nil }

func (l listener) Addr() net.Addr { return address{} }

// discard drops what net/http says of connections that break off: their clients know.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
