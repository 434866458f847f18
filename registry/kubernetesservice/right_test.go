package kubernetesservice_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/discovery"
	"github.com/keelson-dev/keelson/registry/kubernetesservice"
	"github.com/keelson-dev/keelson/registry/networking"
	"github.com/keelson-dev/keelson/storage/memory"
)

// change updates an object as an administrator would.
func change[T registry.Object](t *testing.T, r *registry.Registry, resource string, f func(T)) {
	t.Helper()
	res, ok := r.Resource(core.Kinds(core.Options{})[0].GroupVersion.WithResource(resource).GroupResource())
	if !ok {
		t.Fatalf("%s are not served", resource)
	}
	_, _, err := res.Update(t.Context(), "default", "kubernetes", func(_ context.Context, current registry.Object) (registry.Object, error) {
		obj := current.DeepCopyObject().(T)
		f(obj)
		return obj, nil
	}, registry.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // until the change is seen
}

// TestPortsAreCorrectedOnce: a starting server corrects the ports left by another configuration; later changes
// by an administrator stay.
func TestPortsAreCorrectedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRefusing()
		r := open(t, store, networks("10.96.0.0/12")...)
		service := func() *corev1.Service {
			svc, ok := get[*corev1.Service](t, r, "", "services", "default", "kubernetes")
			if !ok {
				t.Fatal("there is no service")
			}
			return svc
		}
		start := func(o kubernetesservice.Options) *kubernetesservice.Service {
			s, err := kubernetesservice.New(r, store, o)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Once(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return s
		}
		first := start(at("192.0.2.1", 6443))
		if svc := service(); svc.Spec.Type != corev1.ServiceTypeClusterIP || svc.Spec.Ports[0].Port != 443 || svc.Spec.Ports[0].TargetPort.IntVal != 6443 {
			t.Errorf("made as %+v", svc.Spec)
		}
		if got := endpoints(t, r); got != "192.0.2.1 https=6443/TCP" {
			t.Errorf("endpoints %s", got)
		}
		change(t, r, "services", func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 444 })
		change(t, r, "endpoints", func(e *corev1.Endpoints) { e.Subsets[0].Ports[0].Port = 1 })
		if err := first.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		kept := func(when string) {
			e, _ := get[*corev1.Endpoints](t, r, "", "endpoints", "default", "kubernetes")
			if port := service().Spec.Ports[0].Port; port != 444 || e.Subsets[0].Ports[0].Port != 1 {
				t.Errorf("%s: port %d, endpoints %+v: an administrator's change was undone", when, port, e.Subsets)
			}
		}
		kept("running")
		// A failure does not make it start again.
		store.read = "/registry/masterleases/"
		if err := first.Once(t.Context()); !errors.Is(err, errRefused) {
			t.Errorf("without leases: %v", err)
		}
		store.read = ""
		if err := first.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		kept("after a failure")
		// It restarts, as a node port and with an extra port.
		change(t, r, "services", func(svc *corev1.Service) {
			svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: "more", Port: 9, TargetPort: intstr.FromInt32(9), Protocol: corev1.ProtocolTCP})
		})
		o := at("192.0.2.1", 6444)
		o.NodePort = 30443
		start(o)
		if svc := service(); svc.Spec.Type != corev1.ServiceTypeNodePort || len(svc.Spec.Ports) != 1 || svc.Spec.Ports[0].Port != 443 || svc.Spec.Ports[0].NodePort != 30443 {
			t.Errorf("corrected to %+v", svc.Spec)
		}
		if got := endpoints(t, r); got != "192.0.2.1 https=6444/TCP" {
			t.Errorf("endpoints %s", got)
		}
		// A correct service is not written again.
		version := service().ResourceVersion
		if start(o); service().ResourceVersion != version {
			t.Error("a correct service was written")
		}
	})
}

