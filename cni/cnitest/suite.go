// Package cnitest is the conformance suite of cni.Network: what callers may rely on with every implementation.
package cnitest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/keelson-dev/keelson/cni"
)

// Subject is the implementation under test.
type Subject struct {
	// Network is ready and has no attachments.
	Network cni.Network
	// Namespace creates an empty network namespace and returns its path. It is removed at the end of the test.
	Namespace func(t testing.TB) string
	// Unmake removes a namespace before that.
	Unmake func(t testing.TB, path string)
	// Leased counts the addresses in use; nil skips that check.
	Leased func(t testing.TB) int
}

type suite struct{ Subject }

// Run runs the suite. open returns a new subject, and is called for each test.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	for _, test := range []struct {
		name string
		run  func(suite, *testing.T)
	}{
		{"Add", suite.add},
		{"AddTwice", suite.addTwice},
		{"DeleteIsIdempotent", suite.deleteTwice},
		{"DeleteWithoutNamespace", suite.deleteWithout},
		{"DeleteByKey", suite.deleteByKey},
		{"AddAfterDelete", suite.again},
		{"Check", suite.check},
		{"Invalid", suite.invalid},
		{"Cancelled", suite.cancelled},
		{"Concurrent", suite.concurrent},
		{"ConcurrentSame", suite.concurrentSame},
		{"Collect", suite.collect},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := suite{open(t)}
			if err := s.Network.Status(context.WithoutCancel(t.Context())); err != nil {
				t.Fatalf("Status of a network that is ready: %v", err)
			}
			test.run(s, t)
		})
	}
}

// attachment returns a new one with a namespace; both are cleaned up at the end.
func (s suite) attachment(t *testing.T, id string) cni.Attachment {
	t.Helper()
	a := cni.Attachment{ContainerID: id, NetNS: s.Namespace(t), Pod: cni.Pod{Namespace: "default", Name: id, UID: "uid-" + id}}
	t.Cleanup(func() { s.delete(t, a) })
	return a
}

func (s suite) mustAdd(t *testing.T, a cni.Attachment) cni.Result {
	t.Helper()
	r, err := s.Network.Add(context.WithoutCancel(t.Context()), a)
	if err != nil {
		t.Fatalf("Add of %s: %v", a.Key(), err)
	}
	return r
}

func (s suite) delete(t *testing.T, a cni.Attachment) {
	t.Helper()
	if err := s.Network.Delete(context.WithoutCancel(t.Context()), a); err != nil {
		t.Errorf("Delete of %s: %v", a.Key(), err)
	}
}

// leased fails the test unless that many addresses are in use.
func (s suite) leased(t *testing.T, want int) {
	t.Helper()
	if s.Leased == nil {
		return
	}
	if got := s.Leased(t); got != want {
		t.Errorf("%d addresses are in use, want %d", got, want)
	}
}

func is(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

func (s suite) add(t *testing.T) {
	one, two := s.attachment(t, "one"), s.attachment(t, "two")
	two.Interface = "net7"
	seen := map[netip.Addr]bool{}
	for _, a := range []cni.Attachment{one, two} {
		r := s.mustAdd(t, a)
		inside := slices.IndexFunc(r.Interfaces, func(i cni.Interface) bool { return i.Sandbox == a.NetNS })
		if inside < 0 || r.Interfaces[inside].Name != a.Key().Interface {
			t.Errorf("no interface %s in the namespace: %+v", a.Key().Interface, r.Interfaces)
		}
		ips := r.PodIPs()
		if len(ips) == 0 {
			t.Fatalf("the pod has no address: %+v", r)
		}
		for _, ip := range ips {
			if !ip.IsValid() || ip.IsUnspecified() || ip.IsLoopback() || seen[ip] {
				t.Errorf("%s has the address %v after %v", a.Key(), ip, seen)
			}
			seen[ip] = true
		}
		for _, ip := range r.IPs {
			if ip.Gateway.IsValid() && !ip.Address.Contains(ip.Gateway) {
				t.Errorf("gateway %v is not in %v", ip.Gateway, ip.Address)
			}
		}
	}
	s.leased(t, len(seen))
	s.delete(t, one)
	s.delete(t, two)
	s.leased(t, 0)
}

func (s suite) addTwice(t *testing.T) {
	a := s.attachment(t, "one")
	ips := s.mustAdd(t, a).PodIPs()
	_, err := s.Network.Add(t.Context(), a)
	is(t, "a second Add", err, cni.ErrExists)
	if err := s.Network.Check(t.Context(), a); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Check after a second Add: %v", err)
	}
	s.leased(t, len(ips))
}

func (s suite) deleteTwice(t *testing.T) {
	a := s.attachment(t, "one")
	s.delete(t, a) // it never existed
	s.mustAdd(t, a)
	s.delete(t, a)
	s.leased(t, 0)
	s.delete(t, a)
}

func (s suite) deleteWithout(t *testing.T) {
	a := s.attachment(t, "one")
	s.mustAdd(t, a)
	s.Unmake(t, a.NetNS)
	s.delete(t, a)
	s.leased(t, 0)
}

