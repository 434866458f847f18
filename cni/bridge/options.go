package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
)

// Options of a Bridge. The zero value is ready to use.
type Options struct {
	// Network is the name of the network, Bridge that of the device; keelson and keelson0 when
	// empty.
	Network, Bridge string
	// MTU of the device and of pods; 0 leaves it to the kernel.
	MTU int
	// Internal are further ranges, besides the node's own, to which pods keep their own address: for example that of
	// all pods of the cluster.
	Internal []netip.Prefix
	// NoMasquerade never changes the source addresses of pods.
	NoMasquerade bool
	// NoHairpin keeps pods from reaching themselves through a mapped port or a service.
	NoHairpin bool
	// NoPortMap omits the plugin for host ports; Bandwidth adds the one for limits. Each costs the start of a process
	// per attachment.
	NoPortMap, Bandwidth bool
	// PortMapBackend is nftables or iptables; nftables when empty.
	PortMapBackend string
	// DataDir is where host-local keeps the addresses in use, in a directory named for the
	// network; /var/lib/cni/networks when empty.
	DataDir string
	// CacheDir is where the runtime's libcni caches results, which Down and Release clean up; /var/lib/cni when empty,
	// as in containerd.
	CacheDir string
	// CNIVersion is the version of the configuration; 1.0.0 when empty, which plugins since 1.0 support. From 1.1.0 on
	// runtimes regularly ask the plugins for their status.
	CNIVersion string
	// Run runs a command with the given standard input and returns its output; nil runs it on this host. A Run that
	// enters a network namespace sets up a node there.
	Run func(ctx context.Context, stdin []byte, name string, args ...string) ([]byte, error)
}

// Bridge is the network of one node.
type Bridge struct {
	subnets []netip.Prefix
	options Options
}

// New describes a network whose pods have addresses of the subnets: one, or one of each family. Only Up sets it up.
func New(subnets []netip.Prefix, options Options) (*Bridge, error) {
	options.Network = cmp.Or(options.Network, "keelson")
	options.Bridge = cmp.Or(options.Bridge, "keelson0")
	options.PortMapBackend = cmp.Or(options.PortMapBackend, "nftables")
	options.DataDir = cmp.Or(options.DataDir, "/var/lib/cni/networks")
	options.CacheDir = cmp.Or(options.CacheDir, "/var/lib/cni")
	options.CNIVersion = cmp.Or(options.CNIVersion, "1.0.0")
	options.Internal = slices.Clone(options.Internal)
	if options.Run == nil {
		options.Run = run
	}
	b := &Bridge{options: options}
	for _, s := range subnets {
		b.subnets = append(b.subnets, s.Masked())
	}
	return b, b.validate()
}

func (b *Bridge) validate() error {
	o := b.options
	if !regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_.-]{0,14}$`).MatchString(o.Bridge) {
		return fmt.Errorf("bridge %q: a device has 1 to 15 letters, digits, \"_\", \".\" and \"-\", the first a letter", o.Bridge)
	}
	if !regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,99}$`).MatchString(o.Network) {
		return fmt.Errorf("network %q: a name has letters, digits, \"_\", \".\" and \"-\", the first a letter or digit", o.Network)
	}
	if o.PortMapBackend != "nftables" && o.PortMapBackend != "iptables" {
		return fmt.Errorf("port mapping backend %q is none of nftables and iptables", o.PortMapBackend)
	}
	if o.MTU != 0 && (o.MTU < 576 || o.MTU > 65535) {
		return fmt.Errorf("MTU %d is not between 576 and 65535", o.MTU)
	}
	if len(b.subnets) == 0 || len(b.subnets) > 2 || len(b.subnets) == 2 && b.subnets[0].Addr().Is4() == b.subnets[1].Addr().Is4() {
		return fmt.Errorf("subnets %v: one is needed, or one of each family", b.subnets)
	}
	for _, s := range b.subnets {
		if !s.IsValid() || s.Addr().Is4In6() || s.Bits() == 0 || s.Bits() > s.Addr().BitLen()-2 {
			return fmt.Errorf("subnet %v has no room for a gateway and a pod, or is none", s)
		}
	}
	for _, p := range o.Internal {
		if !p.IsValid() {
			return errors.New("an internal range is not valid")
		}
	}
	return nil
}

// Gateways returns the node's own addresses in its subnets, the first of each.
func (b *Bridge) Gateways() []netip.Prefix {
	var all []netip.Prefix
	for _, s := range b.subnets {
		all = append(all, netip.PrefixFrom(s.Addr().Next(), s.Bits()))
	}
	return all
}
