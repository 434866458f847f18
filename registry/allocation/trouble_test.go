package allocation_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/allocation"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

var errBroken = errors.New("broken")

// troubled is access whose calls can be made to fail, and are counted: "list services", say.
type troubled struct {
	registry.Access
	fail   map[string]error
	called map[string]int
}

func trouble(a registry.Access) *troubled {
	return &troubled{Access: a, fail: map[string]error{}, called: map[string]int{}}
}

func (a *troubled) call(verb string, gr schema.GroupResource) error {
	what := verb + " " + gr.Resource
	a.called[what]++
	return a.fail[what]
}

func (a *troubled) Create(ctx context.Context, gr schema.GroupResource, obj registry.Object) (registry.Object, error) {
	if err := a.call("create", gr); err != nil {
		return nil, err
	}
	return a.Access.Create(ctx, gr, obj)
}

func (a *troubled) Get(ctx context.Context, key registry.ObjectKey) (registry.Object, error) {
	if err := a.call("get", key.Resource); err != nil {
		return nil, err
	}
	return a.Access.Get(ctx, key)
}

func (a *troubled) List(ctx context.Context, gr schema.GroupResource, namespace string) ([]registry.Object, error) {
	if err := a.call("list", gr); err != nil {
		return nil, err
	}
	return a.Access.List(ctx, gr, namespace)
}

func (a *troubled) Modify(ctx context.Context, key registry.ObjectKey, change func(registry.Object) error, dryRun bool) (registry.Object, error) {
	if err := a.call("modify", key.Resource); err != nil {
		return nil, err
	}
	return a.Access.Modify(ctx, key, change, dryRun)
}

func (a *troubled) Delete(ctx context.Context, key registry.ObjectKey, o metav1.DeleteOptions) error {
	if err := a.call("delete", key.Resource); err != nil {
		return err
	}
	return a.Access.Delete(ctx, key, o)
}

// TestAddressFailures: a failure while allocating an address is returned, and does not say that the address is
// taken.
func TestAddressFailures(t *testing.T) {
	w := newWorld(t, memory.New(memory.Options{}), "10.0.0.0/28", "30000-30099")
	owner := allocation.Owner{Namespace: "ns", Name: "a"}
	had, err := allocation.TakeAddress(t.Context(), w, owner, "IPv4", allocation.AddressWish{})
	if err != nil {
		t.Fatal(err)
	}
	wish := allocation.AddressWish{Addr: netip.MustParseAddr("10.0.0.9")}
	for _, c := range []struct {
		fails string
		do    func(a registry.Access) error
		want  string
	}{
		{"list servicecidrs", func(a registry.Access) error {
			_, err := allocation.TakeAddress(t.Context(), a, owner, "IPv4", wish)
			return err
		}, "broken"},
		{"create ipaddresses", func(a registry.Access) error {
			_, err := allocation.TakeAddress(t.Context(), a, owner, "IPv4", wish)
			return err
		}, "take address 10.0.0.9: broken"},
		{"create ipaddresses", func(a registry.Access) error {
			_, err := allocation.TakeAddress(t.Context(), a, owner, "IPv4", allocation.AddressWish{})
			return err
		}, "take address " + had.String() + ": broken"},
		{"list ipaddresses", func(a registry.Access) error {
			_, err := allocation.TakeAddress(t.Context(), a, owner, "IPv4", allocation.AddressWish{})
			return err
		}, "broken"},
		{"list servicecidrs", func(a registry.Access) error {
			_, err := allocation.TryAddress(t.Context(), a, "IPv4", netip.Addr{})
			return err
		}, "broken"},
		{"get ipaddresses", func(a registry.Access) error {
			_, _, err := allocation.FindAddress(t.Context(), a, owner, had.Addr)
			return err
		}, "broken"},
		{"delete ipaddresses", func(a registry.Access) error { return had.Release(t.Context(), a) }, "broken"},
	} {
		a := trouble(w)
		a.fail[c.fails] = errBroken
		if err := c.do(a); !errors.Is(err, errBroken) || err.Error() != c.want {
			t.Errorf("%s: %v", c.fails, err)
		}
	}
	if got := w.addresses(t); len(got) != 1 {
		t.Errorf("taken: %v", got)
	}
	if _, found, err := allocation.FindAddress(t.Context(), w, owner, wish.Addr); found || err != nil {
		t.Errorf("found %v, %v", found, err)
	}
}

