package registry_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	discoveryv1beta1 "k8s.io/api/discovery/v1beta1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/google/go-cmp/cmp"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/discovery"
	"github.com/keelson-dev/keelson/registry/networking"
	"github.com/keelson-dev/keelson/registry/policy"
	"github.com/keelson-dev/keelson/registry/registrytest"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// TestOneVersion: objects of a resource that is stored as it is served are converted neither one by one nor together.
func TestOneVersion(t *testing.T) {
	r, obj := &registry.Resource{}, &corev1.ConfigMap{}
	if got, err := r.FromStored(t.Context(), obj); got != registry.Object(obj) || err != nil || r.Batched() != nil || r.ShowsVersion() {
		t.Errorf("%v, %v", got, err)
	}
}

// TestOlder reads objects that earlier servers stored.
func TestOlder(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "n", Name: "x"}
	prefix := networkingv1.PathTypeImplementationSpecific
	for name, test := range map[string]struct {
		kinds []registry.Kind
		key   string
		gvk   schema.GroupVersionKind
		old   runtime.Object
		want  registry.Object
	}{
		"ingress": {networking.Kinds(), "ingress/n/x", networkingv1beta1.SchemeGroupVersion.WithKind("Ingress"),
			&networkingv1beta1.Ingress{ObjectMeta: meta, Spec: networkingv1beta1.IngressSpec{
				Backend: &networkingv1beta1.IngressBackend{ServiceName: "s", ServicePort: intstr.FromInt32(80)},
				Rules: []networkingv1beta1.IngressRule{{Host: "h", IngressRuleValue: networkingv1beta1.IngressRuleValue{HTTP: &networkingv1beta1.HTTPIngressRuleValue{
					Paths: []networkingv1beta1.HTTPIngressPath{{Path: "/", Backend: networkingv1beta1.IngressBackend{ServiceName: "s", ServicePort: intstr.FromString("web")}}},
				}}}},
			}},
			&networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{
				DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "s", Port: networkingv1.ServiceBackendPort{Number: 80}}},
				Rules: []networkingv1.IngressRule{{Host: "h", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
					Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: &prefix, Backend: networkingv1.IngressBackend{
						Service: &networkingv1.IngressServiceBackend{Name: "s", Port: networkingv1.ServiceBackendPort{Name: "web"}}}}},
				}}}},
			}}},
		"slice": {discovery.Kinds(), "endpointslices/n/x", discoveryv1beta1.SchemeGroupVersion.WithKind("EndpointSlice"),
			&discoveryv1beta1.EndpointSlice{ObjectMeta: meta, AddressType: "IPv4", Endpoints: []discoveryv1beta1.Endpoint{{
				Addresses: []string{"10.0.0.1"}, NodeName: new("a"),
				Topology: map[string]string{corev1.LabelTopologyZone: "z", corev1.LabelHostname: "a", "other": "o"},
			}}},
			&discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: "IPv4", Endpoints: []discoveryv1.Endpoint{{
				Addresses: []string{"10.0.0.1"}, NodeName: new("a"), Zone: new("z"), DeprecatedTopology: map[string]string{"other": "o"},
			}}}},
		"budget": {policy.Kinds(), "poddisruptionbudgets/n/x", policyv1beta1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
			&policyv1beta1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1beta1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}}},
			&policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match", Operator: "Exists"}},
			}}}},
		"event": {core.Kinds(core.Options{}), "events/n/x", eventsv1.SchemeGroupVersion.WithKind("Event"),
			&eventsv1.Event{ObjectMeta: meta, Note: "note", Regarding: corev1.ObjectReference{Name: "p"}},
			&corev1.Event{ObjectMeta: meta, Message: "note", InvolvedObject: corev1.ObjectReference{Name: "p"}}},
		"service": {core.Kinds(core.Options{}), "services/specs/n/x", corev1.SchemeGroupVersion.WithKind("Service"),
			&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{ClusterIP: "fd00::1"}},
			&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
				ClusterIP: "fd00::1", ClusterIPs: []string{"fd00::1"}, IPFamilies: []corev1.IPFamily{"IPv6"}, IPFamilyPolicy: new(corev1.IPFamilyPolicySingleStack),
				Type: "ClusterIP", SessionAffinity: "None", InternalTrafficPolicy: new(corev1.ServiceInternalTrafficPolicyCluster),
			}}},
	} {
		for form, encode := range map[string]func(schema.GroupVersionKind, runtime.Object) ([]byte, error){"protobuf": codec.Protobuf, "JSON": codec.JSON} {
			t.Run(name+" in "+form, func(t *testing.T) {
				store := memory.New(memory.Options{})
				value, err := encode(test.gvk, test.old)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := store.Create(t.Context(), registry.Root+test.key, value); err != nil {
					t.Fatal(err)
				}
				r := startRegistry(t, store, test.kinds)
				for _, res := range r.Resources() {
					if !res.Stored() || res.Len() == 0 {
						continue
					}
					item, err := res.Get(t.Context(), "n", "x", "")
					if err != nil {
						t.Fatal(err)
					}
					got := item.Object.DeepCopyObject().(registry.Object)
					got.SetResourceVersion("")
					if diff := cmp.Diff(test.want, got); diff != "" {
						t.Error(diff)
					}
					return
				}
				t.Error("it does not exist")
			})
		}
	}
}

// TestWritten: objects can be stored in an older version, under which they are found again, and are not written anew for it.
func TestWritten(t *testing.T) {
	k := registrytest.Find(t, policy.Kinds(), "poddisruptionbudgets")
	k.Older[0].Written = true
	k.Older[0].ToStored = func(obj runtime.Object) registry.Object {
		old := obj.(*policyv1beta1.PodDisruptionBudget)
		return &policyv1.PodDisruptionBudget{ObjectMeta: old.ObjectMeta, Status: policyv1.PodDisruptionBudgetStatus(old.Status)}
	}
	store := memory.New(memory.Options{})
	r := startRegistry(t, store, []registry.Kind{k})
	res, _ := r.Resource(k.GroupResource())
	made, err := res.Create(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "x"}}, registry.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := store.Get(t.Context(), registry.Root+"poddisruptionbudgets/n/x")
	if err != nil {
		t.Fatal(err)
	}
	if gvk, err := codec.Type(rec.Value); err != nil || gvk != policyv1beta1.SchemeGroupVersion.WithKind("PodDisruptionBudget") || res.StoredAs() != gvk {
		t.Errorf("stored as %v, %v", gvk, err)
	}
	same := func(_ context.Context, current registry.Object) (registry.Object, error) {
		return current.DeepCopyObject().(registry.Object), nil
	}
	if item, _, err := res.Update(t.Context(), "n", "x", same, registry.UpdateOptions{}); err != nil || item.Revision != made.Revision {
		t.Errorf("an update without effect: %v, %v", item, err)
	}
	again := startRegistry(t, store, []registry.Kind{k})
	res, _ = again.Resource(k.GroupResource())
	item, err := res.Get(t.Context(), "n", "x", "")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(made.Object, item.Object); diff != "" {
		t.Error(diff)
	}
}

// startRegistry runs a registry until the test ends.
func startRegistry(t *testing.T, store storage.Store, kinds []registry.Kind) *registry.Registry {
	t.Helper()
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
