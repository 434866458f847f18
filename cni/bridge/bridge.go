package bridge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// run runs a command on this host.
func run(ctx context.Context, stdin []byte, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = bytes.NewReader(stdin), &out, &errs, time.Second
	err := cmd.Run()
	switch {
	case err == nil:
		return out.Bytes(), nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: %w", name, ctx.Err())
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("%w: install it (on Debian ip is in iproute2, nft in nftables)", err)
	}
	return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
}

// link is a device as reported by ip.
type link struct {
	Name string `json:"ifname"`
	Info struct {
		Kind string `json:"info_kind"`
	} `json:"linkinfo"`
	Addresses []struct {
		Local  string `json:"local"`
		Length int    `json:"prefixlen"`
		Scope  string `json:"scope"`
	} `json:"addr_info"`
}

// links lists devices with their addresses: all, or those selected by the arguments.
func (b *Bridge) links(ctx context.Context, selection ...string) ([]link, error) {
	out, err := b.options.Run(ctx, nil, "ip", append([]string{"-json", "-details", "address", "show"}, selection...)...)
	if err != nil {
		return nil, err
	}
	var all []link
	if len(bytes.TrimSpace(out)) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(out, &all); err != nil {
		return nil, fmt.Errorf("ip address show: %w", err)
	}
	return slices.DeleteFunc(all, func(l link) bool { return l.Name == "" }), nil
}

// device returns the bridge's device, or nil.
func (b *Bridge) device(ctx context.Context) (*link, error) {
	all, err := b.links(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		if l.Name == b.options.Bridge {
			if l.Info.Kind != "bridge" {
				return nil, fmt.Errorf("device %s is there and is no bridge but %q: name another one", l.Name, l.Info.Kind)
			}
			return &l, nil
		}
	}
	return nil, nil //nolint:nilnil // there is none
}

// Up sets up the device, its addresses, IP forwarding and masquerading, and corrects whatever differs. It may be called
// again, also with pods attached.
func (b *Bridge) Up(ctx context.Context) error {
	device, err := b.device(ctx)
	if err != nil {
		return fmt.Errorf("bridge %s: %w", b.options.Bridge, err)
	}
	if _, err := b.options.Run(ctx, []byte(b.setUp(device)), "ip", "-batch", "-"); err != nil {
		return fmt.Errorf("bridge %s: %w", b.options.Bridge, err)
	}
	for _, s := range b.subnets {
		if err := b.forward(ctx, s); err != nil {
			return fmt.Errorf("turning IP forwarding on: %w", err)
		}
	}
	if _, err := b.options.Run(ctx, []byte(b.rules()), "nft", "-f", "-"); err != nil {
		return fmt.Errorf("masquerading of bridge %s: %w", b.options.Bridge, err)
	}
	return nil
}

// forward turns on forwarding by commands rather than a write, so that it happens in the namespace where Run runs.
func (b *Bridge) forward(ctx context.Context, subnet netip.Prefix) error {
	setting := "/proc/sys/net/ipv4/ip_forward"
	if subnet.Addr().Is6() {
		setting = "/proc/sys/net/ipv6/conf/all/forwarding"
	}
	now, err := b.options.Run(ctx, nil, "cat", setting)
	if err != nil || strings.TrimSpace(string(now)) == "1" { // the file may not be writable here
		return err
	}
	_, err = b.options.Run(ctx, []byte("1\n"), "tee", setting)
	return err
}

// setUp returns the commands for ip, given the present device or nil.
func (b *Bridge) setUp(device *link) string {
	var s strings.Builder
	name, mtu := b.options.Bridge, ""
	if b.options.MTU != 0 {
		mtu = fmt.Sprintf(" mtu %d", b.options.MTU)
	}
	if device == nil {
		// A fixed address: otherwise the device takes the lowest of its ports' and changes it with the pods.
		fmt.Fprintf(&s, "link add name %s address %s type bridge\n", name, mac(name))
		device = &link{}
	}
	// Traffic between ports passes the host's rules, so that replies of services find their way back.
	fmt.Fprintf(&s, "link set dev %s type bridge nf_call_iptables 1 nf_call_ip6tables 1\n", name)
	fmt.Fprintf(&s, "link set dev %s%s up\n", name, mtu)
	for _, a := range device.Addresses {
		addr, err := netip.ParseAddr(a.Local)
		if err == nil && a.Scope == "global" && !slices.Contains(b.Gateways(), netip.PrefixFrom(addr, a.Length)) {
			fmt.Fprintf(&s, "address delete %s/%d dev %s\n", a.Local, a.Length, name)
		}
	}
	for _, gateway := range b.Gateways() {
		nodad := ""
		if gateway.Addr().Is6() {
			nodad = " nodad" // without ports, duplicate detection would not end
		}
		fmt.Fprintf(&s, "address replace %s dev %s%s\n", gateway, name, nodad)
	}
	return s.String()
}

// mac is a locally administered hardware address derived from the name.
func mac(name string) net.HardwareAddr {
	sum := sha256.Sum256([]byte(name))
	return append(net.HardwareAddr{0x0a, 0x58}, sum[:4]...)
}

// Down removes what Up and the plugins have left: the device with its ports, the rules, port mappings into the subnets,
// the leases and cached results. Stop all runtimes that attach pods first. It continues after failures, and ignores
// what does not exist.
func (b *Bridge) Down(ctx context.Context) error {
	var errs []error
	device, err := b.device(ctx)
	errs = append(errs, err)
	if device != nil {
		errs = append(errs, b.removeDevice(ctx))
	}
	script := fmt.Sprintf("table inet %s\ndelete table inet %s\n", b.table(), b.table())
	_, err = b.options.Run(ctx, []byte(script), "nft", "-f", "-")
	none := func(string) bool { return false }
	errs = append(errs, err, b.removeMappings(ctx, none), b.removeResults(none), os.RemoveAll(b.leaseDir()))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("removing bridge %s: %w", b.options.Bridge, err)
	}
	return nil
}

func (b *Bridge) removeDevice(ctx context.Context) error {
	ports, err := b.links(ctx, "master", b.options.Bridge)
	if err != nil {
		return err
	}
	var s strings.Builder
	for _, p := range ports {
		fmt.Fprintf(&s, "link delete dev %s\n", p.Name)
	}
	// A port is removed with its pod's namespace, perhaps just now: -force continues after the error.
	_, err = b.options.Run(ctx, []byte(s.String()+"link delete dev "+b.options.Bridge+"\n"), "ip", "-force", "-batch", "-")
	if left, again := b.device(ctx); again == nil && left == nil {
		return nil
	}
	return err
}

func (b *Bridge) leaseDir() string { return filepath.Join(b.options.DataDir, b.options.Network) }
