package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/keelson-dev/keelson/apiserver/connect"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/host"
	"github.com/keelson-dev/keelson/cni/bridge"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/cri/remote"
	"github.com/keelson-dev/keelson/internal/containerd"
	"github.com/keelson-dev/keelson/internal/nodetools"
	"github.com/keelson-dev/keelson/internal/ociimage"
	"github.com/keelson-dev/keelson/kubelet/objects"
	"github.com/keelson-dev/keelson/pki"
)

// pauseImage holds the namespaces of pods.
const pauseImage = "registry.k8s.io/pause:3.10.2"

// machines are nodes of real containers on this machine: a containerd, a bridge and a subnet each.
type machines struct {
	settings settings
	tools    nodetools.Tools
	archives []string // images to load at start
	// authority makes the certificates of the nodes' servers.
	authority *pki.Authority
	// mirror serves the archives to the nodes' containerds, so that pods whose images are pulled
	// always find them; nil without archives.
	mirror *mirror
	out    io.Writer

	mu sync.Mutex // writes to out
}

// newMachines finds what nodes of real containers need. An error that is
// nodetools.ErrUnsupported tells that this machine cannot run any.
func newMachines(ctx context.Context, s settings, out io.Writer) (*machines, error) {
	if err := nodetools.Supported(ctx); err != nil {
		return nil, err
	}
	m := &machines{settings: s, out: out}
	if err := m.equip(ctx); err != nil {
		return nil, err
	}
	pause, err := ociimage.Pause(ctx, m.tools.Images, out)
	if err != nil {
		return nil, err
	}
	m.archives = []string{pause}
	more, err := m.images(ctx)
	if err != nil || len(more) == 0 || s.down {
		return m, err
	}
	m.archives = append(m.archives, more...)
	m.mirror, err = newMirror(ctx, more)
	return m, err
}

func (m *machines) say(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fmt.Fprintf(m.out, format+"\n", args...)
}

// run runs one node.
func (m *machines) run(ctx context.Context, parts cluster.NodeParts) error {
	n, err := m.node(parts.Name, parts.CIDR)
	if err != nil {
		return err
	}
	if err := n.start(ctx, m, parts.CIDR); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	runtime, err := remote.New("unix://"+n.daemon.Socket(), remote.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = runtime.Close() }()
	server, err := m.server(ctx, n, parts)
	if err != nil {
		return err
	}
	h, err := host.New(host.Parts{
		Name: parts.Name, Runtime: runtime, Client: parts.Client,
		Pods: parts.Pods, Node: parts.Node, Services: parts.Services, Recorder: parts.Recorder,
		Watches: objects.Watches{ConfigMap: parts.ConfigMap, Secret: parts.Secret},
	}, host.Options{
		Dir: filepath.Join(n.dir, "kubelet"), LogDir: filepath.Join(n.dir, "logs"), CgroupRoot: n.cgroup + "/kubepods",
		Addresses: n.addresses(), PodCIDRs: []netip.Prefix{parts.CIDR}, Capacity: parts.Capacity, Logger: parts.Logger,
		Server: server,
	})
	if err != nil {
		return errors.Join(err, server.Listener.Close())
	}
	return controllers.Group(n.daemon, h).Run(ctx)
}

// kubeletPort is where the servers of nodes listen, each at its node's address.
const kubeletPort = "10250"

