package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/api/extensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/webhook"
)

// label is a reply that sets a label.
func label(key, value string) reply {
	return patches(`[{"op":"add","path":"/metadata/labels/%s","value":%q}]`, key, value)
}

func TestPatch(t *testing.T) {
	w := newWorld(t)
	w.mutate("c", hook("a"), hook("b"))
	w.replies["a"], w.replies["b"] = label("a", "1"), patches(`[{"op":"replace","path":"/metadata/labels/a","value":"2"},{"op":"add","path":"/spec/nodeName","value":"n"}]`)
	var defaulted []runtime.Object
	w.options.Default = func(kind schema.GroupVersionKind, obj runtime.Object) {
		if kind.Kind != "Pod" {
			t.Errorf("default %v", kind)
		}
		obj.(*corev1.Pod).Spec.SchedulerName = "s"
		defaulted = append(defaulted, obj)
	}
	given := pod()
	r := admissiontest.Create(t, given)
	if err := w.run(r); err != nil {
		t.Fatal(err)
	}
	got := r.Object.(*corev1.Pod)
	if got.Labels["a"] != "2" || got.Labels["app"] != "x" || got.Spec.NodeName != "n" || got.Spec.SchedulerName != "s" || got.Kind != "" || got.APIVersion != "" || len(defaulted) != 2 {
		t.Errorf("got %+v, defaulted %d times", got, len(defaulted))
	}
	if len(given.Labels) != 1 || !strings.Contains(w.reviews[1], `"labels":{"a":"1","app":"x"}`) || !strings.Contains(w.reviews[1], `"schedulerName":"s"`) {
		t.Errorf("the second webhook got %s; given was %v", w.reviews[1], given.Labels)
	}
	patch := func(index int, name, patch string) webhook.Annotation {
		return webhook.Annotation{Key: fmt.Sprintf("patch.webhook.admission.k8s.io/round_0_index_%d", index), Content: true,
			Value: fmt.Sprintf(`{"configuration":"c","webhook":%q,"patch":%s,"patchType":"JSONPatch"}`, name, patch)}
	}
	mutated := func(index int, name string) webhook.Annotation {
		return webhook.Annotation{Key: fmt.Sprintf("mutation.webhook.admission.k8s.io/round_0_index_%d", index), Value: fmt.Sprintf(`{"configuration":"c","webhook":%q,"mutated":true}`, name)}
	}
	want := []webhook.Annotation{
		patch(0, "a.example.com", `[{"op":"add","path":"/metadata/labels/a","value":"1"}]`), mutated(0, "a.example.com"),
		patch(1, "b.example.com", `[{"op":"replace","path":"/metadata/labels/a","value":"2"},{"op":"add","path":"/spec/nodeName","value":"n"}]`), mutated(1, "b.example.com"),
	}
	if !slices.Equal(w.annotations, want) {
		t.Errorf("annotated\n%v\nwant\n%v", w.annotations, want)
	}
}

