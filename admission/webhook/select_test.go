package webhook_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/admissionregistration"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

// both runs a request through a mutating and a validating webhook that are alike, and returns how often they were called:
// not at all, or each once.
func both(t *testing.T, w *world, r *admission.Request, h registrationv1.MutatingWebhook) (called bool, err error) {
	t.Helper()
	w.mutate("c", h)
	w.validate("c", h)
	plugins := w.plugins()
	first := plugins.Admit(t.Context(), r)
	n := len(w.calls)
	second := plugins.Validate(t.Context(), r)
	if n != len(w.calls)-n || (first == nil) != (second == nil) || first != nil && first.Error() != second.Error() {
		t.Errorf("mutating: called %d times, %v; validating: %d, %v", n, first, len(w.calls)-n, second)
	}
	return n == 1, first
}

func TestRules(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}
	type rule = registrationv1.RuleWithOperations
	resources := func(resources ...string) func(*rule) { return func(r *rule) { r.Resources = resources } }
	scope := func(s registrationv1.ScopeType) func(*rule) { return func(r *rule) { r.Scope = &s } }
	create := admissiontest.Create(t, pod())
	status := admissiontest.Update(t, pod(), pod(), admissiontest.Subresource("status"))
	for name, test := range map[string]struct {
		request *admission.Request
		change  func(r *rule)
		want    bool
	}{
		"everything":                       {create, func(*rule) {}, true},
		"no operation":                     {create, func(r *rule) { r.Operations = nil }, false},
		"the operation":                    {create, func(r *rule) { r.Operations = []registrationv1.OperationType{"DELETE", "CREATE"} }, true},
		"another operation":                {create, func(r *rule) { r.Operations = []registrationv1.OperationType{"UPDATE", "DELETE", "CONNECT"} }, false},
		"delete":                           {admissiontest.Delete(t, pod()), func(r *rule) { r.Operations = []registrationv1.OperationType{"DELETE"} }, true},
		"the group":                        {create, func(r *rule) { r.APIGroups = []string{"apps", ""} }, true},
		"another group":                    {create, func(r *rule) { r.APIGroups = []string{"apps"} }, false},
		"the version":                      {create, func(r *rule) { r.APIVersions = []string{"v2", "v1"} }, true},
		"another version":                  {create, func(r *rule) { r.APIVersions = []string{"v1beta1"} }, false},
		"the resource":                     {create, resources("nodes", "pods"), true},
		"another resource":                 {create, resources("nodes", "pods/status", "*/status", "po"), false},
		"all resources":                    {create, resources("*"), true},
		"its subresources, too":            {create, resources("pods/*"), true},
		"a subresource of all resources":   {create, resources("*/status"), false},
		"the subresource":                  {status, resources("pods/status"), true},
		"any subresource of it":            {status, resources("pods/*"), true},
		"the subresource of any":           {status, resources("*/status"), true},
		"any subresource of any":           {status, resources("*/*"), true},
		"not the object itself":            {status, resources("pods", "*", "pods/log", "nodes/*"), false},
		"any scope":                        {create, func(r *rule) { r.Scope = nil }, true},
		"namespaced":                       {create, scope(registrationv1.NamespacedScope), true},
		"not cluster-scoped":               {create, scope(registrationv1.ClusterScope), false},
		"unknown scope":                    {create, scope("x"), false},
		"cluster-scoped":                   {admissiontest.Create(t, node), scope(registrationv1.ClusterScope), true},
		"not namespaced":                   {admissiontest.Create(t, node), scope(registrationv1.NamespacedScope), false},
		"a namespace is cluster-scoped":    {admissiontest.Create(t, namespace), scope(registrationv1.ClusterScope), true},
		"a namespace is not in one":        {admissiontest.Create(t, namespace), scope(registrationv1.NamespacedScope), false},
		"nor is its status":                {admissiontest.Update(t, namespace, namespace, admissiontest.Subresource("status")), scope(registrationv1.NamespacedScope), false},
		"another resource named namespace": {admissiontest.Create(t, namespace, func(r *admission.Request) { r.Resource.Group = "x" }), scope(registrationv1.NamespacedScope), true},
	} {
		t.Run(name, func(t *testing.T) {
			h := hook("a")
			test.change(&h.Rules[0])
			r := *test.request
			if called, err := both(t, newWorld(t), &r, h); called != test.want || err != nil {
				t.Errorf("called: %t, %v", called, err)
			}
		})
	}
	t.Run("the second rule", func(t *testing.T) {
		h := hook("a")
		h.Rules = append(h.Rules, h.Rules[0])
		h.Rules[0].APIGroups = []string{"apps"}
		r := *create
		if called, err := both(t, newWorld(t), &r, h); !called || err != nil {
			t.Errorf("called: %t, %v", called, err)
		}
	})
}

