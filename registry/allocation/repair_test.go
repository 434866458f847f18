package allocation_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/allocation"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/networking"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

var (
	serviceResource = schema.GroupResource{Resource: "services"}
	addressResource = schema.GroupResource{Group: "networking.k8s.io", Resource: "ipaddresses"}
)

// world is a registry of services with their allocations.
type world struct {
	registry.Access
	services *registry.Resource
	ports    *allocation.Ports

	mu      sync.Mutex
	reports []string
}

func newWorld(t testing.TB, store storage.Store, network, ports string) *world {
	t.Helper()
	w := &world{ports: newPorts(t, store, ports)}
	prefixes := []netip.Prefix{netip.MustParsePrefix(network)}
	kinds := core.Kinds(core.Options{Services: core.Services{Networks: prefixes, NodePorts: w.ports}})
	r, err := registry.New(store, append(kinds, networking.Kinds()...), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if err := r.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	w.Access = r.Access()
	w.services, _ = r.Resource(serviceResource)
	if _, err := w.Create(ctx, schema.GroupResource{Group: "networking.k8s.io", Resource: "servicecidrs"}, networking.Default(prefixes)); err != nil && !errors.Is(err, registry.ErrExists) {
		t.Fatal(err)
	}
	return w
}

func (w *world) repair(o allocation.RepairOptions) *allocation.Repair {
	o.Report = func(about registry.Object, reason, _, message string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.reports = append(w.reports, about.GetName()+" "+reason+": "+message)
	}
	return allocation.NewRepair(w.Access, w.ports, o)
}

// start runs a Repair until the test ends.
func start(t *testing.T, r *allocation.Repair) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (w *world) addresses(t testing.TB) []string {
	t.Helper()
	list, err := w.List(t.Context(), addressResource, "")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, obj := range list {
		names = append(names, obj.GetName())
	}
	return names
}

func nodePortService(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

func (w *world) create(t testing.TB, svc *corev1.Service) *corev1.Service {
	t.Helper()
	obj, err := w.Create(t.Context(), serviceResource, svc)
	if err != nil {
		t.Fatal(err)
	}
	return obj.(*corev1.Service)
}

func TestRepairFreesLeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.New(memory.Options{}), "10.0.0.0/24", "30000-30099")
		svc := w.create(t, nodePortService("a"))
		// Leaks of a crash between allocation and use.
		leaked, err := allocation.TakeAddress(t.Context(), w, allocation.Owner{Namespace: "ns", Name: "gone"}, corev1.IPv4Protocol, allocation.AddressWish{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.ports.Take(t.Context(), wishes(30000)); err != nil {
			t.Fatal(err)
		}
		// A third-party IPAddress is left alone.
		foreign := &networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Name: "10.0.0.9", Labels: map[string]string{networkingv1.LabelManagedBy: "example.com"}},
			Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Group: "example.com", Resource: "gateways", Name: "g"}},
		}
		if _, err := w.Create(t.Context(), addressResource, foreign); err != nil {
			t.Fatal(err)
		}
		// So is what belongs to nothing that has an address.
		lost := foreign.DeepCopy()
		lost.Name, lost.ResourceVersion, lost.Labels = "10.0.0.8", "", map[string]string{networkingv1.LabelManagedBy: allocation.ManagedBy}
		if _, err := w.Create(t.Context(), addressResource, lost); err != nil {
			t.Fatal(err)
		}
		start(t, w.repair(allocation.RepairOptions{}))
		time.Sleep(80 * time.Second)
		if got := w.addresses(t); len(got) != 4 || len(taken(t, w.ports)) != 2 {
			t.Errorf("freed too early: %v %v", got, taken(t, w.ports))
		}
		time.Sleep(2 * time.Minute)
		want := []string{svc.Spec.ClusterIP, "10.0.0.9"}
		slices.Sort(want)
		if got := w.addresses(t); !slices.Equal(got, want) {
			t.Errorf("addresses %v, want %v", got, want)
		}
		if got := taken(t, w.ports); !slices.Equal(got, []int{int(svc.Spec.Ports[0].NodePort)}) {
			t.Errorf("ports %v", got)
		}
		slices.Sort(w.reports)
		if want := []string{
			fmt.Sprintf("%s IPAddressNotAllocated: IPAddress: %s for Service ns/gone appears to have leaked: cleaning up", leaked, leaked),
			"10.0.0.8 IPAddressNotAllocated: IPAddress: 10.0.0.8 for Service / appears to have leaked: cleaning up",
		}; !slices.Equal(w.reports, want) {
			t.Errorf("reports %q, want %q", w.reports, want)
		}
	})
}

func TestRepairAllocatesUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		w := newWorld(t, store, "10.0.0.0/24", "30000-30099")
		a, b, c, d := w.create(t, nodePortService("a")), w.create(t, nodePortService("b")), w.create(t, nodePortService("c")), w.create(t, nodePortService("d"))
		before, ports := w.addresses(t), taken(t, w.ports)
		// a's allocations are missing, b's IPAddress has lost its labels, c's refers to something else, d's is of no family.
		key := func(svc *corev1.Service) registry.ObjectKey {
			return registry.ObjectKey{Resource: addressResource, Name: svc.Spec.ClusterIP}
		}
		if err := w.Delete(t.Context(), key(a), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := w.ports.Release(t.Context(), []int{int(a.Spec.Ports[0].NodePort)}, time.Now()); err != nil {
			t.Fatal(err)
		}
		change := func(svc *corev1.Service, by func(*networkingv1.IPAddress)) {
			_, err := w.Modify(t.Context(), key(svc), func(obj registry.Object) error { by(obj.(*networkingv1.IPAddress)); return nil }, false)
			if err != nil {
				t.Fatal(err)
			}
		}
		change(b, func(ip *networkingv1.IPAddress) { ip.Labels = nil })
		change(c, func(ip *networkingv1.IPAddress) { ip.Spec.ParentRef.Resource = "things" })
		change(d, func(ip *networkingv1.IPAddress) { delete(ip.Labels, networkingv1.LabelIPAddressFamily) })
		if err := w.repair(allocation.RepairOptions{}).Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.addresses(t); !slices.Equal(got, before) {
			t.Errorf("addresses %v, want %v", got, before)
		}
		if got := taken(t, w.ports); !slices.Equal(got, ports) {
			t.Errorf("ports %v, want %v", got, ports)
		}
		for _, svc := range []*corev1.Service{a, b, c, d} {
			obj, err := w.Get(t.Context(), key(svc))
			if err != nil {
				t.Fatal(err)
			}
			ip := obj.(*networkingv1.IPAddress)
			if p := ip.Spec.ParentRef; p.Resource != "services" || p.Name != svc.Name || ip.Labels[networkingv1.LabelManagedBy] != allocation.ManagedBy || ip.Labels[networkingv1.LabelIPAddressFamily] != "IPv4" {
				t.Errorf("%s: %+v", svc.Name, ip)
			}
		}
		slices.Sort(w.reports)
		want := []string{
			fmt.Sprintf("a ClusterIPNotAllocated: Cluster IP [IPv4]: %s is not allocated; repairing", a.Spec.ClusterIP),
			fmt.Sprintf("a PortNotAllocated: Port %d is not allocated; repairing", a.Spec.Ports[0].NodePort),
			fmt.Sprintf("c ClusterIPNotAllocated: the ClusterIP [IPv4]: %s for Service ns/c has a wrong reference; repairing", c.Spec.ClusterIP),
		}
		if !slices.Equal(w.reports, want) {
			t.Errorf("reports\n%s\nwant\n%s", strings.Join(w.reports, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestRepairAfterLoss: a lost record of ports is rebuilt from what services use.
func TestRepairAfterLoss(t *testing.T) {
	store := memory.New(memory.Options{})
	w := newWorld(t, store, "10.0.0.0/24", "30000-30099")
	svc := w.create(t, nodePortService("a"))
	record, err := store.Get(t.Context(), portsKey)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Delete(t.Context(), portsKey, record.Revision); err != nil {
		t.Fatal(err)
	}
	if err := w.repair(allocation.RepairOptions{}).Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := taken(t, w.ports); !slices.Equal(got, []int{int(svc.Spec.Ports[0].NodePort)}) || len(w.reports) > 0 {
		t.Errorf("ports %v, reports %q", got, w.reports)
	}
	if second := w.create(t, nodePortService("b")); second.Spec.Ports[0].NodePort == svc.Spec.Ports[0].NodePort {
		t.Error("both have the same port")
	}
}

func TestRepairReports(t *testing.T) {
	store := memory.New(memory.Options{})
	wide := newWorld(t, store, "10.0.0.0/16", "30000-30099")
	at := func(name, ip string, port int32) *corev1.Service {
		svc := nodePortService(name)
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs, svc.Spec.Ports[0].NodePort = ip, []string{ip}, port
		return svc
	}
	wide.create(t, at("a", "10.0.0.5", 30005))
	wide.create(t, at("b", "10.0.9.5", 30099))
	c := wide.create(t, at("c", "10.0.0.6", 30006))
	if err := wide.Delete(t.Context(), registry.ObjectKey{Resource: addressResource, Name: "10.0.0.6"}, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := wide.Modify(t.Context(), registry.ObjectKey{Resource: serviceResource, Namespace: "ns", Name: "c"}, func(obj registry.Object) error {
		c = obj.(*corev1.Service)
		c.Spec.ClusterIP, c.Spec.ClusterIPs, c.Spec.Ports[0].NodePort = "10.0.0.5", []string{"10.0.0.5"}, 30005
		return nil
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kubernetes"} { // the network shrank
		if err := wide.Delete(t.Context(), registry.ObjectKey{Resource: schema.GroupResource{Group: "networking.k8s.io", Resource: "servicecidrs"}, Name: name}, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	narrow := newWorld(t, store, "10.0.0.0/24", "30000-30049")
	if err := narrow.repair(allocation.RepairOptions{}).Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	slices.Sort(narrow.reports)
	want := []string{
		"b ClusterIPOutOfRange: Cluster IP [IPv4]: 10.0.9.5 is not within any configured Service CIDR; please recreate service",
		"b PortOutOfRange: Port 30099 is not within the port range 30000-30049; please recreate service",
		"c ClusterIPAlreadyAllocated: Cluster IP [IPv4]:10.0.0.5 was assigned to multiple services; please recreate service",
		"c PortAlreadyAllocated: Port 30005 was assigned to multiple services; please recreate service",
	}
	if !slices.Equal(narrow.reports, want) {
		t.Errorf("reports\n%s\nwant\n%s", strings.Join(narrow.reports, "\n"), strings.Join(want, "\n"))
	}
}

// TestRepairSparesNewOwners: a port that was unused in two rounds is not freed if it got a new owner in
// between that is about to use it.
func TestRepairSparesNewOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.New(memory.Options{}), "10.0.0.0/24", "30000-30099")
		r := w.repair(allocation.RepairOptions{})
		look := func() {
			t.Helper()
			if err := r.Once(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		take := func() {
			t.Helper()
			if _, err := w.ports.Take(t.Context(), wishes(30000)); err != nil {
				t.Fatal(err)
			}
		}
		take()
		look()
		time.Sleep(89 * time.Second)
		if err := w.ports.Release(t.Context(), []int{30000}, time.Now()); err != nil {
			t.Fatal(err)
		}
		take()
		time.Sleep(time.Second)
		look()
		if got := taken(t, w.ports); len(got) != 1 {
			t.Errorf("freed from under its new owner")
		}
		time.Sleep(90 * time.Second)
		look()
		if got := taken(t, w.ports); len(got) != 0 {
			t.Errorf("leaked for good: %v", got)
		}
	})
}

// TestRepairFreesAndTakes: a round that finds as many leaks as losses repairs both; a record that was damaged between two
// rounds is reported.
func TestRepairFreesAndTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		w := newWorld(t, store, "10.0.0.0/24", "30000-30099")
		port := int(w.create(t, nodePortService("a")).Spec.Ports[0].NodePort)
		leak := 30000 + (port-30000+1)%100
		if _, err := w.ports.Take(t.Context(), wishes(leak)); err != nil {
			t.Fatal(err)
		}
		r := w.repair(allocation.RepairOptions{})
		if err := r.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Second)
		if err := w.ports.Release(t.Context(), []int{port}, time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := r.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := taken(t, w.ports); !slices.Equal(got, []int{port}) {
			t.Errorf("ports %v, want %d", got, port)
		}
		if _, err := w.ports.Take(t.Context(), wishes(leak)); err != nil {
			t.Fatal(err)
		}
		if err := r.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		good, err := store.Get(t.Context(), portsKey)
		if err != nil {
			t.Fatal(err)
		}
		revision, err := store.Update(t.Context(), portsKey, []byte("k8s\x00\xff"), good.Revision)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Update(t.Context(), portsKey, good.Value, revision); err != nil {
			t.Fatal(err)
		}
		if err := r.Once(t.Context()); err == nil {
			t.Error("a damaged record went unnoticed")
		}
	})
}

// TestRepairUnderLoad runs two servers with a Repair each for an hour, in which services slowly come, fail and
// go: everything in use is always allocated, and in the end nothing else is.
func TestRepairUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		worlds := []*world{newWorld(t, store, "10.0.0.0/26", "30000-30015"), newWorld(t, store, "10.0.0.0/26", "30000-30015")}
		for _, w := range worlds {
			start(t, w.repair(allocation.RepairOptions{Interval: 20 * time.Second}))
		}
		end := time.Now().Add(time.Hour)
		var wg sync.WaitGroup
		for i := range 24 {
			w, name, r := worlds[i%2], fmt.Sprintf("s%d", i), rand.New(rand.NewPCG(uint64(i), 1))
			wg.Go(func() {
				for time.Now().Before(end) {
					w.churn(t, name, r)
				}
			})
		}
		for time.Now().Before(end) {
			time.Sleep(7*time.Second + 333*time.Microsecond) // no other writer acts between two milliseconds
			worlds[0].allTaken(t)
			if t.Failed() {
				break
			}
		}
		wg.Wait()
		time.Sleep(4 * time.Minute)
		if addresses, ports := worlds[0].addresses(t), taken(t, worlds[0].ports); len(addresses)+len(ports) > 0 {
			t.Errorf("left over: %v %v", addresses, ports)
		}
	})
}