// TestPatches: patches that change nothing, and those that cannot be applied.
func TestPatches(t *testing.T) {
	patch := func(patch string, kind *admissionv1.PatchType) reply {
		return says(admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(patch), PatchType: kind})
	}
	known := new(admissionv1.PatchTypeJSONPatch)
	create, remove := admissiontest.Create(t, pod()), admissiontest.Delete(t, pod())
	const failed = `Internal error occurred: failed calling webhook "a.example.com": `
	for name, test := range map[string]struct {
		request *admission.Request
		reply   reply
		beta    bool
		refused string
		ignored bool   // by the policy Ignore
		labels  string // of the pod afterwards
	}{
		"nothing":               {create, patch("[]", known), false, "", false, "app=x"},
		"nothing for a deleted": {remove, patch("[]", known), false, "", false, ""},
		"the same":              {create, label("app", "x"), false, "", false, "app=x"},
		"a change":              {create, label("app", "y"), false, "", false, "app=y"},
		"to a deleted": {remove, label("app", "y"), false,
			`Internal error occurred: admission webhook "a.example.com" attempted to modify the object, which is not supported for this operation`, false, ""},
		"garbage": {create, patch("garbage", known), false,
			failed + "received undecodable patch in webhook response: invalid character 'g' looking for beginning of value", true, "app=x"},
		"another type":         {create, patch(`[{"op":"remove","path":"/metadata/labels"}]`, new(admissionv1.PatchType("Merge"))), false, failed + `unsupported patch type "Merge"`, true, "app=x"},
		"no type in v1beta1":   {create, patch(`[{"op":"remove","path":"/metadata/labels"}]`, nil), true, "", false, ""},
		"any type in v1beta1":  {create, patch(`[{"op":"remove","path":"/metadata/labels"}]`, new(admissionv1.PatchType("Merge"))), true, "", false, ""},
		"does not fit":         {create, patches(`[{"op":"remove","path":"/spec/x/y"}]`), false, "Internal error occurred: remove operation does not apply: doc is missing path: \"/spec/x/y\": missing value", false, "app=x"},
		"an invalid object":    {create, patches(`[{"op":"replace","path":"/spec","value":1}]`), false, "Internal error occurred: json: cannot unmarshal number into Go struct field Pod.spec of type v1.PodSpec", false, "app=x"},
		"another kind":         {create, patches(`[{"op":"replace","path":"/kind","value":"Node"}]`), false, "Internal error occurred: the patch turns /v1, Kind=Pod into /v1, Kind=Node", false, "app=x"},
		"not an object at all": {create, patches(`[{"op":"replace","path":"","value":[]}]`), false, "Internal error occurred: json: cannot unmarshal array into Go value of type v1.Pod", false, "app=x"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, change := range []func(*registrationv1.MutatingWebhook){func(*registrationv1.MutatingWebhook) {}, ignore} {
				h := hook("a", change)
				if test.beta {
					beta(&h)
				}
				want := test.refused
				if test.ignored && *h.FailurePolicy == registrationv1.Ignore {
					want = ""
				}
				w := newWorld(t)
				w.mutate("c", h)
				w.replies["a"] = test.reply
				r := *test.request
				err := w.run(&r)
				if (err == nil) != (want == "") || err != nil && err.Error() != want {
					t.Errorf("%v\nwant %s", err, want)
				}
				p, ok := r.Object.(*corev1.Pod)
				if ok && labelsOf(p) != test.labels {
					t.Errorf("labels %q", labelsOf(p))
				}
				mutated := ok && labelsOf(p) != "app=x"
				if last := w.annotations[len(w.annotations)-1].Value; !strings.HasPrefix(last, "a.") && !strings.HasSuffix(last, fmt.Sprintf(`"mutated":%t}`, mutated)) {
					t.Errorf("annotated %v", w.annotations)
				}
			}
		})
	}
}

