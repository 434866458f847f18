package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/allocation"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// varieties returns services of different types to change into each other.
func varieties() map[string]*corev1.Service {
	const prefer = corev1.IPFamilyPolicyPreferDualStack
	return map[string]*corev1.Service{
		"ClusterIP":    withType("a", corev1.ServiceTypeClusterIP),
		"Dual":         withType("a", corev1.ServiceTypeClusterIP, families(prefer)),
		"ExternalName": withType("a", corev1.ServiceTypeExternalName),
		"NodePort":     withType("a", corev1.ServiceTypeNodePort),
		"LoadBalancer": withType("a", corev1.ServiceTypeLoadBalancer),
		"Local":        withType("a", corev1.ServiceTypeLoadBalancer, local),
		"NoPorts": withType("a", corev1.ServiceTypeLoadBalancer, func(svc *corev1.Service) {
			svc.Spec.AllocateLoadBalancerNodePorts = new(false)
		}),
	}
}

// TestServiceBecomes replaces every variety with every other, as kubectl replace does, and back: common
// allocations are kept, missing ones are made, and others are freed.
func TestServiceBecomes(t *testing.T) {
	want := map[string]string{
		"ClusterIP": "v4 [IPv4]", "Dual": "v4 v6 [IPv4 IPv6]", "ExternalName": "", "NodePort": "v4 2 ports [IPv4]",
		"LoadBalancer": "v4 2 ports [IPv4]", "Local": "v4 2 ports health [IPv4]", "NoPorts": "v4 [IPv4]",
	}
	for from, first := range varieties() {
		for to, second := range varieties() {
			t.Run(from+" becomes "+to, func(t *testing.T) {
				s := serve(t, memory.New(memory.Options{}), v4, v6)
				svc, err := s.create(first, false)
				if err != nil || shape(svc) != want[from] {
					t.Fatalf("%v, %v", svc, err)
				}
				replace := func(by *corev1.Service) func(*corev1.Service) {
					return func(svc *corev1.Service) {
						svc.Spec = *by.Spec.DeepCopy()
						if from == "Dual" && by.Spec.Type != corev1.ServiceTypeExternalName && by.Spec.IPFamilyPolicy == nil {
							families(corev1.IPFamilyPolicySingleStack)(svc)
						}
					}
				}
				before := s.taken()
				dry, dryErr := s.update("a", replace(second), true)
				if !slices.Equal(s.taken(), before) {
					t.Errorf("a dry run took or freed: %v, before %v", s.taken(), before)
				}
				expected := want[to]
				if from == "NodePort" && to == "NoPorts" || from == "LoadBalancer" && to == "NoPorts" || from == "Local" && to == "NoPorts" {
					expected = "v4 [IPv4]"
				}
				changed, err := s.update("a", replace(second), false)
				if err != nil || shape(changed) != expected {
					t.Fatalf("is %q, want %q (%v)", shape(changed), expected, err)
				}
				if dryErr != nil || shape(dry) != expected {
					t.Errorf("dry run: %q, %v", shape(dry), dryErr)
				}
				if from != "ExternalName" && to != "ExternalName" && changed.Spec.ClusterIP != svc.Spec.ClusterIP {
					t.Errorf("cluster IP %s became %s", svc.Spec.ClusterIP, changed.Spec.ClusterIP)
				}
				if p, q := svc.Spec.Ports, changed.Spec.Ports; len(p) > 0 && len(q) > 0 && p[0].NodePort != 0 && q[0].NodePort != 0 && p[0].NodePort != q[0].NodePort {
					t.Errorf("node port %d became %d", p[0].NodePort, q[0].NodePort)
				}
				s.consistent()
				s.remove("a")
				if taken := s.taken(); len(taken) > 0 {
					t.Errorf("still taken: %v", taken)
				}
			})
		}
	}
}

