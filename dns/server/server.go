package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"github.com/keelson-dev/keelson/dns"
	"github.com/keelson-dev/keelson/lifecycle"
)

// Options of a Server. The zero value answers in process, and only about the cluster.
type Options struct {
	// Packets and Listeners are the sockets to serve. Run closes them.
	Packets   []net.PacketConn
	Listeners []net.Listener
	// Upstreams resolve other names, tried in this order. Those that are sockets of the server itself are left out.
	Upstreams []netip.AddrPort
	// Dial connects to them; nil stands for net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// MaxTTL is how long their answers are remembered at most; 0 stands for 30 seconds, as in kubeadm's configuration.
	MaxTTL time.Duration
	// CacheSize is how many of them are remembered, 0 stands for 10,000. Those of more than 2 KB are not.
	CacheSize int
	// MaxForwards is how many questions may be at other resolvers at a time, 0 stands for 1000.
	MaxForwards int
	// MaxConnections is how many TCP connections may be open at a time, 0 stands for 500. More wait to be accepted.
	MaxConnections int
	// Logger gets failures; nil discards.
	Logger *slog.Logger
}

// Server answers questions. Make one with New.
type Server struct {
	zone    *dns.Zone
	options Options
	forward *forwarder
	log     *slog.Logger
	// connections has a token for each TCP connection.
	connections chan struct{}
}

// New makes a server of a cluster's names.
func New(zone *dns.Zone, o Options) (*Server, error) {
	if o.MaxTTL < 0 || o.CacheSize < 0 || o.MaxForwards < 0 || o.MaxConnections < 0 {
		return nil, errors.New("a limit is negative")
	}
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	o.MaxTTL = positive(o.MaxTTL, 30*time.Second)
	o.CacheSize, o.MaxForwards = positive(o.CacheSize, 10_000), positive(o.MaxForwards, 1000)
	o.MaxConnections = positive(o.MaxConnections, 500)
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	o.Upstreams = slices.DeleteFunc(slices.Clone(o.Upstreams), o.own)
	return &Server{
		zone: zone, options: o, log: log, forward: newForwarder(o, log),
		connections: make(chan struct{}, o.MaxConnections),
	}, nil
}

func positive[T int | time.Duration](n, otherwise T) T {
	if n > 0 {
		return n
	}
	return otherwise
}

// own reports whether the server itself listens at an address.
func (o *Options) own(at netip.AddrPort) bool {
	for _, p := range o.Packets {
		if udp, ok := p.LocalAddr().(*net.UDPAddr); ok && same(udp.AddrPort(), at) {
			return true
		}
	}
	return false
}

func same(a, b netip.AddrPort) bool {
	return a.Addr().Unmap() == b.Addr().Unmap() && a.Port() == b.Port()
}

// Run serves the sockets until the context ends. It returns nil then, or the error of a socket.
func (s *Server) Run(ctx context.Context) error {
	var parts []lifecycle.Runnable
	for _, p := range s.options.Packets {
		parts = append(parts, lifecycle.Func(func(ctx context.Context) error { return s.servePackets(ctx, p) }))
	}
	for _, l := range s.options.Listeners {
		parts = append(parts, lifecycle.Func(func(ctx context.Context) error { return s.serveConnections(ctx, l) }))
	}
	if s.forward.any() {
		parts = append(parts, lifecycle.Func(func(ctx context.Context) error {
			s.forward.probe(ctx)
			<-ctx.Done()
			return nil
		}))
	}
	if len(parts) == 0 {
		<-ctx.Done()
		return nil
	}
	return lifecycle.Group(parts...).Run(ctx)
}

// readers is how many goroutines read a socket of packets.
func readers() int { return max(2, runtime.GOMAXPROCS(0)) }