func labelsOf(p *corev1.Pod) string {
	var out []string
	for k, v := range p.Labels {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

// TestUnstructured: objects may name their type themselves.
func TestUnstructured(t *testing.T) {
	w := newWorld(t)
	w.mutate("c", hook("a"))
	w.replies["a"] = label("a", "1")
	cart := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Cart", "metadata": map[string]any{"name": "c", "labels": map[string]any{}}}}
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Cart"}
	r := &admission.Request{Operation: admission.Create, Kind: gvk, Resource: gvk.GroupVersion().WithResource("carts"), Name: "c", Object: cart}
	if err := w.run(r); err != nil {
		t.Fatal(err)
	}
	got := r.Object.(*unstructured.Unstructured)
	if got.GetLabels()["a"] != "1" || got.GroupVersionKind() != gvk || !strings.Contains(w.reviews[0], `"object":{"apiVersion":"example.com/v1","kind":"Cart","metadata":{"labels":{},"name":"c"}}`) {
		t.Errorf("got %v; the webhook %s", got.Object, w.reviews[0])
	}
}

// deployments returns both versions of deployments, the stored one first.
func deployments(stored schema.GroupVersionResource, subresource string) []webhook.Version {
	if stored.Resource != "deployments" || subresource != "" {
		return nil
	}
	older := v1beta1.SchemeGroupVersion
	return []webhook.Version{
		{Kind: appsv1.SchemeGroupVersion.WithKind("Deployment"), Resource: stored},
		{Kind: older.WithKind("Deployment"), Resource: older.WithResource("deployments"),
			FromStored: func(obj runtime.Object) (runtime.Object, error) {
				if obj.(*appsv1.Deployment).Name == "bad" {
					return nil, errors.New("no form in v1beta1")
				}
				return &v1beta1.Deployment{ObjectMeta: *obj.(*appsv1.Deployment).ObjectMeta.DeepCopy()}, nil
			},
			ToStored: func(obj runtime.Object) (runtime.Object, error) {
				if obj.(*v1beta1.Deployment).Labels["bad"] != "" {
					return nil, errors.New("no form in v1")
				}
				return &appsv1.Deployment{ObjectMeta: *obj.(*v1beta1.Deployment).ObjectMeta.DeepCopy()}, nil
			}},
	}
}

// TestVersions: a webhook gets the version that the client used or, if it wants equivalents, one that its rules name.
func TestVersions(t *testing.T) {
	deployment := func(name string) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "x"}}}
	}
	stored := admissiontest.Update(t, deployment("d"), deployment("d"))
	older := func(r *admission.Request) {
		r.RequestedKind = v1beta1.SchemeGroupVersion.WithKind("Deployment")
		r.RequestedResource = v1beta1.SchemeGroupVersion.WithResource("deployments")
	}
	exact := func(h *registrationv1.MutatingWebhook) { h.MatchPolicy = new(registrationv1.Exact) }
	unset := func(h *registrationv1.MutatingWebhook) { h.MatchPolicy = nil }
	group := func(group string) func(*registrationv1.MutatingWebhook) {
		return func(h *registrationv1.MutatingWebhook) { h.Rules[0].APIGroups = []string{group} }
	}
	const apps, extensions = `{"group":"apps","version":"v1","kind":"Deployment"}`, `{"group":"extensions","version":"v1beta1","kind":"Deployment"}`
	for name, test := range map[string]struct {
		request *admission.Request
		hook    registrationv1.MutatingWebhook
		asked   string // the client's kind
		got     string // the webhook's kind, or "" if it is not called
		refused string
	}{
		"the stored one":                       {stored, hook("a", group("apps")), apps, apps, ""},
		"an equivalent":                        {stored, hook("a", group("extensions")), apps, extensions, ""},
		"exactly the stored one":               {stored, hook("a", group("apps"), exact), apps, apps, ""},
		"no equivalent":                        {stored, hook("a", group("extensions"), exact), apps, "", ""},
		"no policy":                            {stored, hook("a", group("extensions"), unset), apps, "", ""},
		"neither":                              {stored, hook("a", group("batch")), apps, "", ""},
		"the client's":                         {admissiontest.Update(t, deployment("d"), deployment("d"), older), hook("a", group("extensions")), extensions, extensions, ""},
		"exactly the client's":                 {admissiontest.Update(t, deployment("d"), deployment("d"), older), hook("a", group("extensions"), exact), extensions, extensions, ""},
		"not the client's":                     {admissiontest.Update(t, deployment("d"), deployment("d"), older), hook("a", group("apps"), exact), extensions, "", ""},
		"the stored one for the client's":      {admissiontest.Update(t, deployment("d"), deployment("d"), older), hook("a", group("apps")), extensions, apps, ""},
		"the client's before others":           {admissiontest.Update(t, deployment("d"), deployment("d"), older), hook("a"), extensions, extensions, ""},
		"cannot be converted":                  {admissiontest.Update(t, deployment("bad"), deployment("d")), hook("a", group("extensions")), apps, "", "Internal error occurred: no form in v1beta1"},
		"the old one cannot":                   {admissiontest.Update(t, deployment("d"), deployment("bad")), hook("a", group("extensions")), apps, "", "Internal error occurred: no form in v1beta1"},
		"not selected, so need not":            {admissiontest.Update(t, deployment("bad"), deployment("d")), hook("a", group("apps")), apps, apps, ""},
		"a subresource without other versions": {admissiontest.Update(t, deployment("d"), deployment("d"), older, admissiontest.Subresource("x")), hook("a"), extensions, "", "Internal error occurred: unable to convert to extensions/v1beta1, Resource=deployments: unknown kind"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.options.Versions = deployments
			called, err := both(t, w, test.request, test.hook)
			if called != (test.got != "") || (err == nil) != (test.refused == "") || err != nil && err.Error() != test.refused {
				t.Fatalf("called: %t, %v", called, err)
			}
			for _, got := range w.reviews {
				if !strings.Contains(got, `"requestKind":`+test.asked) || !strings.Contains(got, `"kind":`+test.got) {
					t.Errorf("got %s", got)
				}
				var review admissionv1.AdmissionReview
				if err := json.Unmarshal([]byte(got), &review); err != nil {
					t.Fatal(err)
				}
				api := schema.GroupVersion{Group: review.Request.Kind.Group, Version: review.Request.Kind.Version}.String()
				for _, obj := range []runtime.RawExtension{review.Request.Object, review.Request.OldObject} {
					if !strings.HasPrefix(string(obj.Raw), fmt.Sprintf(`{"kind":"Deployment","apiVersion":%q,"metadata"`, api)) {
						t.Errorf("object %s", obj.Raw)
					}
				}
				if review.Request.Resource.Group != review.Request.Kind.Group || review.Request.RequestResource.Group != review.Request.RequestKind.Group {
					t.Errorf("resource %v, requested %v", review.Request.Resource, review.Request.RequestResource)
				}
			}
		})
	}
	t.Run("a patch in another version", func(t *testing.T) {
		w := newWorld(t)
		w.options.Versions = deployments
		w.mutate("c", hook("a", group("extensions")), hook("b", group("apps")))
		w.replies["a"], w.replies["b"] = label("a", "1"), label("b", "2")
		r := admissiontest.Create(t, deployment("d"))
		if err := w.run(r); err != nil {
			t.Fatal(err)
		}
		if got, ok := r.Object.(*appsv1.Deployment); !ok || got.Labels["a"] != "1" || got.Labels["b"] != "2" || got.Labels["app"] != "x" {
			t.Errorf("got %+v", r.Object)
		}
		w.replies["a"] = label("bad", "1")
		if err := w.run(admissiontest.Create(t, deployment("d"))); err == nil || err.Error() != "Internal error occurred: no form in v1" {
			t.Error(err)
		}
	})
	t.Run("the kind of a subresource", func(t *testing.T) {
		w := newWorld(t)
		w.options.Versions = func(stored schema.GroupVersionResource, _ string) []webhook.Version {
			return []webhook.Version{{Kind: schema.GroupVersionKind{Kind: "Other"}, Resource: stored}}
		}
		if called, err := both(t, w, admissiontest.Create(t, pod(), admissiontest.Subresource("x")), hook("a")); !called || err != nil || !strings.Contains(w.reviews[0], `"version":"v1","kind":"Pod"`) {
			t.Errorf("called %t, %v: %s", called, err, w.reviews)
		}
	})
	t.Run("validating webhooks of several versions", func(t *testing.T) {
		w := newWorld(t)
		conversions := 0
		w.options.Versions = func(stored schema.GroupVersionResource, subresource string) []webhook.Version {
			all := deployments(stored, subresource)
			convert := all[1].FromStored
			all[1].FromStored = func(obj runtime.Object) (runtime.Object, error) { conversions++; return convert(obj) }
			return all
		}
		w.validate("c", hook("a", group("extensions")), hook("b", group("apps")), hook("c", group("extensions")))
		if err := w.run(admissiontest.Create(t, deployment("d"))); err != nil || len(w.calls) != 3 || conversions != 1 {
			t.Fatal(w.calls, conversions, err)
		}
		for i, name := range w.calls {
			want := map[string]string{"a": `"apiVersion":"extensions/v1beta1"`, "b": `"apiVersion":"apps/v1"`, "c": `"apiVersion":"extensions/v1beta1"`}[name]
			if !strings.Contains(w.reviews[i], want) {
				t.Errorf("%s got %s", name, w.reviews[i])
			}
		}
	})
}

