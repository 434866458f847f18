// Package bundled runs a node of real containers in a directory: a containerd, a bridge with the node's subnet, and a
// kubelet on top. Several nodes, of one cluster or of many, can share a machine: the names they use on it are derived
// from their directories.
//
// Containers and containerd survive the process that runs a Node; a later Node of the same directory adopts them.
// Remove removes everything.
package bundled

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/cni/bridge"
	"github.com/keelson-dev/keelson/cni/bridge/announce"
	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/eviction"
	"github.com/keelson-dev/keelson/kubelet/garbage"
	"github.com/keelson-dev/keelson/kubelet/security"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/node"
	"github.com/keelson-dev/keelson/node/containerd"
	"github.com/keelson-dev/keelson/node/host"
	"github.com/keelson-dev/keelson/node/nodetools"
)

// PauseImage holds the namespaces of pods. One of Options.Archives has it.
const PauseImage = "registry.k8s.io/pause:3.10.2"

// Options of a Node.
type Options struct {
	// Network is the range of the addresses of all nodes' pods, which are not masqueraded within it.
	Network netip.Prefix
	// Addresses are those of the node, if it has others than the ones in its pod network.
	Addresses []netip.Addr
	// MTU is the largest packet of pods in bytes; 0 leaves it to the kernel.
	MTU int
	// Archives are images to load at start.
	Archives []string
	// Mirrors are URLs tried before an image's own registry.
	Mirrors []string
	// Handlers are handlers of runtime classes besides runc, by name.
	Handlers map[string]containerd.Handler
	// Progress receives messages about slow steps; nil discards.
	Progress func(format string, args ...any)
	Logger   *slog.Logger
}

// Node is the machine's part of one node.
type Node struct {
	dir     string
	cgroup  string
	device  string // the bridge
	options Options
	cidr    netip.Prefix
	bridge  *bridge.Bridge
	daemon  *containerd.Daemon
	host    atomic.Pointer[host.Host] // while the node runs
	making  sync.RWMutex              // held for reading while a sandbox is being made
}

// New describes the node of a directory whose pods get addresses from cidr. It changes nothing.
func New(dir string, cidr netip.Prefix, tools nodetools.Tools, o Options) (*Node, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = func(string, ...any) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	id := fmt.Sprintf("%x", sha256.Sum256([]byte(dir)))[:8]
	n := &Node{dir: dir, cgroup: "/keelson/" + id, device: "keel" + id, options: o, cidr: cidr}
	network := bridge.Options{Network: "keelson-" + id, Bridge: n.device, DataDir: filepath.Join(dir, "cni", "networks"), MTU: o.MTU}
	if o.Network.IsValid() {
		network.Internal = []netip.Prefix{o.Network}
	}
	if n.bridge, err = bridge.New([]netip.Prefix{cidr}, network); err != nil {
		return nil, err
	}
	c := containerd.Options{
		CNIConfDir: filepath.Join(dir, "cni", "net.d"), SandboxImage: PauseImage, CgroupRoot: n.cgroup, Logger: o.Logger,
		NoSync: true, // after a power failure nothing runs, and images are loaded again
	}
	if len(o.Mirrors) > 0 {
		c.Mirrors = map[string][]string{"_default": o.Mirrors}
	}
	c.Handlers = o.Handlers
	n.daemon, err = containerd.New(filepath.Join(dir, "containerd"), tools, c)
	return n, err
}

// Open is New for a directory in which a Node was started before.
func Open(dir string, tools nodetools.Tools, o Options) (*Node, error) {
	text, err := os.ReadFile(filepath.Join(dir, "cidr"))
	if errors.Is(err, fs.ErrNotExist) {
		// Everything else is derived from the directory's name.
		return New(dir, netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, 0}), 24), tools, o)
	}
	if err != nil {
		return nil, err
	}
	cidr, err := netip.ParsePrefix(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "cidr"), err)
	}
	return New(dir, cidr, tools, o)
}

// Addresses are the node's own addresses: those of its options, or those in its pod network.
func (n *Node) Addresses() []netip.Addr {
	if len(n.options.Addresses) > 0 {
		return slices.Clone(n.options.Addresses)
	}
	var list []netip.Addr
	for _, gateway := range n.bridge.Gateways() {
		list = append(list, gateway.Addr())
	}
	return list
}

// Dir is the node's directory.
func (n *Node) Dir() string { return n.dir }

// Daemon is the node's containerd.
func (n *Node) Daemon() *containerd.Daemon { return n.daemon }

// Bridge is the node's network.
func (n *Node) Bridge() *bridge.Bridge { return n.bridge }