// TestAddressOfTheNextNetwork: when one network is full, the next one serves, and addresses known to be taken
// are not tried one by one.
func TestAddressOfTheNextNetwork(t *testing.T) {
	w := newWorld(t, memory.New(memory.Options{}), "10.0.0.0/28", "30000-30099")
	owner := allocation.Owner{Namespace: "ns", Name: "a"}
	take := func() (string, int, error) {
		a := trouble(w)
		got, err := allocation.TakeAddress(t.Context(), a, owner, "IPv4", allocation.AddressWish{Seed: 3})
		return got.String(), a.called["create ipaddresses"], err
	}
	for n := range 14 {
		got, tries, err := take()
		if err != nil || !strings.HasPrefix(got, "10.0.0.") || tries > 2 {
			t.Errorf("address %d: %s after %d tries, %v", n, got, tries, err)
		}
	}
	if got, tries, err := take(); !errors.Is(err, allocation.ErrFull) || tries > 1 {
		t.Errorf("one more: %s after %d tries, %v", got, tries, err)
	}
	c := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.0.1.0/28"}}}
	if _, err := w.Create(t.Context(), cidrResource, c); err != nil {
		t.Fatal(err)
	}
	if got, _, err := take(); err != nil || !strings.HasPrefix(got, "10.0.1.") {
		t.Errorf("of the next network: %s, %v", got, err)
	}
}

// TestNoWishes: no wishes yield no ports, even without a record.
func TestNoWishes(t *testing.T) {
	p, err := allocation.NewPorts(memory.New(memory.Options{}), allocation.NodePorts())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Take(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestRecordDisappears: a record that is missing when it is written is read again, like one that has changed.
func TestRecordDisappears(t *testing.T) {
	for _, err := range []error{storage.ErrNotFound, storage.ErrConflict} {
		store := &breaking{Store: memory.New(memory.Options{})}
		p := newPorts(t, store, "30000-30009")
		store.err, store.times = err, 3
		if got, err := p.Take(t.Context(), wishes(30004)); err != nil || !slices.Equal(got, []int{30004}) {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// TestRepairFailures: a failure is returned, and the other half of the round runs nonetheless.
func TestRepairFailures(t *testing.T) {
	for fails, want := range map[string]string{
		"list ipaddresses":   "list IP addresses: broken",
		"list servicecidrs":  "list service CIDRs: broken",
		"list services":      "list services: broken\nlist services: broken",
		"create ipaddresses": "take address 10.0.0.9: broken",
	} {
		w := newWorld(t, memory.New(memory.Options{}), "10.0.0.0/24", "30000-30099")
		svc := nodePortService("a")
		svc.Spec.ClusterIP, svc.Spec.Ports[0].NodePort = "10.0.0.9", 30007
		w.create(t, svc)
		if err := w.Delete(t.Context(), registry.ObjectKey{Resource: addressResource, Name: "10.0.0.9"}, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := w.ports.Release(t.Context(), []int{30007}, time.Now()); err != nil {
			t.Fatal(err)
		}
		a := trouble(w)
		a.fail[fails] = errBroken
		if err := allocation.NewRepair(a, w.ports, allocation.RepairOptions{}).Once(t.Context()); !errors.Is(err, errBroken) || err.Error() != want {
			t.Errorf("%s: %v", fails, err)
		}
		if got := taken(t, w.ports); (len(got) == 1) != (fails != "list services") {
			t.Errorf("%s: ports %v", fails, got)
		}
	}
	// Where IPAddresses are not served, ports are still repaired.
	w := newWorld(t, memory.New(memory.Options{}), "10.0.0.0/24", "30000-30099")
	w.create(t, nodePortService("a"))
	for ready, want := range map[bool]error{true: nil, false: errBroken} {
		store := memory.New(memory.Options{})
		ports, err := allocation.NewPorts(store, allocation.NodePorts())
		if err != nil {
			t.Fatal(err)
		}
		a := trouble(w)
		a.fail["list ipaddresses"] = registry.ErrNotFound
		if !ready {
			a.fail["list services"] = errBroken
		}
		if err := allocation.NewRepair(a, ports, allocation.RepairOptions{}).Once(t.Context()); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("ports alone: %v", err)
		}
		if ready && len(taken(t, ports)) != 1 {
			t.Errorf("taken in a new record: %v", taken(t, ports))
		}
	}
}

// TestRepairCannotFree: a leak that cannot be freed, and a record of ports that cannot be made, are reported.
func TestRepairCannotFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.New(memory.Options{}), "10.0.0.0/24", "30000-30099")
		if _, err := allocation.TakeAddress(t.Context(), w, allocation.Owner{Namespace: "ns", Name: "gone"}, "IPv4", allocation.AddressWish{}); err != nil {
			t.Fatal(err)
		}
		a := trouble(w)
		r := allocation.NewRepair(a, nil, allocation.RepairOptions{})
		if err := r.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Second)
		a.fail["delete ipaddresses"] = errBroken
		if err := r.Once(t.Context()); !errors.Is(err, errBroken) {
			t.Errorf("a leak that stays: %v", err)
		}
		ports, err := allocation.NewPorts(uncreated{memory.New(memory.Options{})}, allocation.NodePorts())
		if err != nil {
			t.Fatal(err)
		}
		if err := allocation.NewRepair(w, ports, allocation.RepairOptions{}).Once(t.Context()); !errors.Is(err, errBroken) || err.Error() != "make the record of node ports: broken" {
			t.Errorf("no record: %v", err)
		}
	})
}

