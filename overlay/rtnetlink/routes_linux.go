package rtnetlink

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/overlay"
)

// entry is a neighbour of the device: where packets to an address go, or, with an address of a host, where packets to a hardware
// address do.
type entry struct {
	address  netip.Addr
	mac      overlay.MAC
	outwards bool
}

// neighbours makes the permanent neighbours of the device those of the routes.
func (w *Writer) neighbours(device netlink.Link, routes []overlay.Route) error {
	want := map[entry]bool{}
	for _, r := range routes {
		if r.Encapsulated {
			want[entry{r.Network.Addr(), r.Device, false}] = true
			want[entry{r.Address, r.Device, true}] = true
		}
	}
	has, err := w.entries(device)
	if err != nil {
		return err
	}
	var errs []error
	for e := range has {
		if !want[e] {
			errs = append(errs, ignore(w.handle.NeighDel(neighbour(device, e)), unix.ENOENT))
		}
	}
	for e := range want {
		if !has[e] {
			errs = append(errs, w.handle.NeighSet(neighbour(device, e)))
		}
	}
	return errors.Join(errs...)
}

// entries are the permanent neighbours that the device has.
func (w *Writer) entries(device netlink.Link) (map[entry]bool, error) {
	has := map[entry]bool{}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6, unix.AF_BRIDGE} {
		all, err := w.handle.NeighList(device.Attrs().Index, family)
		if err != nil {
			return nil, fmt.Errorf("neighbours of device %s: %w", device.Attrs().Name, err)
		}
		for _, n := range all {
			address, ok := netip.AddrFromSlice(n.IP)
			if !ok || n.State&netlink.NUD_PERMANENT == 0 || len(n.HardwareAddr) != len(overlay.MAC{}) {
				continue
			}
			has[entry{address.Unmap(), overlay.MAC(n.HardwareAddr), family == unix.AF_BRIDGE}] = true
		}
	}
	return has, nil
}

func neighbour(device netlink.Link, e entry) *netlink.Neigh {
	n := &netlink.Neigh{
		LinkIndex: device.Attrs().Index, State: netlink.NUD_PERMANENT, IP: e.address.AsSlice(), HardwareAddr: e.mac[:],
		Family: unix.AF_INET, Type: unix.RTN_UNICAST,
	}
	switch {
	case e.outwards:
		n.Family, n.Flags, n.Type = unix.AF_BRIDGE, netlink.NTF_SELF, 0
	case e.address.Is6():
		n.Family = unix.AF_INET6
	}
	return n
}

// hop is a route in the kernel.
type hop struct {
	network netip.Prefix
	via     netip.Addr
	link    int
}

// routes makes the routes with our protocol these.
func (w *Writer) routes(routes []overlay.Route, under, device int) error {
	want := map[hop]bool{}
	for _, r := range routes {
		if r.Encapsulated {
			want[hop{r.Network, r.Network.Addr(), device}] = true
		} else {
			want[hop{r.Network, r.Address, under}] = true
		}
	}
	has := map[hop]bool{}
	protocol := netlink.RouteProtocol(w.options.Protocol)
	var stale []netlink.Route
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		all, err := w.handle.RouteListFiltered(family, &netlink.Route{Protocol: protocol}, netlink.RT_FILTER_PROTOCOL)
		if err != nil {
			return fmt.Errorf("routes: %w", err)
		}
		for _, r := range all {
			network, _ := prefixOf(r.Dst)
			via, _ := netip.AddrFromSlice(r.Gw)
			h := hop{network, via.Unmap(), r.LinkIndex}
			has[h] = true
			if !want[h] {
				stale = append(stale, r)
			}
		}
	}
	var errs []error
	for h := range want {
		if !has[h] {
			r := &netlink.Route{LinkIndex: h.link, Dst: netOf(h.network), Gw: h.via.AsSlice(), Protocol: protocol}
			if h.link == device {
				r.Flags = int(netlink.FLAG_ONLINK)
			}
			if err := w.handle.RouteReplace(r); err != nil {
				errs = append(errs, fmt.Errorf("route to %s: %w", h.network, err))
			}
		}
	}
	for _, r := range stale {
		errs = append(errs, ignore(w.handle.RouteDel(&r), unix.ESRCH))
	}
	return errors.Join(errs...)
}

// ignore returns no error if it means that what was to be removed is gone.
func ignore(err, gone error) error {
	if errors.Is(err, gone) {
		return nil
	}
	return err
}
