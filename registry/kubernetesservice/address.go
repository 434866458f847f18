package kubernetesservice

import (
	"net"
	"net/netip"
)

// Advertised returns the address that a server listening on listen should advertise for services of a network:
// listen itself if others can reach it, otherwise this host's first reachable address of the network's family.
// It returns false if there is none.
func Advertised(listen netip.Addr, network netip.Prefix) (netip.Addr, bool) {
	good := func(a netip.Addr) bool { return a.IsGlobalUnicast() && a.Is4() == network.Addr().Is4() }
	if listen = listen.Unmap(); good(listen) {
		return listen, true
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, false
	}
	for _, addr := range addrs {
		if prefix, err := netip.ParsePrefix(addr.String()); err == nil && good(prefix.Addr().Unmap()) {
			return prefix.Addr().Unmap(), true
		}
	}
	return netip.Addr{}, false
}