var errRefused = errors.New("refused")

// churn creates a service within 50 s, fails at times or stops halfway as in a crash, keeps the service for a
// while and deletes it.
func (w *world) churn(t *testing.T, name string, r *rand.Rand) {
	pause := func(seconds int) { time.Sleep(time.Duration(r.IntN(seconds*1000)) * time.Millisecond) }
	svc := nodePortService(name)
	w.services.Rules.Default(svc)
	fate := r.IntN(5)
	_, err := w.services.Create(t.Context(), svc, registry.CreateOptions{Admit: func(context.Context, registry.Object) error {
		pause(50)
		if fate == 0 {
			return errRefused
		}
		return nil
	}})
	if fate == 1 { // a crash in another process
		owner := allocation.Owner{Namespace: "ns", Name: "lost"}
		_, addressErr := allocation.TakeAddress(t.Context(), w, owner, corev1.IPv4Protocol, allocation.AddressWish{Seed: r.Uint64()})
		_, portErr := w.ports.Take(t.Context(), []allocation.PortWish{{Seed: r.Uint64()}})
		if err := errors.Join(addressErr, portErr); err != nil && !errors.Is(err, allocation.ErrFull) {
			t.Error(err)
		}
	}
	pause(100)
	if err != nil {
		if !errors.Is(err, errRefused) && !errors.Is(err, registry.ErrInternal) {
			t.Error(err)
		}
		return
	}
	if _, _, err := w.services.Delete(t.Context(), "ns", name, registry.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// allTaken checks that everything services use is allocated to exactly one of them.
func (w *world) allTaken(t *testing.T) {
	t.Helper()
	list, err := w.List(t.Context(), serviceResource, "")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	ports := taken(t, w.ports)
	for _, obj := range list {
		svc := obj.(*corev1.Service)
		held, ok, err := allocation.FindAddress(t.Context(), w, allocation.Owner{Namespace: "ns", Name: svc.Name}, netip.MustParseAddr(svc.Spec.ClusterIP))
		if err == nil && !ok {
			_, err := w.Get(t.Context(), registry.ObjectKey{Resource: serviceResource, Namespace: "ns", Name: svc.Name})
			if err == nil { // not deleted meanwhile
				t.Errorf("%s is not allocated to %s: %v", svc.Spec.ClusterIP, svc.Name, held)
			}
		}
		port := int(svc.Spec.Ports[0].NodePort)
		for _, what := range []string{svc.Spec.ClusterIP, fmt.Sprint(port)} {
			if seen[what] != "" {
				t.Errorf("%s belongs to %s and %s", what, seen[what], svc.Name)
			}
			seen[what] = svc.Name
		}
		if !slices.Contains(ports, port) {
			t.Errorf("%d of %s is free", port, svc.Name)
		}
	}
}

func TestRepairWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.New(memory.Options{}), "10.0.0.0/24", "30000-30099")
		svc := w.create(t, nodePortService("a"))
		r := w.repair(allocation.RepairOptions{Interval: time.Hour})
		start(t, r)
		time.Sleep(time.Minute)
		if err := w.Delete(t.Context(), registry.ObjectKey{Resource: addressResource, Name: svc.Spec.ClusterIP}, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			r.Wake()
		}
		time.Sleep(1100 * time.Millisecond)
		if got := w.addresses(t); !slices.Equal(got, []string{svc.Spec.ClusterIP}) {
			t.Errorf("addresses %v", got)
		}
	})
}

