package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/registrytest"
	"github.com/keelson-dev/keelson/storage/memory"
)

// TestDeletesReturningObjects: as upstream, deletes of these kinds return the object, all others a status.
func TestDeletesReturningObjects(t *testing.T) {
	var got []string
	for _, k := range core.Kinds(core.Options{}) {
		if k.Rules.Deletion.ReturnsObject {
			got = append(got, k.Plural)
		}
	}
	if want := []string{"namespaces", "persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates", "resourcequotas", "serviceaccounts", "services"}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// TestPodLevelResources: pod-level resources are completed from the containers', and determine the QoS class.
func TestPodLevelResources(t *testing.T) {
	r := running(t)
	for name, c := range map[string]struct {
		own, container corev1.ResourceList // limits
		requests       string
		class          corev1.PodQOSClass
	}{
		"none":            {class: corev1.PodQOSBestEffort, requests: "none"},
		"of the pod":      {own: corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi")}, requests: "2", class: corev1.PodQOSGuaranteed},
		"of a container":  {container: corev1.ResourceList{"cpu": resource.MustParse("1")}, requests: "none", class: corev1.PodQOSBurstable},
		"of both of them": {own: corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi")}, container: corev1.ResourceList{"cpu": resource.MustParse("1")}, requests: "1", class: corev1.PodQOSBurstable},
	} {
		p := pod(strings.ReplaceAll(name, " ", "-"))
		p.Spec.Containers[0].Resources.Limits = c.container
		if c.own != nil {
			p.Spec.Resources = &corev1.ResourceRequirements{Limits: c.own}
		}
		p = create(t, r, p)
		requests := "none"
		if p.Spec.Resources != nil {
			requests = p.Spec.Resources.Requests.Cpu().String()
		}
		if requests != c.requests || p.Status.QOSClass != c.class {
			t.Errorf("%s: requests %s, class %s", name, requests, p.Status.QOSClass)
		}
	}
}

// TestEvictionUnderSpentBudget: an exhausted budget protects only running pods; a pod that has ended, is being
// deleted or has not started is evicted.
func TestEvictionUnderSpentBudget(t *testing.T) {
	for name, c := range map[string]struct {
		phase corev1.PodPhase
		going bool
		goes  bool
	}{
		"pending": {phase: corev1.PodPending, goes: true}, "running": {phase: corev1.PodRunning}, "unknown": {phase: corev1.PodUnknown},
		"succeeded": {phase: corev1.PodSucceeded, goes: true}, "failed": {phase: corev1.PodFailed, goes: true},
		"going": {phase: corev1.PodRunning, going: true, goes: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := running(t)
			p := podIn(t, r, c.phase, true)
			budget(t, r, "pdb", policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 1, DesiredHealthy: 1, ExpectedPods: 1})
			if c.going {
				if err := r.Access().Delete(t.Context(), podKey("web"), metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := act(t, r, "eviction", "web", evictionOf("web"), false); (err == nil) != c.goes || !c.goes && !errors.Is(err, registry.ErrTooManyRequests) {
				t.Errorf("%s: %v", name, err)
			}
			if now, there := stored(t, r, p); c.goes != (!there || now.DeletionTimestamp != nil) {
				t.Errorf("%s: there %v, %+v", name, there, now)
			}
		})
	}
}

// TestEvictionOfAVersion: after another write, an eviction of a certain version fails at once; one of a UID is
// retried.
func TestEvictionOfAVersion(t *testing.T) {
	evict := registrytest.Find(t, core.Kinds(core.Options{}), "pods").Sub.Actions["eviction"].Run
	for name, c := range map[string]struct {
		conditions func(*corev1.Pod) *metav1.Preconditions
		goes       bool
	}{
		"nothing": {func(*corev1.Pod) *metav1.Preconditions { return &metav1.Preconditions{} }, true},
		"UID":     {func(p *corev1.Pod) *metav1.Preconditions { return &metav1.Preconditions{UID: &p.UID} }, true},
		"version": {func(p *corev1.Pod) *metav1.Preconditions {
			return &metav1.Preconditions{ResourceVersion: &p.ResourceVersion}
		}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := running(t)
			p := podIn(t, r, corev1.PodPending, false)
			e := evictionOf("web")
			e.DeleteOptions = &metav1.DeleteOptions{Preconditions: c.conditions(p)}
			began := time.Now()
			_, err := evict(t.Context(), &racing{r.Access(), t, r, 1}, podKey("web"), e, false)
			if took := time.Since(began); (err == nil) != c.goes || !c.goes && (took != 0 || !errors.Is(err, registry.ErrConflict)) {
				t.Errorf("%s: %v after %v", name, err, took)
			}
			if now, _ := stored(t, r, p); (now.DeletionTimestamp != nil) != c.goes {
				t.Errorf("%s: %+v", name, now)
			}
		})
	}
}

// TestOldServices: a service from before the lists of addresses and families gets them when it is read.
func TestOldServices(t *testing.T) {
	const single, dual = corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyRequireDualStack
	chosen := map[string]string{"app": "web"}
	cluster := corev1.ServiceInternalTrafficPolicyCluster
	for name, c := range map[string]struct {
		networks string
		in       corev1.ServiceSpec
		ips      string
		families string
		policy   corev1.IPFamilyPolicy
	}{
		"v4":                     {networks: v4, in: corev1.ServiceSpec{ClusterIP: "10.96.0.9"}, ips: "10.96.0.9", families: "IPv4", policy: single},
		"v6":                     {networks: v4, in: corev1.ServiceSpec{ClusterIP: "fd00::9"}, ips: "fd00::9", families: "IPv6", policy: single},
		"both":                   {networks: v4, in: corev1.ServiceSpec{ClusterIP: "10.96.0.9", ClusterIPs: []string{"10.96.0.9", "fd00::9"}}, ips: "10.96.0.9 fd00::9", families: "IPv4 IPv6", policy: dual},
		"no address":             {networks: v4, in: corev1.ServiceSpec{}},
		"headless":               {networks: v4, in: corev1.ServiceSpec{ClusterIP: "None", Selector: chosen}, ips: "None", families: "IPv4", policy: single},
		"headless of v6":         {networks: v6 + " " + v4, in: corev1.ServiceSpec{ClusterIP: "None", Selector: chosen}, ips: "None", families: "IPv6", policy: single},
		"headless by hand":       {networks: v4, in: corev1.ServiceSpec{ClusterIP: "None"}, ips: "None", families: "IPv4 IPv6", policy: dual},
		"headless by hand of v6": {networks: v6, in: corev1.ServiceSpec{ClusterIP: "None"}, ips: "None", families: "IPv6 IPv4", policy: dual},
		"headless, no networks":  {in: corev1.ServiceSpec{ClusterIP: "None", Selector: chosen}, ips: "None", families: "IPv4", policy: single},
		"by hand, no networks":   {in: corev1.ServiceSpec{ClusterIP: "None"}, ips: "None", families: "IPv4 IPv6", policy: dual},
		"elsewhere":              {networks: v4, in: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, InternalTrafficPolicy: &cluster}},
		"complete":               {networks: v4, in: corev1.ServiceSpec{ClusterIP: "None", ClusterIPs: []string{"None"}, IPFamilies: []corev1.IPFamily{"IPv6"}}, ips: "None", families: "IPv6"},
	} {
		var networks []netip.Prefix
		for _, network := range strings.Fields(c.networks) {
			networks = append(networks, netip.MustParsePrefix(network))
		}
		k := registrytest.Find(t, core.Kinds(core.Options{Services: core.Services{Networks: networks}}), "services")
		svc := &corev1.Service{Spec: c.in}
		k.Rules.Restore(svc)
		var families []string
		for _, f := range svc.Spec.IPFamilies {
			families = append(families, string(f))
		}
		var policy corev1.IPFamilyPolicy
		if svc.Spec.IPFamilyPolicy != nil {
			policy = *svc.Spec.IPFamilyPolicy
		}
		if strings.Join(svc.Spec.ClusterIPs, " ") != c.ips || strings.Join(families, " ") != c.families || policy != c.policy || svc.Spec.InternalTrafficPolicy != nil {
			t.Errorf("%s: %+v", name, svc.Spec)
		}
	}
}

// crippled is a store that fails to report its revision, or to create addresses.
type crippled struct {
	*memory.Store
	revision, addresses atomic.Bool
}

var errCrippled = errors.New("crippled")

func (c *crippled) Revision(ctx context.Context) (int64, error) {
	if c.revision.Load() {
		return 0, errCrippled
	}
	return c.Store.Revision(ctx)
}

func (c *crippled) Create(ctx context.Context, key string, value []byte) (int64, error) {
	if c.addresses.Load() && strings.HasPrefix(key, "/registry/ipaddresses/") {
		return 0, errCrippled
	}
	return c.Store.Create(ctx, key, value)
}

// TestUnknownAddresses: a service whose addresses cannot be looked up keeps them, whatever its new
// type; one whose addresses cannot be stored is not created, with an internal error.
func TestUnknownAddresses(t *testing.T) {
	for name, change := range map[string]func(*server) error{
		"one family": func(s *server) error {
			_, err := s.update("a", families(corev1.IPFamilyPolicySingleStack), false)
			return err
		},
		"elsewhere": func(s *server) error {
			_, err := s.update("a", func(svc *corev1.Service) {
				svc.Spec = withType("a", corev1.ServiceTypeExternalName).Spec
			}, false)
			return err
		},
		"gone": func(s *server) error {
			_, _, err := s.services.Delete(t.Context(), "ns", "a", registry.DeleteOptions{})
			return err
		},
	} {
		store := &crippled{Store: memory.New(memory.Options{})}
		s := serve(t, store, v4, v6)
		if _, err := s.create(withType("a", corev1.ServiceTypeClusterIP, families(corev1.IPFamilyPolicyRequireDualStack)), false); err != nil {
			t.Fatal(err)
		}
		before := s.taken()
		store.revision.Store(true)
		if err := change(s); !errors.Is(err, errCrippled) {
			t.Errorf("%s: %v", name, err)
		}
		store.revision.Store(false)
		if after := s.taken(); len(after) != 2 || !slices.Equal(after, before) {
			t.Errorf("%s: %v became %v", name, before, after)
		}
		s.consistent()
	}
	for _, ip := range []string{"", "10.96.0.9"} {
		store := &crippled{Store: memory.New(memory.Options{})}
		s := serve(t, store, v4)
		store.addresses.Store(true)
		svc := withType("a", corev1.ServiceTypeClusterIP)
		svc.Spec.ClusterIP = ip
		if _, err := s.create(svc, false); !errors.Is(err, registry.ErrInternal) || !strings.Contains(fmt.Sprint(err), `failed to allocate a serviceIP for Service "a": `) {
			t.Errorf("wanting %q: %v", ip, err)
		}
		if taken := s.taken(); len(taken) != 0 {
			t.Errorf("taken: %v", taken)
		}
	}
}
