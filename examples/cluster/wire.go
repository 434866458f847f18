package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/keelson-dev/keelson/cni/netns"
)

// wire connects this machine with the hosts of --hosts netns, which are network namespaces: each has a device eth0 on a bridge of
// this machine, which is their router to the rest of the world.
type wire struct {
	dir     string // where the namespaces are pinned
	id      string
	network netip.Prefix
	pods    netip.Prefix
}

func newWire(s *settings) (*wire, error) {
	dir, err := filepath.Abs(filepath.Join(s.dataDir, "hosts"))
	if err != nil {
		return nil, err
	}
	return &wire{dir: dir, id: fmt.Sprintf("%x", sha256.Sum256([]byte(dir)))[:8], network: s.hosts.network, pods: s.network}, nil
}

// gateway is this machine's address on the wire, address that of a host.
func (w *wire) gateway() netip.Addr { return w.network.Masked().Addr().Next() }

func (w *wire) address(host int) netip.Addr {
	a := w.gateway()
	for range host + 1 {
		a = a.Next()
	}
	return a
}

// namespace is the path of a host's network namespace.
func (w *wire) namespace(host string) string { return filepath.Join(w.dir, host) }

// lock is a file that a host's process holds, and whoever removes the host.
func (w *wire) lock(host string) string { return filepath.Join(w.dir, host+".lock") }

func (w *wire) bridge() string { return "kh" + w.id }

func (w *wire) plug(host int) string { return fmt.Sprintf("%s.%d", w.bridge(), host) }

func (w *wire) table() string { return "keelson-hosts-" + w.id }

// up makes the wire with its hosts, or completes it.
func (w *wire) up(ctx context.Context, hosts []string) error {
	if err := w.free(); err != nil {
		return err
	}
	if err := os.MkdirAll(w.dir, 0o700); err != nil { // by which down finds what follows
		return err
	}
	var script strings.Builder
	if !exists(w.bridge()) {
		fmt.Fprintf(&script, "link add name %s type bridge\n", w.bridge())
	}
	fmt.Fprintf(&script, "address replace %s/%d dev %s\nlink set dev %s up\n", w.gateway(), w.network.Bits(), w.bridge(), w.bridge())
	if err := command(ctx, script.String(), "ip", "-batch", "-"); err != nil {
		return err
	}
	for i, host := range hosts {
		if err := w.join(ctx, i, host); err != nil {
			return fmt.Errorf("host %s: %w", host, err)
		}
	}
	// Hosts reach the world through this machine, under its address.
	rules := fmt.Sprintf(`table ip %[1]s
delete table ip %[1]s
table ip %[1]s {
	chain postrouting {
		type nat hook postrouting priority 100; policy accept;
		ip saddr %[2]s ip daddr != { %[2]s, %[3]s, 224.0.0.0/4 } masquerade
	}
}
`, w.table(), w.network.Masked(), w.pods.Masked())
	if err := command(ctx, rules, "nft", "-f", "-"); err != nil {
		return err
	}
	const forwarding = "/proc/sys/net/ipv4/ip_forward"
	if now, err := os.ReadFile(forwarding); err == nil && strings.TrimSpace(string(now)) == "1" {
		return nil // it may not be writable
	}
	return os.WriteFile(forwarding, []byte("1\n"), 0o600)
}

// join connects a host.
func (w *wire) join(ctx context.Context, number int, host string) error {
	ns, plug := w.namespace(host), w.plug(number)
	if err := netns.Check(ns); err != nil {
		if err := netns.Remove(ns); err != nil {
			return err
		}
		if err := netns.Create(ns); err != nil {
			return err
		}
	}
	if !exists(plug) {
		add := fmt.Sprintf("link add name %s type veth peer name eth0 netns %s\n", plug, ns)
		if err := command(ctx, add, "ip", "-batch", "-"); err != nil {
			return err
		}
	}
	if err := command(ctx, fmt.Sprintf("link set dev %s master %s up\n", plug, w.bridge()), "ip", "-batch", "-"); err != nil {
		return err
	}
	inside := fmt.Sprintf("link set dev lo up\nlink set dev eth0 up\naddress replace %s/%d dev eth0\nroute replace default via %s dev eth0\n",
		w.address(number), w.network.Bits(), w.gateway())
	return netns.Do(ns, func() error { return command(ctx, inside, "ip", "-batch", "-") })
}

// free fails if something else on this machine has addresses of the wire.
func (w *wire) free() error {
	devices, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, device := range devices {
		if device.Name == w.bridge() {
			continue
		}
		addresses, err := device.Addrs()
		if err != nil {
			continue // it is going away
		}
		for _, a := range addresses {
			if at, err := netip.ParsePrefix(a.String()); err == nil && at.Overlaps(w.network) {
				return fmt.Errorf("--host-cidr %s: device %s has %s: choose another network", w.network, device.Name, at)
			}
		}
	}
	return nil
}

// down removes the wire and its hosts. It continues after failures.
func (w *wire) down(ctx context.Context) error {
	entries, err := os.ReadDir(w.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there never was one
	}
	errs := []error{err}
	for _, e := range entries {
		errs = append(errs, netns.Remove(filepath.Join(w.dir, e.Name())))
	}
	devices, err := net.Interfaces()
	errs = append(errs, err)
	for _, device := range devices {
		// Processes that have just ended may still hold a namespace, and with it the other end.
		if device.Name == w.bridge() || strings.HasPrefix(device.Name, w.bridge()+".") {
			errs = append(errs, w.unplug(ctx, device.Name))
		}
	}
	script := fmt.Sprintf("table ip %s\ndelete table ip %s\n", w.table(), w.table())
	return errors.Join(append(errs, command(ctx, script, "nft", "-f", "-"), os.RemoveAll(w.dir))...)
}

func (w *wire) unplug(ctx context.Context, device string) error {
	err := command(ctx, "link delete dev "+device+"\n", "ip", "-batch", "-")
	if !exists(device) {
		return nil
	}
	return err
}

func exists(device string) bool {
	_, err := net.InterfaceByName(device)
	return err == nil
}

// command runs a command with an input.
func command(ctx context.Context, input, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...)
	var out bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(input), &out, &out
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}
