package kubernetesservice

import (
	"net"
	"net/netip"
)

// Advertised picks the address to advertise by a server that listens on listen, for services of
// a network: listen itself where others can reach it, else the first address of this host that
// they can, of the network's family. It fails, with false, on a host that has none.
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
