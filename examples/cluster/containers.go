package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"

	"github.com/keelson-dev/keelson/apiserver/connect"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/clusterdns"
	"github.com/keelson-dev/keelson/cluster/resourcemetrics"
	"github.com/keelson-dev/keelson/cni/netns"
	"github.com/keelson-dev/keelson/component/controllermanager"
	"github.com/keelson-dev/keelson/controllers/nodeipam"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/node"
	"github.com/keelson-dev/keelson/node/bundled"
	"github.com/keelson-dev/keelson/node/filelock"
	"github.com/keelson-dev/keelson/node/host"
	"github.com/keelson-dev/keelson/node/nodetools"
	"github.com/keelson-dev/keelson/node/ociimage"
	"github.com/keelson-dev/keelson/pki"
)

// machines are nodes of real containers on this machine, each with its own containerd, bridge and subnet.
type machines struct {
	settings settings
	tools    nodetools.Tools
	archives []string // images to load at start
	// authority issues the certificates of the nodes' servers.
	authority *pki.Authority
	// mirror serves the archives to the nodes' containerds: pods whose images are always pulled find them, too. It is
	// nil without archives.
	mirror *mirror
	// names is the cluster's DNS, nil if another program is to serve it.
	names *clusterdns.DNS
	// wire connects the nodes if they are hosts of their own, else it is nil.
	wire  *wire
	usage consumption
	out   io.Writer

	mu sync.Mutex // guards writes to out
}

// newMachines finds what nodes of real containers need. An error that is nodetools.ErrUnsupported means that this
// machine cannot run any.
func newMachines(ctx context.Context, s settings, out io.Writer) (*machines, error) {
	if err := nodetools.Supported(ctx); err != nil {
		return nil, err
	}
	m := &machines{settings: s, out: out}
	if err := m.equip(ctx); err != nil {
		return nil, err
	}
	if s.hosts.kind == "netns" || s.down {
		var err error
		if m.wire, err = newWire(&s); err != nil {
			return nil, err
		}
	}
	if s.down {
		return m, nil
	}
	if !s.disabled("dns") && !s.disabled("nodes") {
		var err error
		if m.names, err = newNames(&s); err != nil {
			return nil, err
		}
	}
	pause, err := ociimage.Pause(ctx, m.tools.Images, out)
	if err != nil {
		return nil, err
	}
	m.archives = []string{pause}
	more, err := m.images(ctx)
	if err != nil || len(more) == 0 {
		return m, err
	}
	m.archives = append(m.archives, more...)
	m.mirror, err = newMirror(ctx, m.mirrorAddress(), more)
	return m, err
}