func TestNamespaceSelector(t *testing.T) {
	teamA := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	broken := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "x"}}}
	namespace := func(name, team string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}}}
	}
	in := func(namespace string) *corev1.Pod {
		p := pod()
		p.Namespace = namespace
		return p
	}
	live := func(_ context.Context, name string) (*corev1.Namespace, bool, error) {
		if name == "down" {
			return nil, false, errors.New("no connection")
		}
		return namespace(name, "a"), name == "new", nil
	}
	const internal = "Internal error occurred: "
	for name, test := range map[string]struct {
		request  *admission.Request
		selector *metav1.LabelSelector
		want     bool
		refused  string
	}{
		"selected":                      {admissiontest.Create(t, in("ns")), teamA, true, ""},
		"not selected":                  {admissiontest.Create(t, in("other")), teamA, false, ""},
		"no selection":                  {admissiontest.Create(t, in("gone")), &metav1.LabelSelector{}, true, ""},
		"selects nothing":               {admissiontest.Create(t, in("ns")), nil, false, ""},
		"not cached":                    {admissiontest.Create(t, in("new")), teamA, true, ""},
		"missing":                       {admissiontest.Create(t, in("gone")), teamA, false, `namespaces "gone" not found`},
		"unreachable":                   {admissiontest.Create(t, in("down")), teamA, false, internal + "no connection"},
		"broken":                        {admissiontest.Create(t, in("ns")), broken, false, internal + `"x" is not a valid label selector operator`},
		"cluster-scoped":                {admissiontest.Create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}), teamA, true, ""},
		"cluster-scoped, broken":        {admissiontest.Create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}), broken, true, ""},
		"a new namespace":               {admissiontest.Create(t, namespace("more", "a")), teamA, true, ""},
		"a new namespace of others":     {admissiontest.Create(t, namespace("more", "b")), teamA, false, ""},
		"a namespace that changes":      {admissiontest.Update(t, namespace("other", "b"), namespace("other", "a")), teamA, true, ""},
		"a namespace without a name":    {admissiontest.Create(t, namespace("", "a")), teamA, true, ""},
		"another team's, without name":  {admissiontest.Create(t, namespace("", "b")), teamA, false, ""},
		"a namespace that is deleted":   {admissiontest.Delete(t, namespace("ns", "x")), teamA, true, ""},
		"a namespace's status":          {admissiontest.Update(t, namespace("ns", "b"), namespace("ns", "b"), admissiontest.Subresource("status")), teamA, true, ""},
		"a subresource of another kind": {admissiontest.Update(t, in("ns"), in("ns"), admissiontest.Subresource("status")), teamA, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.namespaces["other"] = map[string]string{"team": "b"}
			w.options.Live = live
			called, err := both(t, w, test.request, hook("a", func(h *registrationv1.MutatingWebhook) { h.NamespaceSelector = test.selector }))
			if called != test.want || (err == nil) != (test.refused == "") || err != nil && err.Error() != test.refused {
				t.Errorf("called: %t, %v", called, err)
			}
		})
	}
	t.Run("the cache is authoritative", func(t *testing.T) {
		_, err := both(t, newWorld(t), admissiontest.Create(t, in("new")), hook("a", func(h *registrationv1.MutatingWebhook) { h.NamespaceSelector = teamA }))
		if err == nil || err.Error() != `namespaces "new" not found` || !errors.Is(err, admission.ErrNotFound) {
			t.Error(err)
		}
	})
}