func (s suite) deleteByKey(t *testing.T) {
	a := s.attachment(t, "one")
	s.mustAdd(t, a)
	s.delete(t, cni.Attachment{ContainerID: "one"})
	s.leased(t, 0)
}

func (s suite) again(t *testing.T) {
	a := s.attachment(t, "one")
	for range 3 {
		s.mustAdd(t, a)
		s.delete(t, a)
	}
	s.leased(t, 0)
}

func (s suite) check(t *testing.T) {
	a := s.attachment(t, "one")
	is(t, "Check of what never was", s.Network.Check(t.Context(), a), cni.ErrNotFound)
	s.mustAdd(t, a)
	if err := s.Network.Check(t.Context(), a); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Check: %v", err)
	}
	s.delete(t, a)
	is(t, "Check of what is gone", s.Network.Check(t.Context(), a), cni.ErrNotFound)
}

func (s suite) invalid(t *testing.T) {
	ns := s.Namespace(t)
	for name, a := range map[string]cni.Attachment{
		"no container":    {NetNS: ns},
		"bad container":   {ContainerID: "../one", NetNS: ns},
		"bad interface":   {ContainerID: "one", Interface: "a/b", NetNS: ns},
		"long interface":  {ContainerID: "one", Interface: "sixteencharacter", NetNS: ns},
		"no namespace":    {ContainerID: "one"},
		"port 0":          {ContainerID: "one", NetNS: ns, PortMappings: []cni.PortMapping{{ContainerPort: 80}}},
		"strange mapping": {ContainerID: "one", NetNS: ns, PortMappings: []cni.PortMapping{{HostPort: 80, ContainerPort: 80, Protocol: "icmp"}}},
		"bad argument":    {ContainerID: "one", NetNS: ns, Args: map[string]string{"a": "b;c=d"}},
	} {
		_, err := s.Network.Add(t.Context(), a)
		is(t, name, err, cni.ErrInvalid)
	}
	is(t, "Delete without a container", s.Network.Delete(t.Context(), cni.Attachment{}), cni.ErrInvalid)
	is(t, "Check without a container", s.Network.Check(t.Context(), cni.Attachment{}), cni.ErrInvalid)
	s.leased(t, 0)
}

func (s suite) cancelled(t *testing.T) {
	a := s.attachment(t, "one")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Network.Add(ctx, a)
	is(t, "Add", err, context.Canceled)
	s.leased(t, 0)
	s.mustAdd(t, a)
	is(t, "Delete", s.Network.Delete(ctx, a), context.Canceled)
	s.delete(t, a)
	s.leased(t, 0)
}

func (s suite) concurrent(t *testing.T) {
	var all sync.WaitGroup
	results := make([]cni.Result, 6)
	for i := range results {
		a := s.attachment(t, fmt.Sprintf("pod-%d", i))
		all.Go(func() {
			var err error
			if results[i], err = s.Network.Add(t.Context(), a); err != nil {
				t.Errorf("Add of %s: %v", a.Key(), err)
			}
		})
	}
	all.Wait()
	owner := map[netip.Addr]int{}
	for i, r := range results {
		for _, ip := range r.PodIPs() {
			if other, taken := owner[ip]; taken {
				t.Errorf("%d and %d both have %v", i, other, ip)
			}
			owner[ip] = i
		}
	}
	s.leased(t, len(owner))
}

func (s suite) concurrentSame(t *testing.T) {
	a := s.attachment(t, "one")
	var all sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		all.Go(func() { _, errs[i] = s.Network.Add(t.Context(), a) })
	}
	all.Wait()
	succeeded := 0
	for _, err := range errs {
		if err == nil {
			succeeded++
		} else {
			is(t, "an Add beside others", err, cni.ErrExists)
		}
	}
	if succeeded != 1 {
		t.Errorf("%d of several Adds of the same attachment succeeded: %v", succeeded, errs)
	}
}

func (s suite) collect(t *testing.T) {
	c, ok := s.Network.(cni.Collector)
	if !ok {
		is(t, "Collect", cni.Collect(t.Context(), s.Network, nil), errors.ErrUnsupported)
		return
	}
	keys := func(want ...cni.Key) {
		t.Helper()
		if got, err := c.Attachments(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Errorf("attachments %v, %v; want %v", got, err, want)
		}
	}
	keys()
	a, b, d := s.attachment(t, "a"), s.attachment(t, "b"), s.attachment(t, "d")
	s.mustAdd(t, d)
	s.mustAdd(t, a)
	live := len(s.mustAdd(t, b).PodIPs())
	keys(a.Key(), b.Key(), d.Key())
	if err := cni.Collect(t.Context(), s.Network, []cni.Key{b.Key(), {ContainerID: "unknown", Interface: "eth0"}}); err != nil {
		t.Fatal(err)
	}
	keys(b.Key())
	s.leased(t, live)
	if err := s.Network.Check(t.Context(), b); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Check of a live attachment: %v", err)
	}
	if err := c.Collect(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	keys()
	s.leased(t, 0)
}
