// Package clusterdns gives clusters a DNS of their own, over the objects that the process has in memory anyway: the
// service kube-dns in the namespace kube-system, with the labels, ports and TTL of kubeadm's CoreDNS, and servers of its
// names (packages dns and dns/server), which the service's EndpointSlice lists while they run. Nodes have one each, for
// example, at an address that their pods reach. Programs of the same process need none: DNS.Resolver answers them.
//
// # Errors and concurrency
//
// A service kube-dns that exists already is left as it is. What cannot be written is logged and tried again. All methods
// may be called from many goroutines.
package clusterdns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/dns"
	"github.com/keelson-dev/keelson/dns/server"
	"github.com/keelson-dev/keelson/registry/direct"
)

// Name is the name of the extension, Service that of the service in Namespace.
const (
	Name      = "cluster-dns"
	Namespace = "kube-system"
	Service   = "kube-dns"
)

// ErrNotMade means that no cluster was made with the extension.
var ErrNotMade = errors.New("no cluster was made with this DNS")

// Options configures a DNS. The zero value is ready to use.
type Options struct {
	// Address is the service's cluster IP, for pods' resolv.conf; the zero value is 10.96.0.10.
	Address netip.Addr
	// Domain is the cluster's, "" for cluster.local.
	Domain string
	// TTL of answers in seconds, 0 for 30, as in kubeadm's clusters.
	TTL uint32
	// Port is where servers listen, UDP and TCP; 0 stands for 10053. All have the same.
	Port uint16
	// Upstreams resolve names outside of the cluster.
	Upstreams []netip.AddrPort
	Logger    *slog.Logger
}

// DNS is the DNS of one cluster. Make one with New.
type DNS struct {
	options Options
	log     *slog.Logger

	mu      sync.Mutex // guards the two below
	index   *dns.Index
	servers map[string]netip.Addr // by node
	changed chan struct{}         // has a token if servers changed
}

// New makes the DNS of a cluster that Extension is then part of.
func New(o Options) *DNS {
	if !o.Address.IsValid() {
		o.Address = netip.AddrFrom4([4]byte{10, 96, 0, 10})
	}
	if o.Domain == "" {
		o.Domain = dns.DefaultDomain
	}
	if o.TTL == 0 {
		o.TTL = 30
	}
	if o.Port == 0 {
		o.Port = 10053
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &DNS{options: o, log: log, servers: map[string]netip.Addr{}, changed: make(chan struct{}, 1)}
}

// Address returns the service's cluster IP.
func (d *DNS) Address() netip.Addr { return d.options.Address }

// Domain returns the cluster's domain.
func (d *DNS) Domain() string { return d.options.Domain }

// Extension returns the part of the API server that keeps the service and follows its endpoints.
func (d *DNS) Extension() cluster.Extension {
	return cluster.Extension{Name: Name, New: d.extend}
}

func (d *DNS) extend(p *cluster.ExtensionParts) (cluster.Extended, error) {
	in := dns.Sources{
		Services:       component.Informer[*corev1.Service](p.Informers, corev1.SchemeGroupVersion.WithResource("services")),
		EndpointSlices: component.Informer[*discoveryv1.EndpointSlice](p.Informers, discoveryv1.SchemeGroupVersion.WithResource("endpointslices")),
		Namespaces:     component.Informer[*corev1.Namespace](p.Informers, corev1.SchemeGroupVersion.WithResource("namespaces")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	index := dns.NewIndex(in)
	if _, err := dns.New(index, dns.Options{Domain: d.options.Domain, TTL: d.options.TTL}); err != nil {
		index.Close()
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.index = index
	return &extended{dns: d, index: index, server: direct.New(p.Registry, direct.Options{Identity: p.Identity})}, nil
}

// Server makes a server of the cluster's names, with sockets of the caller's, that is known by the service's address. It
// fails with ErrNotMade before the cluster was made.
func (d *DNS) Server(o server.Options) (*server.Server, error) { return d.server(o, d.options.Address) }

func (d *DNS) server(o server.Options, address netip.Addr) (*server.Server, error) {
	d.mu.Lock()
	index := d.index
	d.mu.Unlock()
	if index == nil {
		return nil, ErrNotMade
	}
	zone, err := dns.New(index, dns.Options{Domain: d.options.Domain, TTL: d.options.TTL, Addresses: []netip.Addr{address}})
	if err != nil {
		return nil, err
	}
	return server.New(zone, o)
}

// Resolver returns a resolver of the cluster's names for this process, without a socket: see server.Server.Resolver.
func (d *DNS) Resolver() (*net.Resolver, error) {
	s, err := d.Server(server.Options{Upstreams: d.options.Upstreams})
	if err != nil {
		return nil, err
	}
	return s.Resolver(), nil
}

// Sockets are where a server listens.
type Sockets struct {
	// Packets is for questions over UDP.
	Packets net.PacketConn
	// Listener is for questions over TCP, at the same address.
	Listener net.Listener
}

// Listen opens sockets at an address, at the port of the options.
func (d *DNS) Listen(ctx context.Context, address netip.Addr) (Sockets, error) {
	at := netip.AddrPortFrom(address, d.options.Port).String()
	packets, err := new(net.ListenConfig).ListenPacket(ctx, "udp", at)
	if err != nil {
		return Sockets{}, fmt.Errorf("cluster DNS: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", at)
	if err != nil {
		_ = packets.Close()
		return Sockets{}, fmt.Errorf("cluster DNS: %w", err)
	}
	return Sockets{packets, listener}, nil
}

// Serve serves the cluster's names for a node at an address that pods reach, and lists it as an endpoint of the service,
// until the context ends. It closes the sockets. Of each node there may be one at a time.
func (d *DNS) Serve(ctx context.Context, node string, address netip.Addr, at Sockets) error {
	s, err := d.server(server.Options{
		Packets: []net.PacketConn{at.Packets}, Listeners: []net.Listener{at.Listener}, Upstreams: d.options.Upstreams, Logger: d.log,
	}, address)
	if err != nil {
		_, _ = at.Packets.Close(), at.Listener.Close()
		return err
	}
	d.list(node, address)
	defer d.list(node, netip.Addr{})
	return s.Run(ctx)
}

// list lists the server of a node, or no longer if the address is not valid.
func (d *DNS) list(node string, address netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if address.IsValid() {
		d.servers[node] = address
	} else {
		delete(d.servers, node)
	}
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// listed returns the servers by node.
func (d *DNS) listed() map[string]netip.Addr {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.servers)
}

// extended is the extension of one cluster.
type extended struct {
	dns    *DNS
	index  *dns.Index
	server *direct.Client
}

// Prepare implements cluster.Extended.
func (e *extended) Prepare(ctx context.Context) error { return e.createService(ctx) }

// Run implements cluster.Extended: it writes the endpoints.
func (e *extended) Run(ctx context.Context) error {
	defer e.index.Close()
	return e.publish(ctx)
}
