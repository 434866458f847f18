package core_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

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

// server is a registry with services that get addresses and ports.
type server struct {
	t        testing.TB
	registry *registry.Registry
	services *registry.Resource
	ports    *allocation.Ports
}

const (
	v4 = "10.96.0.0/16"
	v6 = "fd00::/112"
)

func serve(t testing.TB, store storage.Store, networks ...string) *server {
	t.Helper()
	return serveRange(t, store, allocation.PortRange{First: 30000, Size: 100}, networks...)
}

func serveRange(t testing.TB, store storage.Store, ports allocation.PortRange, networks ...string) *server {
	t.Helper()
	s := &server{t: t}
	var err error
	if s.ports, err = allocation.NewPorts(store, ports); err != nil {
		t.Fatal(err)
	}
	kinds := core.Kinds(core.Options{Services: core.Services{Networks: prefixes(networks...), NodePorts: s.ports}})
	if s.registry, err = registry.New(store, append(kinds, networking.Kinds()...), registry.Options{Identifiers: registry.Seeded(1)}); err != nil {
		t.Fatal(err)
	}
	run(t, s.registry)
	s.services, _ = s.registry.Resource(services())
	_, err = s.registry.Access().Create(t.Context(), cidrs(), networking.Default(prefixes(networks...)))
	if err != nil && !errors.Is(err, registry.ErrExists) {
		t.Fatal(err)
	}
	return s
}

func run(t testing.TB, r *registry.Registry) {
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
	if err := r.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
}

func services() schema.GroupResource { return schema.GroupResource{Resource: "services"} }

func prefixes(networks ...string) []netip.Prefix {
	var prefixes []netip.Prefix
	for _, network := range networks {
		prefixes = append(prefixes, netip.MustParsePrefix(network))
	}
	return prefixes
}

func cidrs() schema.GroupResource {
	return schema.GroupResource{Group: "networking.k8s.io", Resource: "servicecidrs"}
}

func (s *server) create(svc *corev1.Service, dry bool) (*corev1.Service, error) {
	svc = svc.DeepCopy()
	s.services.Rules.Default(svc)
	item, err := s.services.Create(s.t.Context(), svc, registry.CreateOptions{DryRun: dry})
	if err != nil {
		return nil, err
	}
	return item.Object.(*corev1.Service), nil
}

// update applies change to a copy of the service and stores it.
func (s *server) update(name string, change func(*corev1.Service), dry bool) (*corev1.Service, error) {
	item, _, err := s.services.Update(s.t.Context(), "ns", name, func(_ context.Context, current registry.Object) (registry.Object, error) {
		svc := current.DeepCopyObject().(*corev1.Service)
		change(svc)
		s.services.Rules.Default(svc)
		return svc, nil
	}, registry.UpdateOptions{DryRun: dry})
	if err != nil {
		return nil, err
	}
	return item.Object.(*corev1.Service), nil
}

func (s *server) remove(name string) {
	s.t.Helper()
	if _, _, err := s.services.Delete(s.t.Context(), "ns", name, registry.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// taken lists the allocated addresses and ports, addresses with their owners.
func (s *server) taken() []string {
	s.t.Helper()
	list, err := s.registry.Access().List(s.t.Context(), schema.GroupResource{Group: "networking.k8s.io", Resource: "ipaddresses"}, "")
	if err != nil {
		s.t.Fatal(err)
	}
	var taken []string
	for _, obj := range list {
		ip := obj.(*networkingv1.IPAddress)
		taken = append(taken, ip.Spec.ParentRef.Namespace+"/"+ip.Spec.ParentRef.Name+" "+ip.Name)
	}
	ports, err := s.ports.Taken(s.t.Context())
	if err != nil && !errors.Is(err, allocation.ErrNotReady) {
		s.t.Fatal(err)
	}
	for _, port := range ports {
		taken = append(taken, fmt.Sprint(port))
	}
	slices.Sort(taken)
	return taken
}

// used returns what taken should return, given the services.
func (s *server) used() []string {
	s.t.Helper()
	l, err := s.services.List(s.t.Context(), registry.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	used := map[string]bool{}
	for _, item := range l.Items {
		svc := item.Object.(*corev1.Service)
		for _, addr := range allocation.ClusterIPs(svc) {
			used[svc.Namespace+"/"+svc.Name+" "+addr.String()] = true
		}
		for _, port := range allocation.ServicePorts(svc) {
			used[fmt.Sprint(port)] = true
		}
	}
	return slices.Sorted(maps.Keys(used))
}

func (s *server) consistent() {
	s.t.Helper()
	if taken, used := s.taken(), s.used(); !slices.Equal(taken, used) {
		s.t.Errorf("taken %v\nused  %v", taken, used)
	}
}

// withType returns a service of a type with ports, modified by more.
func withType(name string, kind corev1.ServiceType, more ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: corev1.ServiceSpec{
			Type: kind, Selector: map[string]string{"a": "b"},
			Ports: []corev1.ServicePort{{Name: "p", Port: 80}, {Name: "q", Port: 81}},
		},
	}
	if kind == corev1.ServiceTypeExternalName {
		svc.Spec.ExternalName, svc.Spec.Ports = "example.com", nil
	}
	for _, f := range more {
		f(svc)
	}
	return svc
}

func families(policy corev1.IPFamilyPolicy, list ...corev1.IPFamily) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.IPFamilyPolicy, svc.Spec.IPFamilies = &policy, list }
}

