package etcdtest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Mode is what a link does with data and connections.
type Mode int

// The modes of a link.
const (
	// Open lets everything pass.
	Open Mode = iota
	// Refuse closes connections at once, like a host without a server.
	Refuse
	// Stall keeps connections open but passes no data, like a network that drops packets.
	Stall
)

// link is a network path from one place to another, for any number of connections.
type link struct {
	mu      sync.Mutex
	mode    Mode
	changed chan struct{} // closed and replaced with mode
	conns   map[net.Conn]struct{}
	wg      sync.WaitGroup
}

func newLink() *link {
	return &link{changed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
}

func (l *link) set(mode Mode) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mode == mode {
		return
	}
	// Data held by a stalled link is lost, like packets: a connection that survived would deliver it late.
	if l.mode == Stall || mode == Refuse {
		for c := range l.conns {
			_ = c.Close() // its readers and writers get the error
		}
	}
	l.mode = mode
	close(l.changed)
	l.changed = make(chan struct{})
}

// close closes the connections and waits for the goroutines that serve them.
func (l *link) close() {
	l.set(Refuse)
	l.wg.Wait()
}

// add reports whether the link accepts the connection; otherwise it closes it.
func (l *link) add(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mode == Refuse {
		_ = c.Close()
		return false
	}
	l.conns[c] = struct{}{}
	return true
}

func (l *link) remove(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	_ = c.Close()
}

// passing waits while the link stalls.
func (l *link) passing() bool {
	for {
		l.mu.Lock()
		mode, changed := l.mode, l.changed
		l.mu.Unlock()
		if mode != Stall {
			return mode == Open
		}
		<-changed
	}
}

// carry copies bytes in both directions until one side ends. It owns both connections.
func (l *link) carry(a, b net.Conn) {
	defer l.remove(a)
	defer l.remove(b)
	if !l.add(a) || !l.add(b) {
		return
	}
	var wg sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		wg.Go(func() {
			defer func() { _ = way[0].Close(); _ = way[1].Close() }()
			buffer := make([]byte, 32<<10)
			for {
				n, err := way[0].Read(buffer)
				if n > 0 {
					if !l.passing() {
						return
					}
					if _, err := way[1].Write(buffer[:n]); err != nil {
						return
					}
				}
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
}

const dialPatience = 5 * time.Second

func (l *link) dial(ctx context.Context, address string) (net.Conn, error) {
	if !l.passing() {
		return nil, net.ErrClosed
	}
	d := net.Dialer{Timeout: dialPatience}
	return d.DialContext(ctx, "tcp", address)
}

// entrance is a link with an address that stays the same while its target moves.
type entrance struct {
	*link
	listener net.Listener
}

func newEntrance(ctx context.Context, target func() string) (*entrance, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	e := &entrance{newLink(), listener}
	e.wg.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			e.wg.Go(func() {
				to, err := e.dial(ctx, target())
				if err != nil {
					_ = c.Close()
					return
				}
				e.carry(c, to)
			})
		}
	})
	return e, nil
}

func (e *entrance) address() string { return e.listener.Addr().String() }

func (e *entrance) close() {
	_ = e.listener.Close()
	e.link.close()
}

// exitProxy is an HTTP proxy that one member uses for all its traffic to others, so that both ends of each connection
// are known. Members speak TLS to each other, which makes a client request a tunnel from its proxy.
type exitProxy struct {
	links    map[string]*link // by the virtual address of the other member
	listener net.Listener
	wg       sync.WaitGroup
}

func newExitProxy(ctx context.Context, links map[string]*link, target func(string) string) (*exitProxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &exitProxy{links: links, listener: listener}
	p.wg.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.tunnel(ctx, c, target) })
		}
	})
	return p, nil
}

func (p *exitProxy) tunnel(ctx context.Context, c net.Conn, target func(string) string) {
	_ = c.SetReadDeadline(time.Now().Add(dialPatience))
	request, err := http.ReadRequest(bufio.NewReader(c)) // clients send nothing more before the response
	_ = c.SetReadDeadline(time.Time{})
	if err != nil || request.Method != http.MethodConnect || p.links[request.Host] == nil {
		_ = c.Close()
		return
	}
	l := p.links[request.Host]
	to, err := l.dial(ctx, target(request.Host))
	if err != nil {
		_ = c.Close()
		return
	}
	if _, err := fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		_ = c.Close()
		_ = to.Close()
		return
	}
	l.carry(c, to)
}

func (p *exitProxy) environment() []string {
	if p == nil {
		return nil
	}
	return []string{"HTTPS_PROXY=http://" + p.listener.Addr().String()}
}

func (p *exitProxy) close() {
	_ = p.listener.Close()
	for _, l := range p.links {
		l.close()
	}
	p.wg.Wait()
}