// TestReinvocation: which webhooks are called in a second round.
func TestReinvocation(t *testing.T) {
	plugin := func(key string) admission.Plugin { // another mutator, which sets a label to the number of its calls
		return admission.MutatorFunc("Other", func(_ context.Context, r *admission.Request) error {
			p := r.Object.(*corev1.Pod)
			p.Labels[key] += "i"
			return nil
		}, admission.Create)
	}
	selects := func(key, value string) func(*registrationv1.MutatingWebhook) {
		return func(h *registrationv1.MutatingWebhook) {
			h.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
		}
	}
	for name, test := range map[string]struct {
		hooks   []registrationv1.MutatingWebhook
		replies map[string]reply
		others  []admission.Plugin
		calls   []string
	}{
		"nothing changes": {[]registrationv1.MutatingWebhook{hook("a", ifNeeded), hook("b", ifNeeded)}, nil, nil, []string{"a", "b"}},
		"a later one changes": {[]registrationv1.MutatingWebhook{hook("a", ifNeeded), hook("b")},
			map[string]reply{"b": label("b", "1")}, nil, []string{"a", "b", "a"}},
		"a later one patches without a change": {[]registrationv1.MutatingWebhook{hook("a", ifNeeded), hook("b")},
			map[string]reply{"b": label("app", "x")}, nil, []string{"a", "b"}},
		"none wants to be": {[]registrationv1.MutatingWebhook{hook("a"), hook("b")},
			map[string]reply{"a": label("a", "1"), "b": label("b", "1")}, nil, []string{"a", "b"}},
		"its own change does not count": {[]registrationv1.MutatingWebhook{hook("a"), hook("b", ifNeeded)},
			map[string]reply{"b": label("b", "1")}, nil, []string{"a", "b"}},
		"all before a change": {[]registrationv1.MutatingWebhook{hook("a", ifNeeded), hook("b", ifNeeded), hook("c"), hook("d", ifNeeded)},
			map[string]reply{"c": label("c", "1")}, nil, []string{"a", "b", "c", "d", "a", "b"}},
		"other plugins change": {[]registrationv1.MutatingWebhook{hook("a", ifNeeded), hook("b", ifNeeded), hook("c")},
			map[string]reply{"a": label("a", "1")}, []admission.Plugin{plugin("other")}, []string{"a", "b", "c", "a", "b"}},
		"not called before": {[]registrationv1.MutatingWebhook{hook("a", ifNeeded, selects("b", "1")), hook("b")},
			map[string]reply{"b": label("b", "1")}, nil, []string{"b"}},
		"no longer selected": {[]registrationv1.MutatingWebhook{hook("a", ifNeeded, selects("app", "x")), hook("b")},
			map[string]reply{"b": label("app", "y")}, nil, []string{"a", "b"}},
		"a failure that is ignored counts as a call": {[]registrationv1.MutatingWebhook{hook("a", ifNeeded, ignore), hook("b")},
			map[string]reply{"a": fails(errors.New("down")), "b": label("b", "1")}, nil, []string{"a", "b", "a"}},
		"the same name twice": {[]registrationv1.MutatingWebhook{hook("a", ifNeeded), hook("b"), hook("a", ifNeeded)},
			map[string]reply{"b": label("b", "1")}, nil, []string{"a", "b", "a", "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mutate("c", test.hooks...)
			for service, r := range test.replies {
				w.replies[service] = r
			}
			chain := admission.Ordered(append(test.others, w.plugins()...)...)
			if err := chain.Admit(t.Context(), admissiontest.Create(t, pod())); err != nil || !slices.Equal(w.calls, test.calls) {
				t.Errorf("called %q, want %q: %v", w.calls, test.calls, err)
			}
		})
	}
	t.Run("a change in the second round", func(t *testing.T) {
		w := newWorld(t)
		w.mutate("c", hook("a", ifNeeded), hook("b", ifNeeded), hook("c"))
		n := 0
		w.replies["a"] = func(ctx context.Context, r *admissionv1.AdmissionReview) (*admissionv1.AdmissionResponse, string, error) {
			n++
			return label("a", fmt.Sprint(n))(ctx, r)
		}
		w.replies["b"] = label("b", "1")
		r := admissiontest.Create(t, pod())
		if err := w.plugins().Admit(t.Context(), r); err != nil || !slices.Equal(w.calls, []string{"a", "b", "c", "a", "b"}) {
			t.Errorf("called %q, %v", w.calls, err)
		}
		if got := labelsOf(r.Object.(*corev1.Pod)); got != "a=2,app=x,b=1" {
			t.Errorf("labels %q", got)
		}
		if !slices.ContainsFunc(w.annotations, func(a webhook.Annotation) bool {
			return a.Key == "mutation.webhook.admission.k8s.io/round_1_index_0" && strings.HasSuffix(a.Value, `"mutated":true}`)
		}) {
			t.Errorf("annotated %v", w.annotations)
		}
	})
	t.Run("a refusal", func(t *testing.T) {
		w := newWorld(t)
		w.mutate("c", hook("a", ifNeeded, func(h *registrationv1.MutatingWebhook) { h.MatchPolicy = nil }), hook("b", func(h *registrationv1.MutatingWebhook) { h.ReinvocationPolicy = nil }))
		w.replies["a"] = func(_ context.Context, r *admissionv1.AdmissionReview) (*admissionv1.AdmissionResponse, string, error) {
			return &admissionv1.AdmissionResponse{Allowed: !strings.Contains(string(r.Request.Object.Raw), `"b":"1"`)}, "", nil
		}
		w.replies["b"] = label("b", "1")
		const refusal = `admission webhook "a.example.com" denied the request without explanation`
		if err := w.plugins().Admit(t.Context(), admissiontest.Create(t, pod())); err == nil || err.Error() != refusal {
			t.Errorf("in the second round: %v", err)
		}
		p := w.plugins()[0].(*webhook.Mutating)
		if err := p.Admit(t.Context(), admissiontest.Create(t, labelled(map[string]string{"b": "1"}).(*corev1.Pod))); err == nil || err.Error() != refusal {
			t.Errorf("alone: %v", err)
		}
	})
	t.Run("a deletion", func(t *testing.T) {
		w := newWorld(t)
		w.mutate("c", hook("a", ifNeeded))
		if err := w.plugins().Admit(t.Context(), admissiontest.Delete(t, pod())); err != nil || len(w.calls) != 1 {
			t.Errorf("called %q, %v", w.calls, err)
		}
	})
}

