package kubernetesservice_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/allocation"
	"github.com/keelson-dev/keelson/registry/codec"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/discovery"
	"github.com/keelson-dev/keelson/registry/kubernetesservice"
	"github.com/keelson-dev/keelson/registry/networking"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

func open(t testing.TB, store storage.Store, networks ...netip.Prefix) *registry.Registry {
	t.Helper()
	ports, err := allocation.NewPorts(store, allocation.NodePorts())
	if err != nil {
		t.Fatal(err)
	}
	kinds := slices.Concat(core.Kinds(core.Options{Services: core.Services{Networks: networks, NodePorts: ports}}), discovery.Kinds(), networking.Kinds())
	r, err := registry.New(store, kinds, registry.Options{})
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
	return r
}

// begin runs a Service and returns a function that shuts it down cleanly. It logs to the test's output by default.
func begin(t *testing.T, r *registry.Registry, store storage.Store, o kubernetesservice.Options) (end func()) {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	s, err := kubernetesservice.New(r, store, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	synctest.Wait()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func networks(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, network := range list {
		out = append(out, netip.MustParsePrefix(network))
	}
	return out
}

func at(address string, port int) kubernetesservice.Options {
	return kubernetesservice.Options{Networks: networks("10.96.0.0/12"), Address: netip.MustParseAddr(address), Port: port}
}

func get[T registry.Object](t testing.TB, r *registry.Registry, group, resource, namespace, name string) (T, bool) {
	t.Helper()
	obj, err := r.Access().Get(t.Context(), registry.ObjectKey{Resource: schema.GroupResource{Group: group, Resource: resource}, Namespace: namespace, Name: name})
	if errors.Is(err, registry.ErrNotFound) {
		var none T
		return none, false
	}
	if err != nil {
		t.Fatal(err)
	}
	return obj.(T), true
}

// endpoints returns what both forms of the endpoints contain.
func endpoints(t testing.TB, r *registry.Registry) string {
	t.Helper()
	e, ok1 := get[*corev1.Endpoints](t, r, "", "endpoints", "default", "kubernetes")
	s, ok2 := get[*discoveryv1.EndpointSlice](t, r, "discovery.k8s.io", "endpointslices", "default", "kubernetes")
	if !ok1 || !ok2 {
		return fmt.Sprint(ok1, ok2)
	}
	if len(e.Subsets) != 1 || len(e.Subsets[0].Ports) != 1 || len(s.Ports) != 1 || e.Labels[discoveryv1.LabelSkipMirror] != "true" ||
		s.Labels[discoveryv1.LabelServiceName] != "kubernetes" || len(s.Labels) != 1 || len(e.Labels) != 1 {
		t.Errorf("%+v\n%+v", e, s)
		return ""
	}
	p, q := e.Subsets[0].Ports[0], s.Ports[0]
	var one, two []string
	for _, a := range e.Subsets[0].Addresses {
		one = append(one, a.IP)
	}
	for _, a := range s.Endpoints {
		if !*a.Conditions.Ready {
			t.Errorf("%v is not ready", a.Addresses)
		}
		two = append(two, a.Addresses...)
	}
	first := fmt.Sprintf("%s %s=%d/%s", strings.Join(one, ","), p.Name, p.Port, p.Protocol)
	if second := fmt.Sprintf("%s %s=%d/%s", strings.Join(two, ","), *q.Name, *q.Port, *q.Protocol); first != second {
		t.Errorf("Endpoints %s, EndpointSlice %s", first, second)
	}
	return first
}

func TestService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		r := open(t, store, networks("10.96.0.0/12")...)
		end := begin(t, r, store, at("192.0.2.1", 6443))
		svc, ok := get[*corev1.Service](t, r, "", "services", "default", "kubernetes")
		if !ok || svc.Spec.ClusterIP != "10.96.0.1" || len(svc.Spec.Ports) != 1 || svc.Spec.Ports[0].Name != "https" || svc.Spec.Ports[0].Port != 443 ||
			svc.Spec.Ports[0].TargetPort.IntValue() != 6443 || svc.Labels["provider"] != "kubernetes" || svc.Labels["component"] != "apiserver" || svc.Spec.Type != "ClusterIP" {
			t.Errorf("%+v", svc)
		}
		cidr, ok := get[*networkingv1.ServiceCIDR](t, r, "networking.k8s.io", "servicecidrs", "", "kubernetes")
		if !ok || !slices.Equal(cidr.Spec.CIDRs, []string{"10.96.0.0/12"}) || len(cidr.Status.Conditions) != 1 || cidr.Status.Conditions[0].Status != "True" {
			t.Errorf("%+v", cidr)
		}
		if ip, ok := get[*networkingv1.IPAddress](t, r, "networking.k8s.io", "ipaddresses", "", "10.96.0.1"); !ok || ip.Spec.ParentRef.Name != "kubernetes" {
			t.Errorf("%+v", ip)
		}
		if got := endpoints(t, r); got != "192.0.2.1 https=6443/TCP" {
			t.Error(got)
		}
		before, err := store.Revision(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute + time.Second)
		if after, err := store.Revision(t.Context()); after != before+6 || err != nil {
			t.Errorf("%d writes in a minute, want 6 of the lease: %v", after-before, err)
		}
		// Deleted objects come back.
		for _, key := range []registry.ObjectKey{
			{Resource: schema.GroupResource{Resource: "services"}, Namespace: "default", Name: "kubernetes"},
			{Resource: schema.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}, Namespace: "default", Name: "kubernetes"},
			{Resource: schema.GroupResource{Group: "networking.k8s.io", Resource: "servicecidrs"}, Name: "kubernetes"},
		} {
			if err := r.Access().Delete(t.Context(), key, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		if _, ok := get[*corev1.Service](t, r, "", "services", "default", "kubernetes"); !ok || endpoints(t, r) != "192.0.2.1 https=6443/TCP" {
			t.Error("deleted objects did not come back")
		}
		end()
		e, _ := get[*corev1.Endpoints](t, r, "", "endpoints", "default", "kubernetes")
		slice, _ := get[*discoveryv1.EndpointSlice](t, r, "discovery.k8s.io", "endpointslices", "default", "kubernetes")
		if len(e.Subsets) > 0 || len(slice.Endpoints)+len(slice.Ports) > 0 {
			t.Errorf("the last server leaves %+v %+v", e, slice)
		}
		end = begin(t, r, store, at("192.0.2.1", 6443))
		if got := endpoints(t, r); got != "192.0.2.1 https=6443/TCP" {
			t.Errorf("back again, %s", got)
		}
		end()
	})
}

func TestServersOnOneStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		one, two := open(t, store, networks("10.96.0.0/12")...), open(t, store, networks("10.96.0.0/12")...)
		endOne := begin(t, one, store, at("192.0.2.1", 6443))
		time.Sleep(3 * time.Second)
		endTwo := begin(t, two, store, at("192.0.2.2", 6443))
		if got := endpoints(t, one); got != "192.0.2.1,192.0.2.2 https=6443/TCP" {
			t.Error(got)
		}
		time.Sleep(10 * time.Minute)
		if got := endpoints(t, one); got != "192.0.2.1,192.0.2.2 https=6443/TCP" {
			t.Errorf("later %s", got)
		}
		endTwo()
		if got := endpoints(t, one); got != "192.0.2.1 https=6443/TCP" {
			t.Errorf("when one has ended, %s", got)
		}
		// A third one crashes: nobody deletes its lease.
		third := &silent{Store: store}
		crash := begin(t, two, third, at("192.0.2.3", 6443))
		if got := endpoints(t, one); got != "192.0.2.1,192.0.2.3 https=6443/TCP" {
			t.Error(got)
		}
		third.dead = true
		crash()
		time.Sleep(15 * time.Second)
		if got := endpoints(t, one); got != "192.0.2.1,192.0.2.3 https=6443/TCP" {
			t.Errorf("too early %s", got)
		}
		time.Sleep(15 * time.Second)
		if got := endpoints(t, one); got != "192.0.2.1 https=6443/TCP" {
			t.Errorf("the dead server stays: %s", got)
		}
		endOne()
	})
}

// lessor is a store that deletes expired records.
type lessor struct {
	storage.Store
	mu   sync.Mutex
	ends map[string]*time.Timer
	ttl  time.Duration // last asked for
	dead bool
}

func (l *lessor) CreateFor(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	revision, err := l.Create(ctx, key, value)
	return revision, l.lease(key, ttl, err)
}