// uncreated is a store that creates nothing.
type uncreated struct{ storage.Store }

func (uncreated) Create(context.Context, string, []byte) (int64, error) { return 0, errBroken }

// TestRepairKeepsUsed: an address that a service uses is not freed, even if its wrong reference cannot be
// corrected for long.
func TestRepairKeepsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.New(memory.Options{}), "10.0.0.0/24", "30000-30099")
		svc := w.create(t, nodePortService("a"))
		if _, err := w.Modify(t.Context(), registry.ObjectKey{Resource: addressResource, Name: svc.Spec.ClusterIP}, func(obj registry.Object) error {
			obj.(*networkingv1.IPAddress).Spec.ParentRef.Resource = "others"
			return nil
		}, false); err != nil {
			t.Fatal(err)
		}
		a := trouble(w)
		a.fail["modify ipaddresses"] = errBroken
		r := allocation.NewRepair(a, w.ports, allocation.RepairOptions{})
		for range 4 {
			if err := r.Once(t.Context()); !errors.Is(err, errBroken) {
				t.Errorf("a round: %v", err)
			}
			time.Sleep(time.Minute)
		}
		if got := w.addresses(t); !slices.Equal(got, []string{svc.Spec.ClusterIP}) {
			t.Errorf("taken: %v", got)
		}
	})
}

// TestRepairEndsBetweenRounds: rounds begin at once and in each interval; if the context ends before a due round, Run
// ends without it.
func TestRepairEndsBetweenRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.New(memory.Options{}), "10.0.0.0/24", "30000-30099")
		a := trouble(w)
		r := allocation.NewRepair(a, w.ports, allocation.RepairOptions{Interval: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(10*time.Hour + time.Second)
		r.Wake()
		time.Sleep(time.Millisecond)
		cancel()
		if err := <-ended; err != nil || a.called["list ipaddresses"] != 11 {
			t.Errorf("after %d rounds: %v", a.called["list ipaddresses"], err)
		}
	})
}

// forgetful is a store whose streams fail.
type forgetful struct {
	storage.Store
	watch, next error
	watched     int
}