// TestRepairKeepsOwners: an address that one service uses but that is allocated to another stays the
// other's until it is freed.
func TestRepairKeepsOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.New(memory.Options{}), "10.0.0.0/24", "30000-30099")
		svc := w.create(t, nodePortService("a"))
		at := registry.ObjectKey{Resource: addressResource, Name: svc.Spec.ClusterIP}
		if _, err := w.Modify(t.Context(), at, func(obj registry.Object) error {
			ip := obj.(*networkingv1.IPAddress)
			ip.Labels, ip.Spec.ParentRef.Name = map[string]string{networkingv1.LabelManagedBy: allocation.ManagedBy}, "b"
			return nil
		}, false); err != nil {
			t.Fatal(err)
		}
		r := w.repair(allocation.RepairOptions{})
		for _, want := range []string{"b", "", "a"} { // it is freed in the second round
			if err := r.Once(t.Context()); err != nil {
				t.Fatal(err)
			}
			owner := ""
			if obj, err := w.Get(t.Context(), at); err == nil {
				owner = obj.(*networkingv1.IPAddress).Spec.ParentRef.Name
			} else if !errors.Is(err, registry.ErrNotFound) {
				t.Fatal(err)
			}
			if owner != want {
				t.Errorf("the address belongs to %q, want %q", owner, want)
			}
			time.Sleep(90 * time.Second)
		}
	})
}

func TestClusterIPs(t *testing.T) {
	for _, c := range []struct {
		kind corev1.ServiceType
		ips  []string
		want string
	}{
		{corev1.ServiceTypeClusterIP, []string{"10.0.0.1", "fd00::1"}, "[10.0.0.1 fd00::1]"},
		{corev1.ServiceTypeClusterIP, []string{"10.0.0.010"}, "[10.0.0.10]"},
		{corev1.ServiceTypeClusterIP, []string{corev1.ClusterIPNone}, "[]"},
		{corev1.ServiceTypeClusterIP, nil, "[]"},
		{corev1.ServiceTypeExternalName, []string{"10.0.0.1"}, "[]"},
	} {
		svc := &corev1.Service{Spec: corev1.ServiceSpec{Type: c.kind, ClusterIPs: c.ips}}
		if got := fmt.Sprint(allocation.ClusterIPs(svc)); got != c.want {
			t.Errorf("%s %v: %s, want %s", c.kind, c.ips, got, c.want)
		}
	}
}