func (l *lessor) UpdateFor(ctx context.Context, key string, value []byte, expected int64, ttl time.Duration) (int64, error) {
	revision, err := l.Update(ctx, key, value, expected)
	return revision, l.lease(key, ttl, err)
}

func (l *lessor) lease(key string, ttl time.Duration, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		return err
	}
	if l.ends[key] != nil {
		l.ends[key].Stop()
	}
	l.ttl = ttl
	l.ends[key] = time.AfterFunc(ttl, func() {
		if record, err := l.Store.Get(context.Background(), key); err == nil {
			_, _ = l.Store.Delete(context.Background(), key, record.Revision)
		}
	})
	return nil
}

func (l *lessor) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	l.mu.Lock()
	dead := l.dead
	l.mu.Unlock()
	if dead {
		return 0, errors.New("dead")
	}
	return l.Store.Delete(ctx, key, expected)
}

// goodFor returns the time to live of the last lease.
func (l *lessor) goodFor() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ttl
}

// die makes all further deletes fail.
func (l *lessor) die() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
}

// TestLeasesThatEnd: a store that expires leases removes a crashed server's lease.
func TestLeasesThatEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lessor{Store: memory.New(memory.Options{}), ends: map[string]*time.Timer{}}
		one, two := open(t, store, networks("10.96.0.0/12")...), open(t, store, networks("10.96.0.0/12")...)
		endOne := begin(t, one, store, at("192.0.2.1", 6443))
		crashing := &lessor{Store: store.Store, ends: map[string]*time.Timer{}}
		crash := begin(t, two, crashing, at("192.0.2.2", 6443))
		for range 60 { // no lease ends while its server runs
			time.Sleep(time.Second)
			if page, err := store.List(t.Context(), "/registry/masterleases/", storage.ListOptions{}); err != nil || len(page.Records) != 2 {
				t.Fatalf("leases: %+v %v", page.Records, err)
			}
		}
		if got := endpoints(t, one); got != "192.0.2.1,192.0.2.2 https=6443/TCP" {
			t.Error(got)
		}
		if store.goodFor() != 15*time.Second || crashing.goodFor() != 15*time.Second {
			t.Errorf("leases are good for %v and %v, upstream's for 15s", store.goodFor(), crashing.goodFor())
		}
		crashing.die()
		crash()
		time.Sleep(15*time.Second + time.Millisecond)
		if _, err := store.Get(t.Context(), "/registry/masterleases/192.0.2.2"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("the lease stays: %v", err)
		}
		time.Sleep(10 * time.Second)
		if got := endpoints(t, one); got != "192.0.2.1 https=6443/TCP" {
			t.Errorf("the dead server stays: %s", got)
		}
		endOne()
		page, err := store.List(t.Context(), "/registry/masterleases/", storage.ListOptions{})
		if err != nil || len(page.Records) > 0 {
			t.Errorf("leases stay: %+v %v", page.Records, err)
		}
	})
}

// TestUpstreamLeases: leases of upstream's servers count, and malformed ones are ignored.
func TestUpstreamLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		r := open(t, store, networks("10.96.0.0/12")...)
		lease := &corev1.Endpoints{
			ObjectMeta: metav1.ObjectMeta{Generation: 7},
			Subsets:    []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.9"}}}},
		}
		value, err := codec.Stored(corev1.SchemeGroupVersion.WithKind("Endpoints"), lease)
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range map[string][]byte{
			"10": value, "192.0.2.8": []byte("k8s\x00\xff"), "192.0.2.7": []byte("{}"),
			"192.0.2.6": []byte(`{"kind":"Endpoints","apiVersion":"v1","subsets":[{"ports":[{"port":1}]}]}`),
		} {
			if _, err := store.Create(t.Context(), "/registry/masterleases/"+key, value); err != nil {
				t.Fatal(err)
			}
		}
		end := begin(t, r, store, at("192.0.2.1", 6443))
		defer end()
		if got := endpoints(t, r); got != "192.0.2.1,192.0.2.9 https=6443/TCP" {
			t.Error(got)
		}
		stored, err := store.Get(t.Context(), "/registry/masterleases/192.0.2.1")
		if err != nil {
			t.Fatal(err)
		}
		var mine corev1.Endpoints
		gvk, err := codec.Decode(stored.Value, &mine)
		if err != nil || gvk != corev1.SchemeGroupVersion.WithKind("Endpoints") || len(mine.Subsets) != 1 || mine.Generation != 1 {
			t.Errorf("%v %v %+v", gvk, err, mine)
		}
		// Others' metadata on the Endpoints and their own slices stay unchanged.
		_, err = r.Access().Modify(t.Context(), registry.ObjectKey{Resource: schema.GroupResource{Resource: "endpoints"}, Namespace: "default", Name: "kubernetes"},
			func(obj registry.Object) error {
				obj.SetLabels(map[string]string{"mine": "yes"})
				return nil
			}, false)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		e, _ := get[*corev1.Endpoints](t, r, "", "endpoints", "default", "kubernetes")
		if len(e.Labels) != 2 || e.Labels["mine"] != "yes" || e.Labels[discoveryv1.LabelSkipMirror] != "true" {
			t.Errorf("%v", e.Labels)
		}
	})
}