func TestMatchConditions(t *testing.T) {
	conditions := func(h *registrationv1.MutatingWebhook) {
		h.MatchConditions = []registrationv1.MatchCondition{{Name: "n", Expression: "e"}}
	}
	compile := func(matches bool, err error) func([]registrationv1.MatchCondition) webhook.Conditions {
		return func(list []registrationv1.MatchCondition) webhook.Conditions {
			if len(list) != 1 || list[0].Expression != "e" {
				t.Errorf("compile %v", list)
			}
			return func(_ context.Context, r *admissionv1.AdmissionRequest) (bool, error) {
				if r.UID != "" || r.Object.Object.(*corev1.Pod).Name != "p" || r.Options.Object == nil || r.Operation != "CREATE" || r.UserInfo.Username != "tester" {
					t.Errorf("evaluate %+v", r)
				}
				return matches, err
			}
		}
	}
	const refused = `pods "p" is forbidden: `
	for name, test := range map[string]struct {
		compile func([]registrationv1.MatchCondition) webhook.Conditions
		change  func(*registrationv1.MutatingWebhook)
		called  bool
		refused string
	}{
		"true":                 {compile(true, nil), conditions, true, ""},
		"false":                {compile(false, nil), conditions, false, ""},
		"fails":                {compile(true, errors.New("no such key")), conditions, false, refused + "no such key"},
		"fails, ignored":       {compile(true, errors.New("no such key")), func(h *registrationv1.MutatingWebhook) { conditions(h); ignore(h) }, false, ""},
		"no compiler":          {nil, conditions, false, refused + "this server does not evaluate match conditions: it has no compiler for their expressions (CEL)"},
		"no compiler, ignored": {nil, func(h *registrationv1.MutatingWebhook) { conditions(h); ignore(h) }, false, ""},
		"no conditions":        {nil, func(*registrationv1.MutatingWebhook) {}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.options.Compile = test.compile
			called, err := both(t, w, admissiontest.Create(t, pod()), hook("a", test.change))
			if called != test.called || (err == nil) != (test.refused == "") || err != nil && (err.Error() != test.refused || !errors.Is(err, admission.ErrForbidden)) {
				t.Errorf("called: %t, %v", called, err)
			}
		})
	}
}

