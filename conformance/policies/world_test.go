package policies_test

import (
	"context"
	"testing"
	"time"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	theirs "k8s.io/apiserver/pkg/admission"
	theirmutating "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	theirvalidating "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/discovery"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi/openapitest"

	"github.com/keelson-dev/keelson/admission/policy"
	"github.com/keelson-dev/keelson/admission/policy/cel"
	"github.com/keelson-dev/keelson/apiserver/managedfields"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/apps"
	"github.com/keelson-dev/keelson/registry/core"
)

// list is a cache that is a list.
type list[T any] []T

func (l list[T]) List(string) []T { return l }

// world is what the plugins of both sides see.
type world struct {
	validating         list[*registrationv1.ValidatingAdmissionPolicy]
	validatingBindings list[*registrationv1.ValidatingAdmissionPolicyBinding]
	mutating           list[*registrationv1.MutatingAdmissionPolicy]
	mutatingBindings   list[*registrationv1.MutatingAdmissionPolicyBinding]
	namespaces         []*corev1.Namespace
	params             []*corev1.ConfigMap
	told               told
	stop               chan struct{}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{stop: make(chan struct{})}
	t.Cleanup(func() { close(w.stop) })
	for _, name := range []string{"default", "params"} {
		w.namespaces = append(w.namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}})
		w.params = append(w.params, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "limits", Namespace: name, Labels: map[string]string{"kind": "limits"}}, Data: map[string]string{"max": "3", "app": "a"},
		})
	}
	return w
}

// Get implements policy.Namespaces.
func (w *world) Get(_, name string) (*corev1.Namespace, bool) {
	for _, ns := range w.namespaces {
		if ns.Name == name {
			return ns, true
		}
	}
	return nil, false
}

// configMaps are parameters.
type configMaps []*corev1.ConfigMap

func (configMaps) Namespaced() bool { return true }

func (c configMaps) Get(_ context.Context, namespace, name string) (runtime.Object, error) {
	for _, m := range c {
		if m.Namespace == namespace && m.Name == name {
			return m, nil
		}
	}
	return nil, nil
}

func (c configMaps) List(_ context.Context, namespace string, selected labels.Selector) (out []runtime.Object, _ error) {
	for _, m := range c {
		if m.Namespace == namespace && selected.Matches(labels.Set(m.Labels)) {
			out = append(out, m)
		}
	}
	return out, nil
}

type plugins struct {
	validating *policy.Validating
	mutating   *policy.Mutating
}

// ours returns our plugins.
func (w *world) ours() plugins {
	kinds := map[schema.GroupVersionKind]registry.Kind{}
	for _, k := range append(core.Kinds(core.Options{}), apps.Kinds()...) {
		kinds[k.GroupVersion.WithKind(k.Names.Kind)] = k
	}
	schemas := &managedfields.Schema{}
	o := policy.Options{
		Params: func(kind schema.GroupVersionKind) (policy.Params, bool) {
			return configMaps(w.params), kind == corev1.SchemeGroupVersion.WithKind("ConfigMap")
		},
		Merge: func(kind schema.GroupVersionKind, obj runtime.Object, config map[string]any) (runtime.Object, error) {
			return schemas.Merge(&managedfields.Version{GroupVersionKind: kind, New: func() managedfields.Object { return kinds[kind].New() }}, obj.(managedfields.Object), config)
		},
		Default: func(kind schema.GroupVersionKind, obj runtime.Object) {
			if set := kinds[kind].Rules.Default; set != nil {
				set(obj.(registry.Object))
			}
		},
		Warn:     func(_ context.Context, text string) { w.told.warnings = append(w.told.warnings, text) },
		Annotate: func(_ context.Context, key, value string) { w.told.annotations[key] = value },
	}
	compiler := cel.New(cel.Options{Authorizer: authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, error) {
		if a.Verb == "get" {
			return authz.Decision{Verdict: authz.Allow, Reason: "reads"}, nil
		}
		return authz.Decision{Reason: "no"}, nil
	})})
	return plugins{
		policy.NewValidating(w.validating, w.validatingBindings, w, compiler.Validating, o),
		policy.NewMutating(w.mutating, w.mutatingBindings, w, compiler.Mutating, o),
	}
}

// reads allows reads.
type reads struct{}

func (reads) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetVerb() == "get" {
		return authorizer.DecisionAllow, "reads", nil
	}
	return authorizer.DecisionNoOpinion, "no", nil
}

// client has upstream's published schemas.
type client struct{ *fake.Clientset }

func (c client) Discovery() discovery.DiscoveryInterfaces { return schemas{c.Clientset.Discovery()} }

type schemas struct{ discovery.DiscoveryInterfaces }

// OpenAPIV3 has the schemas of an older version: the random policies set no field that it lacks.
func (schemas) OpenAPIV3() openapi.Client { return openapitest.NewEmbeddedFileClient() }

// plugin is what upstream's plugins have in common.
type plugin interface {
	theirs.Interface
	theirs.InitializationValidator
	SetEnabled(enabled bool)
	WaitForReady() bool
	SetExternalKubeInformerFactory(f informers.SharedInformerFactory)
	SetExternalKubeClientSet(client kubernetes.Interface)
	SetRESTMapper(mapper meta.RESTMapper)
	SetDrainedNotification(stop <-chan struct{})
	SetUnconditionalAuthorizer(authorizer authorizer.UnconditionalAuthorizer)
}

// begin starts one of upstream's plugins, and waits until it knows all policies.
func (w *world) begin(t *testing.T, p plugin, objects ...runtime.Object) {
	t.Helper()
	for _, ns := range w.namespaces {
		objects = append(objects, ns)
	}
	for _, m := range w.params {
		objects = append(objects, m)
	}
	api := client{fake.NewClientset(objects...)}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	factory := informers.NewSharedInformerFactory(api, 0)
	p.SetEnabled(true)
	p.SetDrainedNotification(w.stop)
	p.SetExternalKubeInformerFactory(factory)
	p.SetExternalKubeClientSet(api)
	p.SetRESTMapper(mapper)
	p.SetUnconditionalAuthorizer(reads{})
	if err := p.ValidateInitialization(); err != nil {
		t.Fatal(err)
	}
	factory.Start(w.stop)
	factory.WaitForCacheSync(w.stop)
	for !p.WaitForReady() { // it gives up after ten seconds
	}
}

func (w *world) theirsValidating(t *testing.T) theirs.Interface {
	t.Helper()
	p, err := theirvalidating.NewPlugin(nil)
	if err != nil {
		t.Fatal(err)
	}
	p.SetDynamicClient(dynamicfake.NewSimpleDynamicClient(runtime.NewScheme()))
	var objects []runtime.Object
	for i := range w.validating {
		objects = append(objects, w.validating[i].DeepCopy(), w.validatingBindings[i].DeepCopy())
	}
	w.begin(t, p, objects...)
	return p
}

func (w *world) theirsMutating(t *testing.T) theirs.Interface {
	t.Helper()
	p, err := theirmutating.NewPlugin(nil)
	if err != nil {
		t.Fatal(err)
	}
	p.SetDynamicClient(dynamicfake.NewSimpleDynamicClient(runtime.NewScheme()))
	var objects []runtime.Object
	for i := range w.mutating {
		objects = append(objects, w.mutating[i].DeepCopy(), w.mutatingBindings[i].DeepCopy())
	}
	w.begin(t, p, objects...)
	time.Sleep(2 * time.Second) // upstream does not tell when it has the schemas
	return p
}