// silent can be made to stop writing.
type silent struct {
	storage.Store
	dead bool
}

func (s *silent) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	if s.dead {
		return 0, errors.New("dead")
	}
	return s.Store.Delete(ctx, key, expected)
}

// TestServerReturnsReconfigured: a server corrects what an earlier run left, with another configuration.
func TestServerReturnsReconfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		r := open(t, store, networks("10.96.0.0/12", "fd00::/112")...)
		crashed := &silent{Store: store}
		end := begin(t, r, crashed, at("192.0.2.1", 6443))
		crashed.dead = true
		end()
		stray := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
			AddressType: discoveryv1.AddressTypeIPv6,
		}
		if err := r.Access().Delete(t.Context(), registry.ObjectKey{Resource: schema.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}, Namespace: "default", Name: "kubernetes"}, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Access().Create(t.Context(), schema.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}, stray); err != nil {
			t.Fatal(err)
		}
		o := at("192.0.2.1", 7443)
		o.Networks, o.NodePort = networks("10.96.0.0/12", "fd00::/112"), 30443
		end = begin(t, r, store, o)
		defer end()
		if got := endpoints(t, r); got != "192.0.2.1 https=7443/TCP" {
			t.Error(got)
		}
		svc, _ := get[*corev1.Service](t, r, "", "services", "default", "kubernetes")
		if svc.Spec.Type != "NodePort" || svc.Spec.Ports[0].NodePort != 30443 || svc.Spec.Ports[0].TargetPort.IntValue() != 7443 {
			t.Errorf("%+v", svc.Spec)
		}
		slice, _ := get[*discoveryv1.EndpointSlice](t, r, "discovery.k8s.io", "endpointslices", "default", "kubernetes")
		if slice.AddressType != discoveryv1.AddressTypeIPv4 {
			t.Error("a slice of the other family stays")
		}
		time.Sleep(10 * time.Second)
		cidr, _ := get[*networkingv1.ServiceCIDR](t, r, "networking.k8s.io", "servicecidrs", "", "kubernetes")
		if !slices.Equal(cidr.Spec.CIDRs, []string{"10.96.0.0/12", "fd00::/112"}) {
			t.Errorf("%+v", cidr.Spec)
		}
	})
}

func TestDifferentServiceCIDR(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		r := open(t, store, networks("10.96.0.0/12")...)
		gr := schema.GroupResource{Group: "networking.k8s.io", Resource: "servicecidrs"}
		conditions := func(list ...metav1.Condition) {
			t.Helper()
			_, err := r.Access().Modify(t.Context(), registry.ObjectKey{Resource: gr, Name: "kubernetes"}, func(obj registry.Object) error {
				obj.(*networkingv1.ServiceCIDR).Status.Conditions = list
				return nil
			}, false)
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.Access().Create(t.Context(), gr, networking.Default(networks("10.96.0.0/12"))); err != nil {
			t.Fatal(err)
		}
		conditions(metav1.Condition{Type: "Ready", Status: "Unknown"}, metav1.Condition{Type: "Other", Status: "True"})
		var reports []string
		o := kubernetesservice.Options{Networks: networks("10.96.0.0/12"), Report: func(_ registry.Object, reason, message string) {
			reports = append(reports, reason+": "+message)
		}}
		end := begin(t, r, store, o)
		cidr, _ := get[*networkingv1.ServiceCIDR](t, r, "networking.k8s.io", "servicecidrs", "", "kubernetes")
		if c := cidr.Status.Conditions; len(c) != 2 || c[0].Type != "Other" || c[1].Type != "Ready" || c[1].Status != "True" {
			t.Errorf("%+v", c)
		}
		if _, ok := get[*corev1.Service](t, r, "", "services", "default", "kubernetes"); ok {
			t.Error("a service exists without an address")
		}
		end()
		o.Networks = networks("10.97.0.0/16")
		end = begin(t, r, store, o)
		time.Sleep(time.Minute)
		end()
		conditions(metav1.Condition{Type: "Ready", Status: "False", Reason: "Because", Message: "of that"})
		o.Networks = networks("10.96.0.0/12")
		end = begin(t, r, store, o)
		end()
		want := []string{
			"KubernetesDefaultServiceCIDRInconsistent: The default ServiceCIDR [10.96.0.0/12] does not match the controller flag configurations [10.97.0.0/16]",
			"Because: Configuration matches, but of that",
		}
		if !slices.Equal(reports, want) {
			t.Errorf("%q, want %q", reports, want)
		}
	})
}