// mirrorAddress is where the mirror listens: where all nodes reach it.
func (m *machines) mirrorAddress() netip.Addr {
	if m.wire != nil {
		return m.wire.gateway()
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

// join adds the nodes to a cluster, whose API they reach at server, and returns what runs beside it.
func (m *machines) join(authority *pki.Authority, server netip.AddrPort, o *cluster.Options) (beside []lifecycle.Runnable) {
	m.authority = authority
	if m.names != nil {
		o.Extensions = append(o.Extensions, m.names.Extension())
	}
	if m.mirror != nil {
		beside = append(beside, m.mirror)
	}
	if m.wire != nil {
		o.Nodes.Count = 0
		o.Extensions = append(o.Extensions, resourcemetrics.Extension(resourcemetrics.Options{}), hostRoles())
		o.Components = append(o.Components, controllermanager.NodeIPAM(nodeipam.Options{
			Networks: []netip.Prefix{m.settings.network}, Services: []netip.Prefix{netip.MustParsePrefix(serviceRange)},
		}))
		return append(beside, m.newFleet(server, o.Server.RootCA))
	}
	o.Nodes.Run = m.run
	o.Kinds = append(o.Kinds, m.usage.kinds(o.Logger)...)
	if m.settings.nodes > 0 {
		o.Components = append(o.Components, m.settings.serviceProxy())
	}
	if !m.settings.disabled("networkpolicies") && !m.settings.disabled("nodes") {
		o.Components = append(o.Components, m.isolation())
	}
	return beside
}

func (m *machines) say(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fmt.Fprintf(m.out, format+"\n", args...)
}

// run runs one node.
func (m *machines) run(ctx context.Context, parts node.Parts) error {
	n, err := bundled.New(m.dir(parts.Name), parts.PodCIDRs[0], m.tools, m.options())
	if err != nil {
		return err
	}
	if err := starting(ctx, n.Start, func(err error) { m.say("starting a node failed, trying again: %v", err) }); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	server, err := m.server(ctx, n, parts)
	if err != nil {
		return err
	}
	m.usage.add(parts.Name, running{n, parts})
	defer func() { _ = server.Listener.Close() }() // if serving did not
	o := host.Options{Server: server, Pinning: m.settings.kubelet.pinning}
	if m.names == nil {
		return n.Run(ctx, parts, nil, o)
	}
	o.DNS = host.DNS{Servers: []netip.Addr{m.names.Address()}, Domain: m.names.Domain()}
	return lifecycle.Group(
		lifecycle.Func(func(ctx context.Context) error { return n.Run(ctx, parts, nil, o) }),
		lifecycle.Func(func(ctx context.Context) error { return m.serveNames(ctx, parts.Name, n.Addresses()[0]) }),
	).Run(ctx)
}

func (m *machines) dir(node string) string {
	return filepath.Join(m.settings.dataDir, "nodes", node)
}

func (m *machines) options() bundled.Options {
	return bundled.Options{
		Network: m.settings.network, Archives: m.archives, Mirrors: m.mirrors(), Progress: m.say, Logger: m.settings.logger(),
	}
}

// mirrors are the URLs of registries to try before an image's own.
func (m *machines) mirrors() (urls []string) {
	if m.mirror != nil {
		urls = append(urls, m.mirror.url())
	}
	if m.settings.mirror != "" {
		urls = append(urls, m.settings.mirror)
	}
	return urls
}

// kubeletPort is where the servers of nodes listen, each at its node's address.
const kubeletPort = "10250"

// server returns the node's own server, with a certificate of the cluster's authority.
func (m *machines) server(ctx context.Context, n *bundled.Node, parts node.Parts) (host.Server, error) {
	var s host.Server
	names := []string{parts.Name}
	for _, a := range n.Addresses() {
		names = append(names, a.String())
	}
	pair, err := m.authority.Keep("kubelet-"+parts.Name, pki.Subject{
		Name: "system:node:" + parts.Name, Groups: []string{"system:nodes"}, Hosts: names,
	}, life)
	if err != nil {
		return s, err
	}
	certificate, err := pair.TLS()
	if err != nil {
		return s, err
	}
	s.Certificate = func() (*tls.Certificate, error) { return &certificate, nil }
	s.Listener, err = new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(names[1], kubeletPort))
	return s, err
}

// connector connects the API server to nodes' servers.
func connector(authority *pki.Authority) (*connect.Connector, error) {
	pair, err := authority.Keep("apiserver-kubelet-client", pki.Subject{Name: cluster.KubeletClient}, life)
	if err != nil {
		return nil, err
	}
	certificate, err := pair.TLS()
	if err != nil {
		return nil, err
	}
	return connect.New(connect.Options{TLS: &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}, RootCAs: authority.Pool(),
	}}), nil
}

// down removes what the nodes of a data directory have on this machine: containers, networks, mounts, cgroups and their
// directories. It continues after failures.
func (m *machines) down(ctx context.Context) error {
	release, err := end(ctx, m.settings.dataDir, m.say)
	if err != nil {
		return err
	}
	defer release()
	if err := errors.Join(m.settings.removeServices(ctx), m.settings.removePolicies(ctx), m.off(ctx)); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(m.settings.dataDir, "volumes"))
}

// remove removes one node, on its own host if it has one.
func (m *machines) remove(ctx context.Context, name string) error {
	n, err := bundled.Open(m.dir(name), m.tools, m.options())
	if err != nil {
		return err
	}
	if m.wire == nil || netns.Check(m.wire.namespace(name)) != nil {
		return n.Remove(ctx)
	}
	release, err := filelock.Take(ctx, m.wire.lock(name), nil) // its process may not have ended yet
	if err != nil {
		return err
	}
	defer release()
	return netns.Do(m.wire.namespace(name), func() error { return n.Remove(ctx) })
}
