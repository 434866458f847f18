package main

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"net/url"
)

const defaultHostNetwork = "10.63.0.0/24"

// hostSettings are the flags about which hosts nodes of real containers are.
type hostSettings struct {
	kind, cidr string
	network    netip.Prefix
}

func (h *hostSettings) define(f *flag.FlagSet) {
	f.StringVar(&h.kind, "hosts", "shared", "")
	f.StringVar(&h.cidr, "host-cidr", defaultHostNetwork, "")
}

func (h *hostSettings) check(s *settings) error {
	if h.kind != "shared" && h.kind != "netns" {
		return fmt.Errorf("--hosts %q: choose shared or netns", h.kind)
	}
	var err error
	if h.network, err = netip.ParsePrefix(h.cidr); err != nil || !h.network.Addr().Is4() || h.network.Bits() < 16 || h.network.Bits() > 30 {
		return fmt.Errorf("--host-cidr %q: write it as ADDRESS/BITS, IPv4 with 16 to 30 bits, as in %s", h.cidr, defaultHostNetwork)
	}
	if h.kind != "netns" {
		return nil
	}
	const others = 3 // the network's own address, this machine's, and that of all
	switch room := 1<<(32-h.network.Bits()) - others; {
	case s.runtime != "containerd":
		return errors.New("--hosts netns needs real containers: add --runtime containerd")
	case s.disabled("controllers"), s.disabled("nodes"):
		return errors.New("--hosts netns needs the controllers and the nodes, which --disable leaves out")
	case s.nodes > room:
		return fmt.Errorf("--host-cidr %s: has room for %d hosts, not for %d", h.network, room, s.nodes)
	case h.network.Overlaps(s.network):
		return fmt.Errorf("--host-cidr %s overlaps with --cluster-cidr %s: choose another", h.network, s.network)
	}
	if u, err := url.Parse(s.mirror); err == nil {
		if at, err := netip.ParseAddr(u.Hostname()); err == nil && at.IsLoopback() || u.Hostname() == "localhost" {
			return fmt.Errorf("--registry-mirror %s: hosts of their own do not reach the loopback interface of this machine", s.mirror)
		}
	}
	return nil
}
