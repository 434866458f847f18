package rtnetlink

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/overlay"
)

// Options of a Writer. The zero value is ready to use.
type Options struct {
	// Device is the name of the VXLAN device; keelson-vxlan when empty.
	Device string
	// VNI is the number of the VXLAN, 1 if it is 0; Port is its UDP port, 8472 if it is 0. All hosts have the same.
	VNI, Port int
	// Protocol is the number that marks routes, 75 if it is 0. No other program of the host has the same.
	Protocol int
}

// Writer is an overlay.Writer. Make one with New.
type Writer struct {
	address netip.Addr
	options Options
	handle  *netlink.Handle
}

var _ overlay.Writer = (*Writer)(nil)

// New makes a writer for the host with an address, in the network namespace of the calling thread. The caller closes it.
func New(address netip.Addr, o Options) (*Writer, error) {
	o.Device = cmp.Or(o.Device, "keelson-vxlan")
	o.VNI, o.Port, o.Protocol = cmp.Or(o.VNI, 1), cmp.Or(o.Port, 8472), cmp.Or(o.Protocol, 75)
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	return &Writer{address: address, options: o, handle: handle}, nil
}

// Close frees the writer's socket. What was written stays.
func (w *Writer) Close() error {
	w.handle.Close()
	return nil
}

// ErrNoAddress: no device of the host has its address.
var ErrNoAddress = errors.New("no device has the address of the host")

// Underlay implements overlay.Writer.
func (w *Writer) Underlay(context.Context) (overlay.Underlay, error) {
	u := overlay.Underlay{Address: w.address}
	link, err := w.own()
	if err != nil {
		return u, err
	}
	u.Device, u.MTU = link.Attrs().Name, link.Attrs().MTU
	all, err := w.handle.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return u, fmt.Errorf("addresses of device %s: %w", u.Device, err)
	}
	for _, a := range all {
		segment, ok := prefixOf(a.IPNet)
		if ok && a.Scope == unix.RT_SCOPE_UNIVERSE && (a.Peer == nil || a.Peer.String() == a.IPNet.String()) { // not of one line
			u.Segments = append(u.Segments, segment.Masked())
		}
	}
	slices.SortFunc(u.Segments, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	return u, nil
}

// own returns the device with the host's address.
func (w *Writer) own() (netlink.Link, error) {
	all, err := w.handle.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("addresses of this host: %w", err)
	}
	for _, a := range all {
		if at, ok := netip.AddrFromSlice(a.IP); ok && at.Unmap() == w.address {
			return w.handle.LinkByIndex(a.LinkIndex)
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrNoAddress, w.address)
}

// Write implements overlay.Writer.
func (w *Writer) Write(_ context.Context, t overlay.Table) error {
	under, err := w.handle.LinkByName(t.Underlay.Device)
	if err != nil {
		return fmt.Errorf("device %s: %w", t.Underlay.Device, err)
	}
	device, err := w.device(t, under.Attrs().Index)
	if err != nil {
		return fmt.Errorf("device %s: %w", w.options.Device, err)
	}
	// Whoever sends by a new route finds the neighbour, and whoever still has an old one loses nothing.
	return errors.Join(
		w.addresses(device, t.Own), w.neighbours(device, t.Routes), w.routes(t.Routes, under.Attrs().Index, device.Attrs().Index),
	)
}

// Remove removes what Write has made.
func (w *Writer) Remove(context.Context) error {
	err := w.routes(nil, 0, 0)
	link, lookup := w.handle.LinkByName(w.options.Device)
	if _, missing := errors.AsType[netlink.LinkNotFoundError](lookup); missing {
		return err
	}
	if lookup != nil {
		return errors.Join(err, lookup)
	}
	return errors.Join(err, w.handle.LinkDel(link))
}

// device makes the VXLAN device, or corrects it.
func (w *Writer) device(t overlay.Table, under int) (netlink.Link, error) {
	want := &netlink.Vxlan{
		LinkAttrs: netlink.LinkAttrs{Name: w.options.Device, MTU: overlay.MTU(t.Underlay), HardwareAddr: t.Device[:]},
		VxlanId:   w.options.VNI, VtepDevIndex: under, SrcAddr: t.Underlay.Address.AsSlice(), Port: w.options.Port,
	}
	link, err := w.handle.LinkByName(w.options.Device)
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); err != nil && !missing {
		return nil, err
	}
	if is, ok := link.(*netlink.Vxlan); err == nil && (!ok || !same(is, want)) {
		if !ok {
			return nil, fmt.Errorf("it is there and is no VXLAN but %s", link.Type())
		}
		if err := w.handle.LinkDel(link); err != nil {
			return nil, err
		}
		link = nil
	}
	if link == nil {
		if err := w.handle.LinkAdd(want); err != nil {
			return nil, err
		}
		if link, err = w.handle.LinkByName(w.options.Device); err != nil {
			return nil, err
		}
	}
	if !bytes.Equal(link.Attrs().HardwareAddr, t.Device[:]) {
		if err := w.handle.LinkSetHardwareAddr(link, t.Device[:]); err != nil {
			return nil, err
		}
	}
	if link.Attrs().MTU != want.MTU {
		if err := w.handle.LinkSetMTU(link, want.MTU); err != nil {
			return nil, err
		}
	}
	if link.Attrs().Flags&net.FlagUp == 0 {
		return link, w.handle.LinkSetUp(link)
	}
	return link, nil
}

// same reports whether a device needs no replacement.
func same(is, want *netlink.Vxlan) bool {
	return is.VxlanId == want.VxlanId && is.VtepDevIndex == want.VtepDevIndex && is.Port == want.Port && is.SrcAddr.Equal(want.SrcAddr) && !is.Learning
}

// addresses gives the device the first address of each network, and no other. Packets that the host itself sends to pods of
// other hosts have it, so that the answers find their way back.
func (w *Writer) addresses(device netlink.Link, own []netip.Prefix) error {
	want := map[netip.Prefix]bool{}
	for _, network := range own {
		want[netip.PrefixFrom(network.Addr(), network.Addr().BitLen())] = true
	}
	all, err := w.handle.AddrList(device, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	var errs []error
	for _, a := range all {
		at, ok := prefixOf(a.IPNet)
		if !ok || a.Scope != unix.RT_SCOPE_UNIVERSE {
			continue
		}
		if !want[at] {
			errs = append(errs, w.handle.AddrDel(device, &a))
		}
		delete(want, at)
	}
	for at := range want {
		a := &netlink.Addr{IPNet: netOf(at)}
		if at.Addr().Is6() {
			a.Flags = unix.IFA_F_NODAD
		}
		errs = append(errs, w.handle.AddrReplace(device, a))
	}
	return errors.Join(errs...)
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	address, ok := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(address.Unmap(), bits), ok
}

func netOf(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
