package healthcheck

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/proxy"
)

// Options of a Server. The zero value is ready to use.
type Options struct {
	// Node is the name in events.
	Node string
	// Addresses are ranges of those addresses of the host that serve the ports; all if none is in them.
	Addresses []netip.Prefix
	// Listen opens ports; by default those of the host on which Run runs. The network is tcp4 or tcp6.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
	// Retry is how long after a failure to try again; 0 means 10 s.
	Retry time.Duration
	// Connections is how many may be open to one port at a time, others wait; 0 means 64.
	Connections int
	// Recorder takes events of services whose port cannot be opened.
	Recorder events.Recorder
	Logger   *slog.Logger
}

// Server answers health checks on the ports of a host. Make one with New.
type Server struct {
	health *proxy.Health
	o      Options

	mu      sync.Mutex
	desired map[key]proxy.Check
	wake    chan struct{} // has an element if desired has changed

	open map[key]*port // belongs to Run
}

var _ proxy.Checker = (*Server)(nil)

type key struct {
	service proxy.Service
	is6     bool
}

// New makes a Server, which opens nothing before it runs.
func New(health *proxy.Health, o Options) *Server {
	if o.Listen == nil {
		o.Listen = (&net.ListenConfig{}).Listen
	}
	if o.Retry <= 0 {
		o.Retry = 10 * time.Second
	}
	o.Connections = cmp.Or(o.Connections, 64)
	if o.Recorder == nil {
		o.Recorder = events.Discard()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{health: health, o: o, desired: map[key]proxy.Check{}, wake: make(chan struct{}, 1), open: map[key]*port{}}
}

// Check implements proxy.Checker.
func (s *Server) Check(checks map[proxy.Service][]proxy.Check) {
	s.mu.Lock()
	for service, all := range checks {
		delete(s.desired, key{service, false})
		delete(s.desired, key{service, true})
		for _, c := range all {
			s.desired[key{service, c.Is6}] = c
		}
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run serves until the context ends, then closes all ports and returns nil.
func (s *Server) Run(ctx context.Context) error {
	defer func() {
		for k := range s.open {
			s.close(k)
		}
	}()
	retry := time.NewTimer(s.o.Retry)
	defer retry.Stop()
	for {
		if s.sync(ctx) {
			retry.Stop()
		} else {
			retry.Reset(s.o.Retry)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-retry.C:
		}
	}
}

// sync closes and opens ports, and reports whether all are open.
func (s *Server) sync(ctx context.Context) bool {
	s.mu.Lock()
	desired := maps.Clone(s.desired)
	s.mu.Unlock()
	for k, p := range s.open { // first, as another service may have got the port
		if desired[k].Port != p.number {
			s.close(k)
		}
	}
	complete := true
	for k, check := range desired {
		p, ok := s.open[k]
		if !ok {
			var err error
			if p, err = s.listen(ctx, k, check); err != nil {
				complete = false
				s.failed(k, check, err)
				continue
			}
			s.open[k] = p
		}
		p.endpoints.Store(int64(check.Endpoints))
	}
	return complete
}

func (s *Server) failed(k key, check proxy.Check, err error) {
	message := fmt.Sprintf("node %s failed to start healthcheck %q on port %d: %v", s.o.Node, k.service, check.Port, err)
	s.o.Logger.Error("starting a health check failed", "service", k.service, "port", check.Port, "error", err, "retryAfter", s.o.Retry)
	s.o.Recorder.Record(events.Event{
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: k.service.Namespace, Name: k.service.Name},
		Type:      corev1.EventTypeWarning, Reason: "FailedToStartServiceHealthcheck", Action: "Listen", Message: message,
	})
}

func (s *Server) close(k key) {
	s.open[k].close()
	delete(s.open, k)
}

// listen opens the port at all addresses, or at none.
func (s *Server) listen(ctx context.Context, k key, check proxy.Check) (*port, error) {
	network, everywhere := "tcp4", netip.IPv4Unspecified()
	if k.is6 {
		network, everywhere = "tcp6", netip.IPv6Unspecified()
	}
	p := &port{number: check.Port}
	p.endpoints.Store(int64(check.Endpoints))
	p.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			healthy, _ := s.health.State()
			WriteCheck(w, k.service, int(p.endpoints.Load()), healthy)
		}),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10,
		ErrorLog: slog.NewLogLogger(s.o.Logger.Handler(), slog.LevelDebug),
	}
	for _, a := range s.addresses(k.is6, everywhere) {
		l, err := s.o.Listen(ctx, network, netip.AddrPortFrom(a, check.Port).String())
		if err != nil {
			p.close()
			return nil, err
		}
		p.serve(newBounded(l, s.o.Connections))
	}
	return p, nil
}

// addresses are where to listen.
func (s *Server) addresses(is6 bool, everywhere netip.Addr) (all []netip.Addr) {
	if len(s.o.Addresses) == 0 {
		return []netip.Addr{everywhere}
	}
	host, err := net.InterfaceAddrs()
	for _, a := range host {
		ip, parseErr := netip.ParsePrefix(a.String())
		if parseErr == nil && ip.Addr().Is6() == is6 && slices.ContainsFunc(s.o.Addresses, func(r netip.Prefix) bool { return r.Contains(ip.Addr()) }) {
			all = append(all, ip.Addr())
		}
	}
	if len(all) == 0 {
		s.o.Logger.Error("no address of the host is in the ranges of those that serve health checks: serving at all", "ranges", s.o.Addresses, "error", err)
		return []netip.Addr{everywhere}
	}
	return all
}