// Start sets up the network and the runtime and loads images. It may be called again.
func (n *Node) Start(ctx context.Context) error {
	// A later Remove finds what is created from here on by the directory and this record.
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(n.dir, "cidr"), []byte(n.cidr.String()), 0o600); err != nil {
		return err
	}
	if err := n.networkFree(); err != nil {
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
	return n.load(ctx)
}

// ErrNetworkInUse: another device of the machine has addresses of the node's network.
var ErrNetworkInUse = errors.New("network is in use on this machine")

// networkFree fails if packets for the node's pods would go elsewhere: to another cluster, or to leftovers of a node
// that was not removed.
func (n *Node) networkFree() error {
	devices, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, device := range devices {
		if device.Name == n.bridge.Device() {
			continue
		}
		addresses, err := device.Addrs()
		if err != nil {
			continue // it is going away
		}
		for _, address := range addresses {
			at, err := netip.ParsePrefix(address.String())
			if err == nil && at.IsSingleIP() && at.Addr() == n.cidr.Addr() {
				continue // the device of an overlay, by which the host reaches pods of others; no pod has that address
			}
			if err == nil && at.Overlaps(n.cidr) && at.Bits() >= n.cidr.Bits() {
				return fmt.Errorf("%w: %s belongs to device %s (%s); choose another network for the cluster, or remove the device",
					ErrNetworkInUse, n.cidr, device.Name, at)
			}
		}
	}
	return nil
}

// Run runs the started node until the context ends, and then returns nil. Its own containerd runs the containers;
// runtime, unless nil, is a wrapped client of it. Run sets the pods' networks and the options that depend on the
// directory.
func (n *Node) Run(ctx context.Context, parts node.Parts, runtime kubelet.Runtime, o host.Options) (err error) {
	if runtime == nil {
		own, err := n.Runtime()
		if err != nil {
			return err
		}
		defer func() { _ = own.Close() }()
		runtime = own
	}
	parts.PodCIDRs = []netip.Prefix{n.cidr}
	o.Dir, o.LogDir, o.CgroupRoot = filepath.Join(n.dir, "kubelet"), filepath.Join(n.dir, "logs"), n.cgroup+"/kubepods"
	o.Addresses, o.Logger = n.Addresses(), n.options.Logger
	o.Upkeep, err = upkeep()
	if err != nil {
		return err
	}
	o.SandboxSeccomp, o.Users = n.daemon.SandboxSeccomp(), n.users()
	o.StaticDir = filepath.Join(n.dir, "manifests")
	h, err := host.New(parts, runtime, o)
	if err != nil {
		return err
	}
	n.host.Store(h)
	defer n.host.Store(nil)
	announcer := announce.New(n.bridge, announce.Options{Logger: n.options.Logger})
	return lifecycle.Group(n.daemon, announcer, h, lifecycle.Func(n.sweep)).Run(ctx)
}

// ErrNotRunning: the node is not running.
var ErrNotRunning = errors.New("the node does not run")

// Resources returns the present use of CPU and memory by the node and its pods, or ErrNotRunning.
func (n *Node) Resources(ctx context.Context) (*statsv1alpha1.Summary, error) {
	h := n.host.Load()
	if h == nil {
		return nil, ErrNotRunning
	}
	return h.Resources(ctx)
}

// users are the ranges for the node's pods: nodes of one cluster, whose networks differ, get different ranges.
func (n *Node) users() security.Users {
	const each = 200
	address := n.cidr.Addr().As4()
	return security.Users{First: (1 + uint32(address[2])*each) << 16, Pods: each}
}

// upkeep ignores the machine's disk, which is shared with much else: a test or a demonstration must not fail because it
// is nearly full.
func upkeep() (host.Upkeep, error) {
	thresholds, err := eviction.Parse(eviction.Config{Hard: map[string]string{"memory.available": "100Mi"}})
	return host.Upkeep{
		Thresholds: thresholds, Images: &garbage.ImagePolicy{High: 100, Low: 100, MinAge: 2 * time.Minute},
	}, err
}

// Remove removes everything that the node has on the machine, and its directory. It may be called again after a
// failure.
func (n *Node) Remove(ctx context.Context) error {
	if err := n.daemon.Destroy(ctx); err != nil {
		return err
	}
	if err := n.bridge.Down(ctx); err != nil {
		return err
	}
	if err := host.Clean(ctx, filepath.Join(n.dir, "kubelet")); err != nil {
		return err
	}
	entries, err := os.ReadDir(n.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if e.Name() == "cidr" {
			continue // last: a second attempt finds the network by it
		}
		if err := os.RemoveAll(filepath.Join(n.dir, e.Name())); err != nil {
			return err
		}
	}
	return os.RemoveAll(n.dir)
}