// TestNotServed: the missing kinds of a registry are reported, and the rest is done.
func TestNotServed(t *testing.T) {
	all := slices.Concat(core.Kinds(core.Options{}), discovery.Kinds(), networking.Kinds())
	const none = "endpoints: delete EndpointSlice of another family: not served"
	for name, c := range map[string]struct {
		missing, want []string
	}{
		"core only":   {[]string{"servicecidrs", "endpointslices"}, []string{"ServiceCIDR: not served", none}},
		"services":    {[]string{"services"}, []string{"service: services are not served"}},
		"endpoints":   {[]string{"endpoints"}, []string{"endpoints: write Endpoints: not served"}},
		"leases only": {[]string{"servicecidrs", "services", "endpoints", "endpointslices"}, []string{"ServiceCIDR: not served", "service: services are not served", "endpoints: write Endpoints: not served"}},
	} {
		t.Run(name, func(t *testing.T) {
			store := memory.New(memory.Options{})
			kinds := slices.DeleteFunc(slices.Clone(all), func(k registry.Kind) bool { return slices.Contains(c.missing, k.GroupResource().Resource) })
			r, err := registry.New(store, kinds, registry.Options{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- r.Run(ctx) }()
			if err := r.WaitSynced(ctx); err != nil {
				t.Fatal(err)
			}
			s, err := kubernetesservice.New(r, store, at("192.0.2.1", 6443))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Once(ctx); errString(err) != strings.Join(c.want, "\n") {
				t.Errorf("told %v, want %q", err, c.want)
			}
			if !slices.Contains(c.missing, "endpoints") {
				if e, ok := get[*corev1.Endpoints](t, r, "", "endpoints", "default", "kubernetes"); !ok || len(e.Subsets) != 1 || e.Subsets[0].Addresses[0].IP != "192.0.2.1" {
					t.Errorf("endpoints %+v", e)
				}
			}
			if !slices.Contains(c.missing, "services") && !slices.Contains(c.missing, "servicecidrs") {
				if _, ok := get[*corev1.Service](t, r, "", "services", "default", "kubernetes"); !ok {
					t.Error("there is no service")
				}
			}
			if _, err := store.Get(ctx, leasePlace); err != nil {
				t.Errorf("the lease: %v", err)
			}
			cancel()
			if err := errors.Join(<-done, store.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLastServerEnds: a server that ends removes its endpoint promptly, even if it is the last.
func TestLastServerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		r := open(t, store, networks("10.96.0.0/12")...)
		one, two := begin(t, r, store, at("192.0.2.1", 6443)), begin(t, r, store, at("192.0.2.2", 6443))
		time.Sleep(65 * time.Second) // between two rounds of both
		if got := endpoints(t, r); got != "192.0.2.1,192.0.2.2 https=6443/TCP" {
			t.Errorf("two servers: %s", got)
		}
		one()
		synctest.Wait() // until the change is seen
		if got := endpoints(t, r); got != "192.0.2.2 https=6443/TCP" {
			t.Errorf("one server: %s", got)
		}
		two()
		synctest.Wait()
		if e, ok := get[*corev1.Endpoints](t, r, "", "endpoints", "default", "kubernetes"); !ok || len(e.Subsets) != 0 {
			t.Errorf("no server: %+v", e)
		}
	})
}

func TestAdvertisedOfFamily(t *testing.T) {
	v4, v6 := netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00::/112")
	for listen, network := range map[string]netip.Prefix{"192.0.2.1": v4, "::ffff:192.0.2.1": v4, "2001:db8::1": v6} {
		want := netip.MustParseAddr(listen).Unmap()
		if got, ok := kubernetesservice.Advertised(netip.MustParseAddr(listen), network); !ok || got != want {
			t.Errorf("%s: %s, %t", listen, got, ok)
		}
	}
	// An unreachable address is never advertised, but this host's, if it has one.
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var want netip.Addr
	for _, addr := range addrs {
		if a := netip.MustParsePrefix(addr.String()).Addr().Unmap(); a.IsGlobalUnicast() && a.Is4() {
			want = a
			break
		}
	}
	for _, listen := range []string{"127.0.0.1", "0.0.0.0", "2001:db8::1", "169.254.0.1"} {
		if got, ok := kubernetesservice.Advertised(netip.MustParseAddr(listen), v4); ok != want.IsValid() || got != want {
			t.Errorf("%s: %s, %t, want %s", listen, got, ok, want)
		}
	}
}