func TestObjectSelector(t *testing.T) {
	x := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	broken := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "x"}}}
	other := labelled(map[string]string{"app": "y"}).(*corev1.Pod)
	const refused = `Internal error occurred: "x" is not a valid label selector operator`
	for name, test := range map[string]struct {
		request  *admission.Request
		selector *metav1.LabelSelector
		change   func(*registrationv1.MutatingWebhook)
		want     bool
		refused  string
	}{
		"selected":                            {admissiontest.Create(t, pod()), x, nil, true, ""},
		"not selected":                        {admissiontest.Create(t, other), x, nil, false, ""},
		"selects nothing":                     {admissiontest.Create(t, pod()), nil, nil, false, ""},
		"the old object":                      {admissiontest.Update(t, pod(), other), x, nil, true, ""},
		"the new object":                      {admissiontest.Update(t, other, pod()), x, nil, true, ""},
		"neither":                             {admissiontest.Update(t, other, other), x, nil, false, ""},
		"deleted":                             {admissiontest.Delete(t, pod()), x, nil, true, ""},
		"without metadata":                    {admissiontest.Create(t, pod(), func(r *admission.Request) { r.Object = &corev1.PodExecOptions{} }), x, nil, false, ""},
		"without metadata, all":               {admissiontest.Create(t, pod(), func(r *admission.Request) { r.Object = &corev1.PodExecOptions{} }), &metav1.LabelSelector{}, nil, true, ""},
		"broken":                              {admissiontest.Create(t, pod()), broken, nil, false, refused},
		"broken, but not its namespace":       {admissiontest.Create(t, pod()), broken, func(h *registrationv1.MutatingWebhook) { h.NamespaceSelector = x }, false, ""},
		"broken namespaces, but not selected": {admissiontest.Create(t, other), x, func(h *registrationv1.MutatingWebhook) { h.NamespaceSelector = broken }, false, ""},
		"both broken":                         {admissiontest.Create(t, other), broken, func(h *registrationv1.MutatingWebhook) { h.NamespaceSelector = broken }, false, refused},
		"broken, but no rule":                 {admissiontest.Create(t, other), broken, func(h *registrationv1.MutatingWebhook) { h.Rules = nil }, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := hook("a", func(h *registrationv1.MutatingWebhook) { h.ObjectSelector = test.selector })
			if test.change != nil {
				test.change(&h)
			}
			called, err := both(t, newWorld(t), test.request, h)
			if called != test.want || (err == nil) != (test.refused == "") || err != nil && err.Error() != test.refused {
				t.Errorf("called: %t, %v", called, err)
			}
		})
	}
}

// TestExempt: no webhook sees configurations of webhooks and policies, nor the reviews of which a configuration that
// names them warns.
func TestExempt(t *testing.T) {
	request := func(group, resource, kind string) *admission.Request {
		return &admission.Request{
			Operation: admission.Create, Name: "x", Object: &authorizationv1.SelfSubjectAccessReview{},
			Kind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}, Resource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource},
		}
	}
	k := registrytest.Find(t, admissionregistration.Kinds(admissionregistration.Options{}), "mutatingwebhookconfigurations")
	warned := func(group, resource string) (is bool) {
		h := hook("a")
		h.Rules[0].APIGroups, h.Rules[0].Resources = []string{group}, []string{resource}
		c := &registrationv1.MutatingWebhookConfiguration{Webhooks: []registrationv1.MutatingWebhook{h}}
		if err := k.Rules.Guard(registry.WithWarnings(t.Context(), func(string) { is = true }), c, c); err != nil {
			t.Fatal(err)
		}
		return is
	}
	for _, group := range []string{"", "authentication.k8s.io", "authorization.k8s.io"} {
		n := 0
		for _, resource := range []string{"selfsubjectreviews", "tokenreviews", "localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews", "others"} {
			called, err := both(t, newWorld(t), request(group, resource, "K"), hook("a"))
			if err != nil || called == warned(group, resource) {
				t.Errorf("%s.%s: called: %t, warned: %t, %v", resource, group, called, warned(group, resource), err)
			}
			if !called {
				n++
			}
		}
		if want := map[string]int{"": 0, "authentication.k8s.io": 2, "authorization.k8s.io": 4}[group]; n != want {
			t.Errorf("%d resources of %q are exempt, want %d", n, group, want)
		}
	}
	for kind, exempt := range map[string]bool{
		"ValidatingWebhookConfiguration": true, "MutatingWebhookConfiguration": true, "ValidatingAdmissionPolicy": true, "ValidatingAdmissionPolicyBinding": true,
		"MutatingAdmissionPolicy": true, "MutatingAdmissionPolicyBinding": true, "Other": false,
	} {
		for group, in := range map[string]bool{"admissionregistration.k8s.io": exempt, "example.com": false} {
			if called, err := both(t, newWorld(t), request(group, "x", kind), hook("a")); err != nil || called == in {
				t.Errorf("%s of %s: called: %t, %v", kind, group, called, err)
			}
		}
	}
}

// TestOrder: configurations are ordered by their names, mutating webhooks called one after the other.
func TestOrder(t *testing.T) {
	w := newWorld(t)
	w.mutate("b", hook("b2"), hook("b1"))
	w.mutate("a", hook("a"))
	w.mutate("c", hook("c"))
	if err := w.run(admissiontest.Create(t, pod())); err != nil || !slices.Equal(w.calls, []string{"a", "b2", "b1", "c"}) {
		t.Errorf("called %q, %v", w.calls, err)
	}
	if w.mutating[0].Name != "b" {
		t.Error("the cache was sorted")
	}
}