// TestPrepared: a webhook is compiled once as long as its configuration is the same object, and forgotten with it.
func TestPrepared(t *testing.T) {
	w := newWorld(t)
	compiled := 0
	w.options.Compile = func([]registrationv1.MatchCondition) webhook.Conditions {
		compiled++
		return func(context.Context, *admissionv1.AdmissionRequest) (bool, error) { return true, nil }
	}
	with := hook("a", func(h *registrationv1.MutatingWebhook) {
		h.MatchConditions = []registrationv1.MatchCondition{{Name: "n"}}
	})
	w.validate("a", with)
	w.validate("b", with)
	plugin := webhook.NewValidating(&w.validating, w.namespaces, webhook.CallerFunc(w.call), w.options)
	run := func(calls, compilations int) {
		t.Helper()
		w.calls = nil
		if err := plugin.Validate(t.Context(), admissiontest.Create(t, pod())); err != nil || len(w.calls) != calls || compiled != compilations {
			t.Errorf("%d calls, %d compilations, %v; want %d and %d", len(w.calls), compiled, err, calls, compilations)
		}
	}
	run(2, 2)
	run(2, 2)
	again := w.validating[1].DeepCopy()
	kept := w.validating[0]
	w.validating = list[*registrationv1.ValidatingWebhookConfiguration]{kept, again}
	run(2, 3)
	w.validating = w.validating[:1]
	run(1, 3)
	run(1, 3)
	w.validating = append(w.validating, again)
	run(2, 4)
}

func TestPlugins(t *testing.T) {
	w := newWorld(t)
	w.mutate("c", hook("a"), hook("b", ifNeeded))
	w.validate("c", hook("a"), hook("d"))
	w.replies["a"] = label("a", "1")
	w.options.Warn, w.options.Annotate = nil, nil
	for i, name := range []string{webhook.MutatingName, webhook.ValidatingName} {
		p := w.plugins()[i]
		if p.Name() != name || !slices.Contains(admission.UpstreamDefault(), name) {
			t.Errorf("plugin %d is %s", i, p.Name())
		}
		admissiontest.TestPlugin(t, p, admissiontest.Create(t, pod()), admissiontest.Update(t, pod(), pod()))
		for _, op := range []admission.Operation{admission.Create, admission.Update, admission.Delete, admission.Connect} {
			if !p.Handles(op) {
				t.Errorf("%s does not handle %s", name, op)
			}
		}
	}
}