// server is the node's own server, known by a certificate of the cluster's authority.
func (m *machines) server(ctx context.Context, n *machine, parts cluster.NodeParts) (host.Server, error) {
	s := host.Server{Authenticator: parts.Authenticator, Authorizer: parts.Authorizer}
	names := []string{parts.Name}
	for _, a := range n.addresses() {
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

// connector leads the API server to nodes' servers.
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

// machine is one node's part of this machine.
type machine struct {
	dir    string
	cgroup string
	bridge *bridge.Bridge
	daemon *containerd.Daemon
}

// node describes a node; it changes nothing. Its names on the machine come from its directory, so
// that clusters do not get in each other's way.
func (m *machines) node(name string, cidr netip.Prefix) (*machine, error) {
	dir, err := filepath.Abs(filepath.Join(m.settings.dataDir, "nodes", name))
	if err != nil {
		return nil, err
	}
	id := fmt.Sprintf("%x", sha256.Sum256([]byte(dir)))[:8]
	n := &machine{dir: dir, cgroup: "/keelson/" + id}
	confDir := filepath.Join(dir, "cni", "net.d")
	n.bridge, err = bridge.New([]netip.Prefix{cidr}, bridge.Options{
		Network: "keelson-" + id, Bridge: "keel" + id, Internal: []netip.Prefix{m.settings.network},
		DataDir: filepath.Join(dir, "cni", "networks"),
	})
	if err != nil {
		return nil, err
	}
	o := containerd.Options{
		CNIConfDir: confDir, SandboxImage: pauseImage, CgroupRoot: n.cgroup, Logger: m.settings.logger(),
	}
	var mirrors []string
	if m.mirror != nil {
		mirrors = append(mirrors, m.mirror.url())
	}
	if m.settings.mirror != "" {
		mirrors = append(mirrors, m.settings.mirror)
	}
	if len(mirrors) > 0 {
		o.Mirrors = map[string][]string{"_default": mirrors}
	}
	n.daemon, err = containerd.New(filepath.Join(dir, "containerd"), m.tools, o)
	return n, err
}

func (n *machine) addresses() []netip.Addr {
	var list []netip.Addr
	for _, gateway := range n.bridge.Gateways() {
		list = append(list, gateway.Addr())
	}
	return list
}

// start makes the node's network and runtime ready.
func (n *machine) start(ctx context.Context, m *machines, cidr netip.Prefix) error {
	// What is about to be made is found again by its directory and this.
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(n.dir, "cidr"), []byte(cidr.String()), 0o600); err != nil {
		return err
	}
	if err := n.bridge.Up(ctx); err != nil {
		return err
	}
	path := filepath.Join(n.dir, "cni", "net.d", "10-keelson.conflist")
	if _, err := bridge.WriteFile(path, n.bridge.Config()); err != nil {
		return err
	}
	if err := n.daemon.Start(ctx); err != nil {
		return err
	}
	return n.load(ctx, m)
}

// load loads the images that are not there yet. An archive that has changed is loaded again.
func (n *machine) load(ctx context.Context, m *machines) error {
	present, err := n.daemon.Images(ctx)
	if err != nil {
		return err
	}
	marks := filepath.Join(n.dir, "loaded")
	if err := os.MkdirAll(marks, 0o700); err != nil {
		return err
	}
	for _, archive := range m.archives {
		info, err := os.Stat(archive)
		if err != nil {
			return fmt.Errorf("--images: %w", err)
		}
		names, err := ociimage.Digests(archive)
		if err != nil {
			return fmt.Errorf("--images: %s: %w", archive, err)
		}
		version := fmt.Sprintf("%s %d %d", archive, info.Size(), info.ModTime().UnixNano())
		mark := filepath.Join(marks, fmt.Sprintf("%x", sha256.Sum256([]byte(version)))[:16])
		_, loaded := os.Stat(mark)
		missing := slices.ContainsFunc(keys(names), func(name string) bool { return !slices.Contains(present, name) })
		if loaded == nil && !missing {
			continue
		}
		m.say("loading %s", filepath.Base(archive))
		if _, err := n.daemon.Import(ctx, archive, nil); err != nil {
			return fmt.Errorf("load %s: %w", archive, err)
		}
		if err := os.WriteFile(mark, []byte(version), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func keys(m map[string]string) []string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	return list
}

// down removes what nodes of a data directory have on this machine: containers, networks, mounts,
// cgroups and their directories. It goes on after failures.
func (m *machines) down(ctx context.Context) error {
	release, err := end(ctx, m.settings.dataDir, m.say)
	if err != nil {
		return err
	}
	defer release()
	entries, err := os.ReadDir(filepath.Join(m.settings.dataDir, "nodes"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var errs []error
	for _, e := range entries {
		m.say("removing node %s", e.Name())
		errs = append(errs, m.remove(ctx, e.Name()))
	}
	return errors.Join(errs...)
}

// remove removes one node.
func (m *machines) remove(ctx context.Context, name string) error {
	cidr, err := os.ReadFile(filepath.Join(m.settings.dataDir, "nodes", name, "cidr"))
	if err != nil {
		return err
	}
	prefix, err := netip.ParsePrefix(string(cidr))
	if err != nil {
		return err
	}
	n, err := m.node(name, prefix)
	if err != nil {
		return err
	}
	if err := n.daemon.Destroy(ctx); err != nil {
		return err
	}
	if err := n.bridge.Down(ctx); err != nil {
		return err
	}
	if err := host.Clean(ctx, filepath.Join(n.dir, "kubelet")); err != nil {
		return err
	}
	return os.RemoveAll(n.dir)
}
