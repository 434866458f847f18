package allocation_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/allocation"
	"github.com/keelson-dev/keelson/storage/memory"
)

var cidrResource = schema.GroupResource{Group: "networking.k8s.io", Resource: "servicecidrs"}

func TestAddressOfReadyNetworks(t *testing.T) {
	w := newWorld(t, memory.New(memory.Options{}), "10.0.0.0/29", "30000-30099")
	cidr := func(name string, ready metav1.ConditionStatus, networks ...string) {
		t.Helper()
		c := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: networks}}
		if _, err := w.Create(t.Context(), cidrResource, c); err != nil {
			t.Fatal(err)
		}
		if ready == "" {
			return
		}
		_, err := w.Modify(t.Context(), registry.ObjectKey{Resource: cidrResource, Name: name}, func(obj registry.Object) error {
			obj.(*networkingv1.ServiceCIDR).Status.Conditions = []metav1.Condition{{Type: "Ready", Status: ready}}
			return nil
		}, false)
		if err != nil {
			t.Fatal(err)
		}
	}
	cidr("a-not-ready", metav1.ConditionFalse, "10.0.1.0/29")
	cidr("b-nobody-knows", "", "10.0.2.0/29", "fd00::/120")
	cidr("c-too-wide", "", "fd01::/48")
	if _, err := w.Modify(t.Context(), registry.ObjectKey{Resource: cidrResource, Name: "kubernetes"}, func(obj registry.Object) error {
		obj.SetFinalizers([]string{"networking.k8s.io/service-cidr-finalizer"})
		return nil
	}, false); err != nil {
		t.Fatal(err)
	}
	take := func(family corev1.IPFamily, wish string) (string, error) {
		var addr netip.Addr
		if wish != "" {
			addr = netip.MustParseAddr(wish)
		}
		got, err := allocation.TakeAddress(t.Context(), w, allocation.Owner{Namespace: "ns", Name: "a"}, family, allocation.AddressWish{Addr: addr})
		return got.String(), err
	}
	for _, c := range []struct {
		family corev1.IPFamily
		wish   string
		want   string
		err    error
	}{
		{"IPv4", "10.0.1.1", "", allocation.ErrNoRange},
		{"IPv4", "10.0.2.1", "10.0.2.1", nil},
		{"IPv4", "10.0.2.1", "", allocation.ErrAddressTaken},
		{"IPv4", "10.0.2.7", "", allocation.ErrNoRange}, // broadcast
		{"IPv6", "fd00::ff", "fd00::ff", nil},
		{"IPv6", "fd01::1", "", allocation.ErrNoRange},
		{"IPv6", "", "fd00::11", nil},
		{"IPv4", "", "10.0.2.2", nil}, // sorted by name
		{"IPv4", "10.0.0.1", "10.0.0.1", nil},
	} {
		got, err := take(c.family, c.wish)
		if !errors.Is(err, c.err) || err == nil && got != c.want {
			t.Errorf("%s %q: %s, %v, want %s, %v", c.family, c.wish, got, err, c.want, c.err)
		}
	}
	if err := w.Delete(t.Context(), registry.ObjectKey{Resource: cidrResource, Name: "kubernetes"}, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := take("IPv4", "10.0.0.2"); !errors.Is(err, allocation.ErrNoRange) {
		t.Errorf("of a network that is being deleted: %v", err)
	}
	if _, err := allocation.TryAddress(t.Context(), w, "IPv4", netip.MustParseAddr("10.9.9.9")); err == nil || err.Error() != "provided IP 10.9.9.9 is not in the valid range" {
		t.Error(err)
	}
	if got, err := allocation.TryAddress(t.Context(), w, "IPv6", netip.Addr{}); got.String() != "fd00::" || err != nil {
		t.Errorf("%s, %v", got, err) // the address that upstream invents
	}
}

func TestAddressIsReleasedByItsOwner(t *testing.T) {
	w := newWorld(t, memory.New(memory.Options{}), "10.0.0.0/29", "30000-30099")
	wish := allocation.AddressWish{Addr: netip.MustParseAddr("10.0.0.1")}
	ann, bob := allocation.Owner{Namespace: "ns", Name: "ann"}, allocation.Owner{Namespace: "ns", Name: "bob"}
	take := func(o allocation.Owner) allocation.Address {
		t.Helper()
		got, err := allocation.TakeAddress(t.Context(), w, o, "IPv4", wish)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := take(ann)
	found, ok, err := allocation.FindAddress(t.Context(), w, ann, wish.Addr)
	if found != first || !ok || err != nil {
		t.Errorf("%v, %v, %v", found, ok, err)
	}
	if _, ok, err := allocation.FindAddress(t.Context(), w, bob, wish.Addr); ok || err != nil {
		t.Errorf("found for bob: %v", err)
	}
	if err := first.Release(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	take(bob)
	for range 2 {
		if err := first.Release(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok, err := allocation.FindAddress(t.Context(), w, bob, wish.Addr); !ok || err != nil {
		t.Errorf("released from under bob: %v", err)
	}
}

// The first address of a network belongs to the service kubernetes; a request for any address gets one from the
// upper band first.
func ExampleRange() {
	r, err := allocation.NewRange(netip.MustParsePrefix("10.96.0.0/24"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.First(), r.Contains(netip.MustParseAddr("10.96.0.255")))
	for addr := range r.All(0) {
		fmt.Println(addr)
		break
	}
	// Output:
	// 10.96.0.1 false
	// 10.96.0.17
}