func clusterIPs(ips ...string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.ClusterIP, svc.Spec.ClusterIPs = ips[0], ips }
}

func local(svc *corev1.Service) {
	svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

// shape summarizes what a service got: families of addresses and the number of node ports.
func shape(svc *corev1.Service) string {
	var parts []string
	for i, ip := range svc.Spec.ClusterIPs {
		addr, err := netip.ParseAddr(ip)
		switch {
		case err != nil:
			parts = append(parts, ip)
		case addr.Is4():
			parts = append(parts, "v4")
		default:
			parts = append(parts, "v6")
		}
		if i == 0 && svc.Spec.ClusterIP != ip {
			parts = append(parts, "but clusterIP "+svc.Spec.ClusterIP)
		}
	}
	seen := map[int32]bool{}
	for _, p := range svc.Spec.Ports {
		if p.NodePort != 0 {
			seen[p.NodePort] = true
		}
	}
	if len(seen) > 0 {
		parts = append(parts, fmt.Sprintf("%d ports", len(seen)))
	}
	if svc.Spec.HealthCheckNodePort != 0 {
		parts = append(parts, "health")
	}
	if f := svc.Spec.IPFamilies; len(f) > 0 {
		parts = append(parts, fmt.Sprint(f))
	}
	return strings.Join(parts, " ")
}

func fields(err error) string {
	var e *registry.Error
	if !errors.As(err, &e) {
		return fmt.Sprint(err)
	}
	if len(e.Fields) > 0 {
		return e.Fields.ToAggregate().Error()
	}
	return e.Message
}

func TestServiceCreateAllocates(t *testing.T) {
	const (
		single, prefer, require = corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack
		cluster, node           = corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort
		balancer, external      = corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName
	)
	noSelector := func(svc *corev1.Service) { svc.Spec.Selector = nil }
	noPorts := func(svc *corev1.Service) { svc.Spec.AllocateLoadBalancerNodePorts = new(false) }
	asked := func(ports ...int32) func(*corev1.Service) {
		return func(svc *corev1.Service) {
			for i, port := range ports {
				svc.Spec.Ports[i].NodePort = port
			}
		}
	}
	shared := func(svc *corev1.Service) {
		svc.Spec.Ports = []corev1.ServicePort{{Name: "t", Port: 53, Protocol: "TCP"}, {Name: "u", Port: 53, Protocol: "UDP"}}
	}
	cases := []struct {
		name     string
		networks []string
		svc      *corev1.Service
		want     string // what it got, or the error
	}{
		{"default", []string{v4}, withType("a", cluster), "v4 [IPv4]"},
		{"default of IPv6", []string{v6}, withType("a", cluster), "v6 [IPv6]"},
		{"default of two", []string{v4, v6}, withType("a", cluster), "v4 [IPv4]"},
		{"default of two, IPv6 first", []string{v6, v4}, withType("a", cluster), "v6 [IPv6]"},
		{"headless", []string{v4}, withType("a", cluster, clusterIPs("None")), "None [IPv4]"},
		{"headless without selector", []string{v4}, withType("a", cluster, clusterIPs("None"), noSelector), "None [IPv4 IPv6]"},
		{"headless of two", []string{v4, v6}, withType("a", cluster, clusterIPs("None"), families(prefer)), "None [IPv4 IPv6]"},
		{"other name", []string{v4}, withType("a", external), ""},
		{"prefers two, has one", []string{v4}, withType("a", cluster, families(prefer)), "v4 [IPv4]"},
		{"prefers two", []string{v4, v6}, withType("a", cluster, families(prefer)), "v4 v6 [IPv4 IPv6]"},
		{"requires two", []string{v4, v6}, withType("a", cluster, families(require)), "v4 v6 [IPv4 IPv6]"},
		{"requires two, IPv6 first", []string{v4, v6}, withType("a", cluster, families(require, "IPv6")), "v6 v4 [IPv6 IPv4]"},
		{"requires two, has one", []string{v4}, withType("a", cluster, families(require)),
			`spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services`},
		{"the second family", []string{v4, v6}, withType("a", cluster, families(single, "IPv6")), "v6 [IPv6]"},
		{"no such family", []string{v4}, withType("a", cluster, families(single, "IPv6")),
			`spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster`},
		{"no family of the IP", []string{v4}, withType("a", cluster, clusterIPs("fd00::9")),
			`spec.clusterIPs[0]: Invalid value: ["fd00::9"]: IPv6 is not configured on this cluster`},
		{"family of the IP", []string{v4, v6}, withType("a", cluster, clusterIPs("fd00::9")), "v6 [IPv6]"},
		{"both IPs", []string{v4, v6}, withType("a", cluster, clusterIPs("10.96.0.9", "fd00::9"), families(prefer)), "v4 v6 [IPv4 IPv6]"},
		{"one of two IPs", []string{v4, v6}, withType("a", cluster, clusterIPs("10.96.0.9"), families(require)), "v4 v6 [IPv4 IPv6]"},
		{"out of range", []string{v4}, withType("a", cluster, clusterIPs("10.97.0.1")),
			`spec.clusterIPs: Invalid value: ["10.97.0.1"]: failed to allocate IP 10.97.0.1: the provided network does not match the current range`},
		{"the network itself", []string{v4}, withType("a", cluster, clusterIPs("10.96.0.0")),
			`spec.clusterIPs: Invalid value: ["10.96.0.0"]: failed to allocate IP 10.96.0.0: the provided network does not match the current range`},
		{"broadcast", []string{v4}, withType("a", cluster, clusterIPs("10.96.255.255")),
			`spec.clusterIPs: Invalid value: ["10.96.255.255"]: failed to allocate IP 10.96.255.255: the provided network does not match the current range`},
		{"node ports", []string{v4}, withType("a", node), "v4 2 ports [IPv4]"},
		{"one node port for two protocols", []string{v4}, withType("a", node, shared), "v4 1 ports [IPv4]"},
		{"one node port, asked for once", []string{v4}, withType("a", node, shared, asked(0, 30007)), "v4 1 ports [IPv4]"},
		{"two for two protocols", []string{v4}, withType("a", node, shared, asked(30008, 30007)), "v4 2 ports [IPv4]"},
		{"certain node ports", []string{v4}, withType("a", node, asked(30007)), "v4 2 ports [IPv4]"},
		{"node port out of range", []string{v4}, withType("a", node, asked(30007, 80)),
			`spec.ports[1].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-30099`},
		{"one node port for two ports", []string{v4}, withType("a", node, asked(30007, 30007)),
			`spec.ports[1].nodePort: Invalid value: 30007: provided port is already allocated`},
		{"balanced", []string{v4}, withType("a", balancer), "v4 2 ports [IPv4]"},
		{"balanced, local", []string{v4}, withType("a", balancer, local), "v4 2 ports health [IPv4]"},
		{"balanced without node ports", []string{v4}, withType("a", balancer, noPorts), "v4 [IPv4]"},
		{"balanced with one node port", []string{v4}, withType("a", balancer, noPorts, asked(30007)), "v4 1 ports [IPv4]"},
		{"health port out of range", []string{v4}, withType("a", balancer, local, func(svc *corev1.Service) { svc.Spec.HealthCheckNodePort = 80 }),
			"failed to allocate requested HealthCheck NodePort 80: provided port is not in the valid range. The range of valid ports is 30000-30099"},
		{"unknown type", []string{v4}, withType("a", "Frob"),
			`spec.type: Unsupported value: "Frob": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, memory.New(memory.Options{}), c.networks...)
			dry, dryErr := s.create(c.svc, true)
			if taken := s.taken(); len(taken) > 0 {
				t.Errorf("a dry run took %v", taken)
			}
			svc, err := s.create(c.svc, false)
			if err != nil {
				if fields(err) != c.want {
					t.Errorf("refused with\n\t%v\nwant\n\t%s", fields(err), c.want)
				}
			} else if got := shape(svc); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			} else if dryErr != nil || shape(dry) != c.want {
				t.Errorf("dry run: %v, %v", dry, dryErr)
			}
			s.consistent()
			if err == nil {
				s.remove("a")
			}
			if taken := s.taken(); len(taken) > 0 {
				t.Errorf("still taken: %v", taken)
			}
		})
	}
}

func registryCIDR(name, network string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{network}}}
}