func TestBadOptions(t *testing.T) {
	for want, o := range map[string]kubernetesservice.Options{
		"set Networks":                               {},
		"shortest allowed prefix length":             {Networks: networks("fd00::/16")},
		"has no address to assign":                   {Networks: networks("10.0.0.0/31")},
		"is of another family":                       {Networks: networks("fd00::/112"), Address: netip.MustParseAddr("192.0.2.1"), Port: 1},
		"port 0 of address 192.0.2.1 is invalid":     {Networks: networks("10.0.0.0/24"), Address: netip.MustParseAddr("192.0.2.1")},
		"port 65536 of address 192.0.2.1 is invalid": {Networks: networks("10.0.0.0/24"), Address: netip.MustParseAddr("192.0.2.1"), Port: 65536},
		"cannot be an endpoint's":                    {Networks: networks("10.0.0.0/24"), Address: netip.MustParseAddr("127.0.0.1"), Port: 1},
	} {
		if _, err := kubernetesservice.New(nil, nil, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestAdvertised(t *testing.T) {
	v4 := netip.MustParsePrefix("10.0.0.0/24")
	if got, ok := kubernetesservice.Advertised(netip.MustParseAddr("192.0.2.1"), v4); !ok || got.String() != "192.0.2.1" {
		t.Errorf("%s, %v", got, ok)
	}
	for _, listen := range []string{"0.0.0.0", "127.0.0.1", "::", "2001:db8::1"} {
		got, ok := kubernetesservice.Advertised(netip.MustParseAddr(listen), v4)
		if ok && (!got.Is4() || got.IsLoopback() || got.IsUnspecified()) {
			t.Errorf("listening on %s advertises %s", listen, got)
		}
	}
}

// A server maintains the service while it runs.
func Example() {
	store := memory.New(memory.Options{})
	networks := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}
	ports, err := allocation.NewPorts(store, allocation.NodePorts())
	if err != nil {
		fmt.Println(err)
		return
	}
	kinds := slices.Concat(core.Kinds(core.Options{Services: core.Services{Networks: networks, NodePorts: ports}}),
		discovery.Kinds(), networking.Kinds())
	reg, err := registry.New(store, kinds, registry.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	keeper, err := kubernetesservice.New(reg, store, kubernetesservice.Options{
		Networks: networks, Address: netip.MustParseAddr("192.0.2.1"), Port: 6443,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	running, stop := context.WithCancel(context.Background())
	defer stop()
	serving, end := context.WithCancel(running)
	defer end()
	served, ended := make(chan error), make(chan error)
	go func() { ended <- reg.Run(running) }()
	if err := reg.WaitSynced(running); err != nil {
		fmt.Println(err)
	}
	endpoints, _ := reg.Resource(schema.GroupResource{Resource: "endpoints"})
	watch, err := endpoints.Watch(running, registry.Selection{}, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { served <- keeper.Run(serving) }()
	seen, err := watch.Next(running)
	if err != nil {
		fmt.Println(err)
		return
	}
	subset := seen[0].Item.Object.(*corev1.Endpoints).Subsets[0]
	fmt.Println(subset.Addresses[0].IP, subset.Ports[0].Name, subset.Ports[0].Port)
	end()
	fmt.Println(<-served)
	stop()
	fmt.Println(<-ended)
	// Output:
	// 192.0.2.1 https 6443
	// <nil>
	// <nil>
}
