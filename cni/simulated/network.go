// Package simulated is a network that connects nothing: a cni.Network and cni.Collector that allocates addresses, keeps
// attachments in memory and obeys the whole contract (see package cnitest), for tests of code that attaches pods.
//
// Options.Behave makes calls slow, hang or fail. Errors are those of package cni. A Network is
// safe for concurrent use and has no goroutines; inside a testing/synctest bubble it lives in
// virtual time.
package simulated

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/keelson-dev/keelson/cni"
)

// Operation is a method of cni.Network.
type Operation string

// The operations passed to Options.Behave.
const (
	Add    Operation = "Add"
	Delete Operation = "Delete"
	Check  Operation = "Check"
	Status Operation = "Status"
)

// Options of a Network. The zero value is ready to use.
type Options struct {
	// Subnets are the address pools, one address from each; 10.88.0.0/16 when empty. The first address of each is the
	// gateway.
	Subnets []netip.Prefix
	// DNS is part of every result.
	DNS cni.DNS
	// Behave is called at the beginning of every operation, without locks held and possibly from many goroutines. Its
	// error becomes the operation's; a failed Add has no effect. It may wait, at most until the context ends. Status
	// passes no attachment. Nil makes every operation succeed at once.
	Behave func(ctx context.Context, op Operation, a cni.Attachment) error
}

// Network is a simulated network. Make one with New.
type Network struct {
	options Options

	mu       sync.Mutex
	last     []netip.Addr // last allocated, for each subnet
	attached map[cni.Key]cni.Result
	busy     map[cni.Key]chan struct{}
}

// New returns a network without attachments.
func New(options Options) *Network {
	if len(options.Subnets) == 0 {
		options.Subnets = []netip.Prefix{netip.MustParsePrefix("10.88.0.0/16")}
	}
	n := &Network{options: options, attached: map[cni.Key]cni.Result{}, busy: map[cni.Key]chan struct{}{}}
	for _, s := range options.Subnets {
		n.last = append(n.last, s.Masked().Addr().Next())
	}
	return n
}

// begin waits for its turn at the attachment and calls Behave.
func (n *Network) begin(ctx context.Context, op Operation, a cni.Attachment) (end func(), err error) {
	if err := a.Validate(); err != nil {
		return nil, err
	}
	for {
		n.mu.Lock()
		other := n.busy[a.Key()]
		if other == nil {
			break
		}
		n.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	done := make(chan struct{})
	n.busy[a.Key()] = done
	n.mu.Unlock()
	end = func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.busy, a.Key())
		close(done)
	}
	if err = ctx.Err(); err == nil && n.options.Behave != nil {
		err = n.options.Behave(ctx, op, a)
	}
	if err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// Add allocates addresses, see cni.Attacher.
func (n *Network) Add(ctx context.Context, a cni.Attachment) (cni.Result, error) {
	if a.NetNS == "" {
		return cni.Result{}, fmt.Errorf("%w: no network namespace", cni.ErrInvalid)
	}
	end, err := n.begin(ctx, Add, a)
	if err != nil {
		return cni.Result{}, err
	}
	defer end()
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.attached[a.Key()]; ok {
		return cni.Result{}, fmt.Errorf("%w: %s", cni.ErrExists, a.Key())
	}
	r := cni.Result{
		Interfaces: []cni.Interface{{Name: a.Key().Interface, MAC: mac(a), Sandbox: a.NetNS}},
		DNS:        n.options.DNS,
	}
	for i, s := range n.options.Subnets {
		addr, ok := n.free(i)
		if !ok {
			return cni.Result{}, &cni.PluginError{Plugin: "simulated", Command: "ADD", Message: "no address is left in " + s.String()}
		}
		gateway := s.Masked().Addr().Next()
		r.IPs = append(r.IPs, cni.IP{Address: netip.PrefixFrom(addr, s.Bits()), Gateway: gateway})
		everywhere := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if addr.Is6() {
			everywhere = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		r.Routes = append(r.Routes, cni.Route{Destination: everywhere, Gateway: gateway})
	}
	for i := range r.IPs {
		n.last[i] = r.IPs[i].Address.Addr()
	}
	n.attached[a.Key()] = r
	return copyOf(r), nil
}

// free returns the next free address of a subnet. Allocation is cyclic, so that a freed address is not reused at once.
func (n *Network) free(subnet int) (netip.Addr, bool) {
	in := n.options.Subnets[subnet].Masked()
	gateway := in.Addr().Next()
	taken := map[netip.Addr]bool{}
	for _, r := range n.attached {
		taken[r.IPs[subnet].Address.Addr()] = true
	}
	addr := n.last[subnet]
	for range len(taken) + 3 { // as many as may be taken, and where a cycle begins
		if addr = addr.Next(); !in.Contains(addr) || in.Addr().Is4() && !in.Contains(addr.Next()) {
			addr = gateway.Next()
		}
		if in.Contains(addr) && !taken[addr] && (in.Addr().Is6() || in.Contains(addr.Next())) {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// Delete frees addresses, see cni.Attacher.
func (n *Network) Delete(ctx context.Context, a cni.Attachment) error {
	end, err := n.begin(ctx, Delete, a)
	if err != nil {
		return err
	}
	defer end()
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.attached, a.Key())
	return nil
}

// Check checks an attachment, see cni.Checker.
func (n *Network) Check(ctx context.Context, a cni.Attachment) error {
	end, err := n.begin(ctx, Check, a)
	if err != nil {
		return err
	}
	defer end()
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.attached[a.Key()]; !ok {
		return fmt.Errorf("%w: %s", cni.ErrNotFound, a.Key())
	}
	return nil
}

// Status is nil unless Behave says otherwise, see cni.Reporter.
func (n *Network) Status(ctx context.Context) error {
	if err := ctx.Err(); err != nil || n.options.Behave == nil {
		return err
	}
	return n.options.Behave(ctx, Status, cni.Attachment{})
}

// Attachments returns the existing attachments, see cni.Collector.
func (n *Network) Attachments(context.Context) ([]cni.Key, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.SortedFunc(maps.Keys(n.attached), func(a, b cni.Key) int { return strings.Compare(a.String(), b.String()) }), nil
}

// Collect removes unwanted attachments, see cni.Collector.
func (n *Network) Collect(ctx context.Context, live []cni.Key) error {
	keys, err := n.Attachments(ctx)
	for _, key := range keys {
		if !slices.Contains(live, key) && err == nil {
			err = n.Delete(ctx, cni.Attachment{ContainerID: key.ContainerID, Interface: key.Interface})
		}
	}
	return err
}

func mac(a cni.Attachment) string {
	if a.MAC != "" {
		return a.MAC
	}
	sum := sha256.Sum256([]byte(a.Key().String()))
	return append(net.HardwareAddr{0x0a, 0x58}, sum[:4]...).String()
}

func copyOf(r cni.Result) cni.Result {
	r.Interfaces, r.IPs, r.Routes = slices.Clone(r.Interfaces), slices.Clone(r.IPs), slices.Clone(r.Routes)
	d := &r.DNS
	d.Nameservers, d.Search, d.Options = slices.Clone(d.Nameservers), slices.Clone(d.Search), slices.Clone(d.Options)
	return r
}
