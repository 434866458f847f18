package healthcheck

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// port is one that is open.
type port struct {
	number    uint16
	endpoints atomic.Int64
	server    *http.Server
	serving   sync.WaitGroup
}

// serve accepts connections until close.
func (p *port) serve(l net.Listener) {
	p.serving.Go(func() { _ = p.server.Serve(l) }) // it ends with ErrServerClosed
}

// close ends connections and waits.
func (p *port) close() {
	_ = p.server.Close()
	p.serving.Wait()
}

// bounded is a listener with so many connections at a time.
type bounded struct {
	net.Listener
	seats  chan struct{}
	closed chan struct{}
	once   sync.Once
}

func newBounded(l net.Listener, connections int) *bounded {
	return &bounded{Listener: l, seats: make(chan struct{}, connections), closed: make(chan struct{})}
}

func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.seats <- struct{}{}:
	case <-b.closed:
		return nil, net.ErrClosed
	}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.seats
		return nil, err
	}
	return &seated{Conn: c, leave: sync.OnceFunc(func() { <-b.seats })}, nil
}

func (b *bounded) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

type seated struct {
	net.Conn
	leave func()
}

func (s *seated) Close() error {
	defer s.leave()
	return s.Conn.Close()
}