func TestServiceKeeps(t *testing.T) {
	s := serve(t, memory.New(memory.Options{}), v4, v6)
	svc, err := s.create(withType("a", corev1.ServiceTypeNodePort, families(corev1.IPFamilyPolicyRequireDualStack)), false)
	if err != nil {
		t.Fatal(err)
	}
	port := func(i int, to int32) func(*corev1.Service) {
		return func(svc *corev1.Service) { svc.Spec.Ports[i].NodePort = to }
	}
	p, q := svc.Spec.Ports[0].NodePort, svc.Spec.Ports[1].NodePort
	for _, c := range []struct {
		name   string
		change func(*corev1.Service)
		want   string
	}{
		{"label", func(svc *corev1.Service) { svc.Labels = map[string]string{"a": "b"} }, fmt.Sprintf("v4 v6 %d %d", p, q)},
		{"other node port", port(0, 30050), fmt.Sprintf("v4 v6 30050 %d", q)},
		{"swapped node ports", func(svc *corev1.Service) { port(0, q)(svc); port(1, 30050)(svc) }, fmt.Sprintf("v4 v6 %d 30050", q)},
		{"one port less", func(svc *corev1.Service) { svc.Spec.Ports = svc.Spec.Ports[:1] }, fmt.Sprintf("v4 v6 %d", q)},
		{"single stack", func(svc *corev1.Service) { svc.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack) }, fmt.Sprintf("v4 %d", q)},
		{"a certain second address", func(svc *corev1.Service) {
			families(corev1.IPFamilyPolicyRequireDualStack)(svc)
			clusterIPs(svc.Spec.ClusterIP, "fd00::77")(svc)
		}, fmt.Sprintf("v4 v6 %d", q)},
		{"out of range", port(0, 29999), "spec.ports[0].nodePort: Invalid value: 29999: provided port is not in the valid range. The range of valid ports is 30000-30099"},
		{"twice", func(svc *corev1.Service) {
			svc.Spec.Ports = []corev1.ServicePort{{Name: "p", Port: 80, NodePort: 30060}, {Name: "q", Port: 81, NodePort: 30060}}
		}, "duplicate nodePort: {TCP 30060}"},
		{"invalid for another reason", func(svc *corev1.Service) { port(0, 30061)(svc); svc.Spec.SessionAffinity = "x" },
			`spec.sessionAffinity: Unsupported value: "x": supported values: "ClientIP", "None"`},
	} {
		changed, err := s.update("a", c.change, false)
		got := fields(err)
		if err == nil {
			got, _, _ = strings.Cut(shape(changed), " [")
			got = got[:strings.LastIndex(got, " ")]
			got = got[:strings.LastIndex(got, " ")]
			for _, p := range changed.Spec.Ports {
				got += fmt.Sprint(" ", p.NodePort)
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		s.consistent()
	}
}

func TestServiceConflicts(t *testing.T) {
	s := serve(t, memory.New(memory.Options{}), v4)
	first, err := s.create(withType("a", corev1.ServiceTypeLoadBalancer, local), false)
	if err != nil {
		t.Fatal(err)
	}
	taken := s.taken()
	ip, port, health := first.Spec.ClusterIP, first.Spec.Ports[0].NodePort, first.Spec.HealthCheckNodePort
	for _, dry := range []bool{false, true} {
		for want, svc := range map[string]*corev1.Service{
			fmt.Sprintf("spec.clusterIPs: Invalid value: [%q]: failed to allocate IP %s: provided IP is already allocated", ip, ip): withType("b", corev1.ServiceTypeClusterIP, clusterIPs(ip)),
			fmt.Sprintf("spec.ports[0].nodePort: Invalid value: %d: provided port is already allocated", port): withType("b", corev1.ServiceTypeNodePort, func(svc *corev1.Service) {
				svc.Spec.Ports[0].NodePort = port
			}),
			fmt.Sprintf("failed to allocate requested HealthCheck NodePort %d: provided port is already allocated", health): withType("b", corev1.ServiceTypeLoadBalancer, local, func(svc *corev1.Service) {
				svc.Spec.HealthCheckNodePort = health
			}),
		} {
			_, err := s.create(svc, dry)
			if dry && strings.HasPrefix(want, "spec.clusterIPs") {
				want = "<nil>" // as upstream, a dry run checks ranges only
			}
			if fields(err) != want {
				t.Errorf("dry run %v: %s, want %s", dry, fields(err), want)
			}
		}
	}
	if now := s.taken(); !slices.Equal(now, taken) {
		t.Errorf("taken %v, before %v", now, taken)
	}
	_, err = s.create(withType("b", corev1.ServiceTypeClusterIP, clusterIPs("10.97.0.1")), true)
	if want := `spec.clusterIPs: Invalid value: ["10.97.0.1"]: failed to allocate IP 10.97.0.1: provided IP 10.97.0.1 is not in the valid range`; fields(err) != want {
		t.Errorf("%s, want %s", fields(err), want)
	}
	// A name conflict allocates nothing either.
	if _, err = s.create(withType("a", corev1.ServiceTypeNodePort), false); !errors.Is(err, registry.ErrExists) {
		t.Errorf("created again: %v", err)
	}
	if now := s.taken(); !slices.Equal(now, taken) {
		t.Errorf("taken %v, before %v", now, taken)
	}
}

// TestServicesAtOnce: many clients create, change and delete services on two servers over one store.
func TestServicesAtOnce(t *testing.T) {
	store := memory.New(memory.Options{})
	servers := []*server{serve(t, store, v4, v6), serve(t, store, v4, v6)}
	kinds := varieties()
	names := []string{"Dual", "NodePort", "Local", "ClusterIP", "ExternalName"}
	var wg sync.WaitGroup
	for i := range 64 {
		s, name := servers[i%2], fmt.Sprintf("s%d", i)
		wg.Go(func() {
			svc := kinds[names[i%len(names)]].DeepCopy()
			svc.Name = name
			if _, err := s.create(svc, false); err != nil {
				if fields(err) != "failed to allocate a nodePort: range is full" && fields(err) != "failed to allocate a HealthCheck NodePort 0: range is full" {
					t.Errorf("create %s: %v", name, fields(err))
				}
				return
			}
			next := kinds[names[(i+1)%len(names)]]
			_, err := s.update(name, func(svc *corev1.Service) {
				policy := svc.Spec.IPFamilyPolicy
				svc.Spec = *next.Spec.DeepCopy()
				if policy != nil && *policy != corev1.IPFamilyPolicySingleStack && next.Spec.Type != corev1.ServiceTypeExternalName {
					families(corev1.IPFamilyPolicySingleStack)(svc)
				}
			}, false)
			if err != nil && !strings.HasSuffix(fields(err), "range is full") {
				t.Errorf("update %s: %v", name, fields(err))
			}
			if i%3 == 0 {
				if _, _, err := s.services.Delete(t.Context(), "ns", name, registry.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, s := range servers {
		s.consistent()
		unique(t, s)
	}
}

// unique checks that no two services have the same address or port.
func unique(t *testing.T, s *server) {
	t.Helper()
	l, err := s.services.List(t.Context(), registry.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	of := map[any]string{}
	for _, item := range l.Items {
		svc := item.Object.(*corev1.Service)
		for _, addr := range allocation.ClusterIPs(svc) {
			if other, twice := of[addr]; twice {
				t.Errorf("%s belongs to %s and %s", addr, other, svc.Name)
			}
			of[addr] = svc.Name
		}
		for _, port := range allocation.ServicePorts(svc) {
			if other, twice := of[port]; twice {
				t.Errorf("%d belongs to %s and %s", port, other, svc.Name)
			}
			of[port] = svc.Name
		}
	}
}

func TestServicesExhaustAddresses(t *testing.T) {
	store := memory.New(memory.Options{})
	servers := []*server{serve(t, store, "10.0.0.0/29"), serve(t, store, "10.0.0.0/29")}
	var created, full atomic.Int32
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			_, err := servers[i%2].create(withType(fmt.Sprintf("s%d", i), corev1.ServiceTypeClusterIP), false)
			var e *registry.Error
			switch {
			case err == nil:
				created.Add(1)
			case errors.As(err, &e) && errors.Is(err, registry.ErrInternal) && strings.HasPrefix(e.Message, `failed to allocate a serviceIP for Service "s`) && strings.HasSuffix(e.Message, `": range is full`):
				full.Add(1)
			default:
				t.Errorf("s%d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if created.Load() != 6 || full.Load() != 58 {
		t.Errorf("%d were created and %d were refused, of 6 and 58", created.Load(), full.Load())
	}
	servers[0].consistent()
	unique(t, servers[0])
}

func TestServicesUseAllNetworks(t *testing.T) {
	s := serve(t, memory.New(memory.Options{}), "10.0.0.0/29")
	more := registryCIDR("another", "10.0.1.0/30")
	if _, err := s.registry.Access().Create(t.Context(), cidrs(), more); err != nil {
		t.Fatal(err)
	}
	count := map[netip.Prefix]int{}
	for i := range 8 {
		svc, err := s.create(withType(fmt.Sprintf("s%d", i), corev1.ServiceTypeClusterIP), false)
		if err != nil {
			t.Fatal(err)
		}
		prefix, err := netip.MustParseAddr(svc.Spec.ClusterIP).Prefix(29)
		if err != nil {
			t.Fatal(err)
		}
		count[prefix]++
	}
	if count[netip.MustParsePrefix("10.0.0.0/29")] != 6 || count[netip.MustParsePrefix("10.0.1.0/29")] != 2 {
		t.Errorf("addresses of %v", count)
	}
	if _, err := s.create(withType("more", corev1.ServiceTypeClusterIP), false); fields(err) != `failed to allocate a serviceIP for Service "more": range is full` {
		t.Error(err)
	}
	s.consistent()
}

// TestServicesWithoutNetworks: without a ServiceCIDR, errors are upstream's.
func TestServicesWithoutNetworks(t *testing.T) {
	s := serve(t, memory.New(memory.Options{}), v4)
	if err := s.registry.Access().Delete(t.Context(), registry.ObjectKey{Resource: cidrs(), Name: "kubernetes"}, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for want, create := range map[string]func() (*corev1.Service, error){
		`failed to allocate a serviceIP for Service "a": range is full`: func() (*corev1.Service, error) {
			return s.create(withType("a", corev1.ServiceTypeNodePort), false)
		},
		`spec.clusterIPs: Invalid value: [""]: failed to allocate IP: allocator not ready`: func() (*corev1.Service, error) {
			return s.create(withType("a", corev1.ServiceTypeNodePort), true)
		},
		`spec.clusterIPs: Invalid value: ["10.96.0.7"]: failed to allocate IP 10.96.0.7: allocator not ready`: func() (*corev1.Service, error) {
			return s.create(withType("a", corev1.ServiceTypeNodePort, clusterIPs("10.96.0.7")), true)
		},
		`spec.clusterIPs: Invalid value: ["10.96.0.7"]: failed to allocate IP 10.96.0.7: the provided network does not match the current range`: func() (*corev1.Service, error) {
			return s.create(withType("a", corev1.ServiceTypeNodePort, clusterIPs("10.96.0.7")), false)
		},
	} {
		if _, err := create(); fields(err) != want {
			t.Errorf("%s, want %s", fields(err), want)
		}
	}
	if taken := s.taken(); len(taken) > 0 {
		t.Errorf("taken %v", taken)
	}
}

// TestServiceWriteOfUnknownOutcome: a write of unknown outcome keeps both what it allocated and what it would
// have freed.
func TestServiceWriteOfUnknownOutcome(t *testing.T) {
	broken := &brokenStore{Store: memory.New(memory.Options{})}
	s := serve(t, broken, v4)
	broken.writes = true
	if _, err := s.create(withType("a", corev1.ServiceTypeNodePort), false); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	if taken := s.taken(); len(taken) != 3 {
		t.Errorf("taken %v, want an address and two ports", taken)
	}
	broken.writes = false
	if _, err := s.create(withType("b", corev1.ServiceTypeNodePort), false); err != nil {
		t.Fatal(err)
	}
	broken.writes = true
	if _, _, err := s.services.Delete(t.Context(), "ns", "b", registry.DeleteOptions{}); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	if taken := s.taken(); len(taken) != 6 {
		t.Errorf("taken %v, want two addresses and four ports", taken)
	}
}

var errBroken = errors.New("the store is broken")

// brokenStore fails writes of services and leaves their outcome unknown.
type brokenStore struct {
	storage.Store
	writes bool
}

func (b *brokenStore) Create(ctx context.Context, key string, value []byte) (int64, error) {
	if b.writes && strings.HasPrefix(key, "/registry/services/specs/") {
		return 0, errBroken
	}
	return b.Store.Create(ctx, key, value)
}

func (b *brokenStore) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	if b.writes && strings.HasPrefix(key, "/registry/services/specs/") {
		return 0, errBroken
	}
	return b.Store.Delete(ctx, key, expected)
}

// TestServiceAddressesRepeat: the same services get the same addresses and ports in every run.
func TestServiceAddressesRepeat(t *testing.T) {
	var runs [2][]string
	for i := range runs {
		synctest.Test(t, func(t *testing.T) {
			s := serve(t, memory.New(memory.Options{}), v4, v6)
			var wg sync.WaitGroup
			for n, kind := range []string{"Dual", "Local", "NodePort"} {
				svc := varieties()[kind]
				svc.Name = fmt.Sprintf("s%d", n)
				wg.Go(func() {
					if _, err := s.create(svc, false); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			runs[i] = s.taken()
		})
	}
	if !slices.Equal(runs[0], runs[1]) {
		t.Errorf("one run took %v, another %v", runs[0], runs[1])
	}
}

// TestServicesExhaustPorts: what is said when no port is left.
func TestServicesExhaustPorts(t *testing.T) {
	s := serveRange(t, memory.New(memory.Options{}), allocation.PortRange{First: 30000, Size: 2}, v4)
	if _, err := s.create(withType("health", corev1.ServiceTypeLoadBalancer, local), false); !strings.HasPrefix(fields(err), "failed to allocate a HealthCheck NodePort 0: ") {
		t.Error(fields(err))
	}
	if _, err := s.create(withType("all", corev1.ServiceTypeNodePort), false); err != nil {
		t.Fatal(err)
	}
	if _, err := s.create(withType("more", corev1.ServiceTypeNodePort), false); !strings.HasPrefix(fields(err), "failed to allocate a nodePort: ") {
		t.Error(fields(err))
	}
	s.consistent()
}

// TestServiceFewerFamilies: the families that the cluster does not have go with the endpoints that are managed by hand.
func TestServiceFewerFamilies(t *testing.T) {
	const prefer, require = corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack
	selecting := func(svc *corev1.Service) { svc.Spec.Selector = map[string]string{"a": "b"} }
	byHand := func(svc *corev1.Service) { svc.Spec.Selector = nil }
	for name, tt := range map[string]struct {
		networks         []string
		before, selector func(*corev1.Service)
		policy           corev1.IPFamilyPolicy
		family           corev1.IPFamily
		goes             bool
	}{
		"the cluster's remains": {[]string{v4}, byHand, selecting, prefer, "IPv4", true},
		"the other one remains": {[]string{v4}, byHand, selecting, prefer, "IPv6", false},
		"still by hand":         {[]string{v4}, byHand, byHand, prefer, "IPv4", false},
		"the cluster has both":  {[]string{v4, v6}, byHand, selecting, prefer, "IPv4", false},
		"never by hand":         {[]string{v4, v6}, selecting, selecting, prefer, "IPv4", false},
		"requires both":         {[]string{v4}, byHand, selecting, require, "IPv4", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, memory.New(memory.Options{}), tt.networks...)
			if _, err := s.create(withType("a", corev1.ServiceTypeClusterIP, clusterIPs("None"), tt.before, families(prefer)), false); err != nil {
				t.Fatal(err)
			}
			_, err := s.update("a", func(svc *corev1.Service) {
				tt.selector(svc)
				families(tt.policy, tt.family)(svc)
			}, false)
			want := "<nil>"
			if !tt.goes {
				want = fmt.Sprintf("spec.ipFamilyPolicy: Invalid value: %q: must be 'SingleStack' to release the secondary IP family", tt.policy)
			}
			if fields(err) != want {
				t.Errorf("%s, want %s", fields(err), want)
			}
		})
	}
}