func (f *forgetful) Watch(ctx context.Context, prefix string, after int64) (storage.Stream, error) {
	if f.watched++; f.watch != nil {
		return nil, f.watch
	}
	s, err := f.Store.Watch(ctx, prefix, after)
	return forgetfulStream{s, f}, err
}

type forgetfulStream struct {
	storage.Stream
	of *forgetful
}

func (s forgetfulStream) Next(ctx context.Context) ([]storage.Event, error) {
	if s.of.next != nil {
		return nil, s.of.next
	}
	return s.Stream.Next(ctx)
}

// TestRepairWithoutHistory: a port whose history is unknown counts as newly unused; if the store fails, nothing
// is freed. The history is only read for ports that may be freed.
func TestRepairWithoutHistory(t *testing.T) {
	for name, c := range map[string]struct {
		watch, next error
		fails       bool
		freedAt     int // round number; rounds are 90 seconds apart
	}{
		"known":           {freedAt: 2},
		"compacted":       {watch: storage.ErrCompacted, freedAt: 3},
		"compacted later": {next: storage.ErrCompacted, freedAt: 3},
		"failed":          {watch: errBroken, fails: true, freedAt: 3},
		"failed later":    {next: errBroken, fails: true, freedAt: 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			inner := memory.New(memory.Options{})
			w := newWorld(t, inner, "10.0.0.0/24", "30000-30099")
			store := &forgetful{Store: inner}
			ports := newPorts(t, store, "30000-30099")
			r := allocation.NewRepair(w, ports, allocation.RepairOptions{})
			look := func(n int) {
				t.Helper()
				err := r.Once(t.Context())
				if fails := c.fails && n == 2; errors.Is(err, errBroken) != fails || !fails && err != nil || fails && !strings.HasPrefix(err.Error(), "read what happened to node ports: ") {
					t.Errorf("%s, round %d: %v", name, n, err)
				}
				time.Sleep(90 * time.Second)
			}
			for range 3 {
				look(0)
				if _, err := ports.Take(t.Context(), wishes(30050)); err != nil {
					t.Fatal(err)
				}
				if err := ports.Release(t.Context(), []int{30050}, time.Now()); err != nil {
					t.Fatal(err)
				}
			}
			if store.watched != 0 {
				t.Errorf("%s: the history was read %d times for nothing", name, store.watched)
			}
			if _, err := ports.Take(t.Context(), wishes(30001)); err != nil {
				t.Fatal(err)
			}
			look(1)
			if _, err := ports.Take(t.Context(), wishes(30002)); err != nil { // something happens
				t.Fatal(err)
			}
			store.watch, store.next = c.watch, c.next
			for n := 2; n <= 4; n++ {
				look(n)
				store.watch, store.next = nil, nil
				if freed := !slices.Contains(taken(t, ports), 30001); freed != (n >= c.freedAt) {
					t.Errorf("%s: freed in round %d: %v", name, n, freed)
				}
			}
		})
	}
}

// TestPortsOutOfRange: a port out of range is reported for each service, and has no other effect.
func TestPortsOutOfRange(t *testing.T) {
	w := newWorld(t, memory.New(memory.Options{}), "10.0.0.0/24", "30000-30099")
	for _, name := range []string{"a", "b"} {
		svc := nodePortService(name)
		svc.Spec.Ports[0].NodePort = 30000 + int32(name[0]-'a')
		w.create(t, svc)
	}
	narrow, err := allocation.NewPorts(memory.New(memory.Options{}), allocation.PortRange{First: 30001, Size: 5})
	if err != nil {
		t.Fatal(err)
	}
	if err := narrow.Init(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	var told []string
	r := allocation.NewRepair(w, narrow, allocation.RepairOptions{Report: func(about registry.Object, reason, _, message string) {
		told = append(told, about.GetName()+" "+reason+" "+message)
	}})
	if err := r.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"a PortOutOfRange Port 30000 is not within the port range 30001-30005; please recreate service", "b PortNotAllocated Port 30001 is not allocated; repairing"}
	if !slices.Equal(told, want) || !slices.Equal(taken(t, narrow), []int{30001}) {
		t.Errorf("told %q, taken %v", told, taken(t, narrow))
	}
}
