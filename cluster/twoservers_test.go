package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/registry/allocation"
	"github.com/keelson-dev/keelson/storage"
)

func serviceKind(name string, kind corev1.ServiceType) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
		Type: kind, Ports: []corev1.ServicePort{{Port: 80}},
	}}
}

// given counts the services with each cluster IP and node port.
func given(t *testing.T, cs kubernetes.Interface) (ips map[string]int, ports map[int]int) {
	t.Helper()
	l, err := cs.CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ips, ports = map[string]int{}, map[int]int{}
	for _, svc := range l.Items {
		for _, ip := range svc.Spec.ClusterIPs {
			if ip != corev1.ClusterIPNone {
				ips[ip]++
			}
		}
		for _, p := range svc.Spec.Ports {
			if p.NodePort != 0 {
				ports[int(p.NodePort)]++
			}
		}
	}
	return ips, ports
}

// unique fails if something was allocated twice.
func unique[K comparable](t *testing.T, what string, given map[K]int) {
	t.Helper()
	for k, n := range given {
		if n > 1 {
			t.Errorf("%s %v is %d services'", what, k, n)
		}
	}
}

// consistent waits until exactly the IPs and ports of services are recorded as allocated: those of a failed write are
// released only after its response.
func consistent(t *testing.T, cs kubernetes.Interface, store storage.Store, r allocation.PortRange) {
	t.Helper()
	ports, err := allocation.NewPorts(store, r)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "what is recorded", func() error {
		ips, used := given(t, cs)
		taken, err := ports.Taken(t.Context())
		if err != nil {
			return err
		}
		if len(taken) != len(used) || slices.ContainsFunc(taken, func(p int) bool { return used[p] != 1 }) {
			return fmt.Errorf("recorded node ports %v, used %v", taken, used)
		}
		l, err := cs.NetworkingV1().IPAddresses().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, ip := range l.Items {
			if ips[ip.Name] != 1 {
				return fmt.Errorf("address %s is taken for %v, and %d services have it", ip.Name, ip.Spec.ParentRef, ips[ip.Name])
			}
		}
		if len(l.Items) != len(ips) {
			return fmt.Errorf("%d addresses are taken, %d used", len(l.Items), len(ips))
		}
		return nil
	})
}

func rangeFull(err error) error {
	if apierrors.IsInternalError(err) && strings.Contains(err.Error(), "range is full") ||
		apierrors.IsInvalid(err) && strings.Contains(err.Error(), "range is full") {
		return nil
	}
	return err
}

// TestServicesTwoServers: exactly as many services get an address, or a port, as are available.
func TestServicesTwoServers(t *testing.T) { shared(t, servicesTwoServers) }

func servicesTwoServers(t *testing.T, stores [2]storage.Store) {
	o := cluster.Options{Services: cluster.Services{
		Networks: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/25")}, NodePorts: allocation.PortRange{First: 31000, Size: 40},
	}}
	ctx, cs := t.Context(), two(t, stores, o)
	create := func(kind corev1.ServiceType) func(kubernetes.Interface, int, int) error {
		return func(cs kubernetes.Interface, w, i int) error {
			name := strings.ToLower(fmt.Sprintf("%s-%d-%d", kind, w, i))
			_, err := cs.CoreV1().Services("default").Create(ctx, serviceKind(name, kind), metav1.CreateOptions{})
			return err
		}
	}
	if n := race(t, cs, 32, 2, create(corev1.ServiceTypeNodePort), rangeFull); n != 40 {
		t.Errorf("%d services got a node port, there are 40", n)
	}
	consistent(t, cs[1], stores[0], o.Services.NodePorts)
	had, _ := given(t, cs[0])
	if n := race(t, cs, 64, 3, create(corev1.ServiceTypeClusterIP), rangeFull); n != 126-len(had) {
		t.Errorf("%d services got a cluster IP, there were %d", n, 126-len(had))
	}
	ips, ports := given(t, cs[1])
	unique(t, "address", ips)
	unique(t, "port", ports)
	if len(ips) != 126 || len(ports) != 40 {
		t.Errorf("%d addresses and %d ports are used", len(ips), len(ports))
	}
	consistent(t, cs[0], stores[0], o.Services.NodePorts)
}

// TestServicesHammer creates, changes and deletes services on both servers, which have few
// addresses and fewer ports, and compares in the end.
func TestServicesHammer(t *testing.T) { shared(t, servicesHammer) }

func servicesHammer(t *testing.T, stores [2]storage.Store) {
	o := cluster.Options{Services: cluster.Services{
		Networks: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/26")}, NodePorts: allocation.PortRange{First: 31000, Size: 20},
	}}
	cs := two(t, stores, o)
	createQuota(t, cs, quotaOf("q", map[corev1.ResourceName]string{"services": "50", "services.nodeports": "15"}))
	allowed := func(err error) error {
		if apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || exceeded(err) == nil {
			return nil
		}
		return rangeFull(err)
	}
	race(t, cs, 16, 60, func(cs kubernetes.Interface, w, i int) error {
		return anything(t.Context(), cs, rand.New(rand.NewPCG(uint64(w), uint64(i))))
	}, allowed)
	ips, ports := given(t, cs[0])
	unique(t, "address", ips)
	unique(t, "port", ports)
	t.Logf("%d addresses and %d ports are used", len(ips), len(ports))
	consistent(t, cs[1], stores[0], o.Services.NodePorts)
	if len(ports) > 15 || len(ips) > 51 {
		t.Errorf("%d addresses and %d ports are more than the quota allows", len(ips), len(ports))
	}
}

// anything performs a random operation on one of sixty services.
func anything(ctx context.Context, cs kubernetes.Interface, r *rand.Rand) error {
	services, name := cs.CoreV1().Services("default"), fmt.Sprintf("s-%d", r.IntN(60))
	kinds := []corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort}
	var err error
	switch r.IntN(4) {
	case 0:
		err = services.Delete(ctx, name, metav1.DeleteOptions{})
	case 1:
		_, err = services.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"type":%q}}`, kinds[r.IntN(2)]), metav1.PatchOptions{})
	default:
		_, err = services.Create(ctx, serviceKind(name, kinds[r.IntN(2)]), metav1.CreateOptions{})
	}
	return err
}
