package admissionregistration_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/api/admissionregistration/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/admissionregistration"
	"github.com/keelson-dev/keelson/registry/codec"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

type (
	mutating   = admissionv1.MutatingWebhookConfiguration
	validating = admissionv1.ValidatingWebhookConfiguration
)

// compile accepts what begins with "good", and "old" where it is stored.
func compile(expression string, stored bool) error {
	if strings.HasPrefix(expression, "good") || stored && expression == "old" {
		return nil
	}
	return errors.New("compilation failed")
}

func kinds() []registry.Kind {
	return admissionregistration.Kinds(admissionregistration.Options{Compile: compile})
}

func find(t *testing.T, plural string) registry.Kind {
	t.Helper()
	return registrytest.Find(t, kinds(), plural)
}

// hook returns a valid webhook, without what defaults fill.
func hook() admissionv1.MutatingWebhook {
	return admissionv1.MutatingWebhook{
		Name: "pods.example.com",
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
		}},
		ClientConfig:            admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "ns", Name: "hook"}},
		SideEffects:             new(admissionv1.SideEffectClassNone),
		AdmissionReviewVersions: []string{"v1"},
	}
}

func configuration() *mutating {
	return &mutating{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Webhooks: []admissionv1.MutatingWebhook{hook()}}
}

// asValidating returns the validating configuration that corresponds to a mutating one.
func asValidating(c *mutating) *validating {
	out := &validating{ObjectMeta: c.ObjectMeta}
	for _, w := range c.Webhooks {
		out.Webhooks = append(out.Webhooks, admissionv1.ValidatingWebhook{
			Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
			NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects,
			TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
		})
	}
	return out
}

func TestKinds(t *testing.T) {
	registrytest.Kinds(t, kinds())
	registrytest.Kinds(t, admissionregistration.Kinds(admissionregistration.Options{}))
}

func TestNames(t *testing.T) {
	for _, k := range kinds() {
		if k.Namespaced || k.Prefix != k.Plural || k.GroupVersion != admissionv1.SchemeGroupVersion || k.Plural != strings.ToLower(k.Names.Kind)+"s" {
			t.Errorf("%+v in %s, stored in %s", k.Names, k.GroupVersion, k.Prefix)
		}
		if !slices.Equal(k.Categories, []string{"api-extensions"}) || len(k.Short) > 0 || len(k.Also) > 0 {
			t.Errorf("%s: categories %v, short names %v, further versions %v", k.Plural, k.Categories, k.Short, k.Also)
		}
		if k.Rules.CreateOnUpdate || !k.Rules.ConditionalUpdate || !k.Rules.AnyFinalizer || k.Rules.Deletion.ReturnsObject {
			t.Errorf("%s: %+v", k.Plural, k.Rules)
		}
	}
}

func TestDefaults(t *testing.T) {
	c := configuration()
	registrytest.Prepare(find(t, "mutatingwebhookconfigurations"), c)
	want := hook()
	want.FailurePolicy, want.MatchPolicy = new(admissionv1.Fail), new(admissionv1.Equivalent)
	want.NamespaceSelector, want.ObjectSelector = &metav1.LabelSelector{}, &metav1.LabelSelector{}
	want.TimeoutSeconds, want.ReinvocationPolicy = new(int32(10)), new(admissionv1.NeverReinvocationPolicy)
	want.Rules[0].Scope, want.ClientConfig.Service.Port = new(admissionv1.AllScopes), new(int32(443))
	if !reflect.DeepEqual(c.Webhooks[0], want) || c.Generation != 1 {
		t.Errorf("generation %d, %+v", c.Generation, c.Webhooks[0])
	}
	v := asValidating(configuration())
	registrytest.Prepare(find(t, "validatingwebhookconfigurations"), v)
	if !reflect.DeepEqual(v.Webhooks, asValidating(c).Webhooks) || v.Generation != 1 {
		t.Errorf("generation %d, %+v", v.Generation, v.Webhooks)
	}
	// What is set stays.
	set := func() *mutating {
		c := configuration()
		w := &c.Webhooks[0]
		w.FailurePolicy, w.MatchPolicy = new(admissionv1.Ignore), new(admissionv1.Exact)
		w.NamespaceSelector, w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, &metav1.LabelSelector{MatchLabels: map[string]string{"c": "d"}}
		w.TimeoutSeconds, w.ReinvocationPolicy = new(int32(3)), new(admissionv1.IfNeededReinvocationPolicy)
		w.Rules[0].Scope, w.ClientConfig.Service.Port = new(admissionv1.ClusterScope), new(int32(8443))
		return c
	}
	c, v = set(), asValidating(set())
	registrytest.Prepare(find(t, "mutatingwebhookconfigurations"), c)
	registrytest.Prepare(find(t, "validatingwebhookconfigurations"), v)
	if !reflect.DeepEqual(c.Webhooks, set().Webhooks) || !reflect.DeepEqual(v.Webhooks, asValidating(set()).Webhooks) {
		t.Errorf("defaults changed what was set: %+v, %+v", c.Webhooks, v.Webhooks)
	}
}

// TestGeneration: it counts changes of webhooks, also of empty lists for missing ones, and of nothing else.
func TestGeneration(t *testing.T) {
	for _, k := range kinds() {
		of := func(c *mutating) registry.Object {
			if k.Plural == "mutatingwebhookconfigurations" {
				return c
			}
			return asValidating(c)
		}
		for name, test := range map[string]struct {
			change func(*mutating)
			want   int64
		}{
			"nothing":           {func(*mutating) {}, 7},
			"labels":            {func(c *mutating) { c.Labels = map[string]string{"a": "b"} }, 7},
			"the client's own":  {func(c *mutating) { c.Generation = 3 }, 7},
			"a webhook":         {func(c *mutating) { c.Webhooks[0].TimeoutSeconds = new(int32(5)) }, 8},
			"no more webhooks":  {func(c *mutating) { c.Webhooks = nil }, 8},
			"an empty selector": {func(c *mutating) { c.Webhooks[0].ObjectSelector.MatchLabels = map[string]string{} }, 8},
		} {
			old := configuration()
			old.Generation = 7
			registrytest.Prepare(find(t, "mutatingwebhookconfigurations"), old)
			old.Generation = 7
			next := old.DeepCopy()
			test.change(next)
			obj := of(next)
			registrytest.Replace(k, "", obj, of(old))
			if obj.GetGeneration() != test.want {
				t.Errorf("%s, %s: generation %d, want %d", k.Plural, name, obj.GetGeneration(), test.want)
			}
		}
	}
}

func TestColumns(t *testing.T) {
	now := time.Now()
	c := configuration()
	c.CreationTimestamp = metav1.NewTime(now.Add(-3 * time.Hour))
	c.Webhooks = append(c.Webhooks, hook())
	for plural, obj := range map[string]registry.Object{"mutatingwebhookconfigurations": c, "validatingwebhookconfigurations": asValidating(c)} {
		k := find(t, plural)
		var names []string
		for _, d := range k.Columns.Definitions {
			names = append(names, d.Name+" "+d.Type)
		}
		if !slices.Equal(names, []string{"Name string", "Webhooks integer", "Age string"}) {
			t.Errorf("%s: columns %q", plural, names)
		}
		if got := k.Columns.Cells(obj, now); !reflect.DeepEqual(got, []any{"c", int64(2), "3h"}) {
			t.Errorf("%s: cells %v", plural, got)
		}
	}
}

// TestWarnings: rules that name resources which webhooks do not see have no effect.
func TestWarnings(t *testing.T) {
	rule := func(groups []string, resources ...string) admissionv1.RuleWithOperations {
		r := hook().Rules[0]
		r.APIGroups, r.Resources = groups, resources
		return r
	}
	c := configuration()
	c.Name = "c.static.k8s.io"
	c.Webhooks[0].Rules = []admissionv1.RuleWithOperations{
		rule([]string{"*"}, "tokenreviews"),
		rule([]string{"authentication.k8s.io"}, "tokenreviews", "*"),
		rule([]string{"", "authentication.k8s.io", "authorization.k8s.io"}, "tokenreviews", "pods", "subjectaccessreviews", "tokenreviews"),
	}
	c.Webhooks = append(c.Webhooks, hook())
	c.Webhooks[1].Rules[0] = rule([]string{"authentication.k8s.io", "authorization.k8s.io"}, "selfsubjectreviews", "localsubjectaccessreviews",
		"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews/x")
	const excluded = " is excluded from admission webhooks; this rule will have no effect"
	want := []string{
		`metadata.name: names ending with ".static.k8s.io" are reserved for static manifest-based configurations and cannot be managed via the API`,
		"webhooks[0].rules[2]: tokenreviews.authentication.k8s.io" + excluded,
		"webhooks[0].rules[2]: subjectaccessreviews.authorization.k8s.io" + excluded,
		"webhooks[1].rules[0]: selfsubjectreviews.authentication.k8s.io" + excluded,
		"webhooks[1].rules[0]: localsubjectaccessreviews.authorization.k8s.io" + excluded,
		"webhooks[1].rules[0]: selfsubjectaccessreviews.authorization.k8s.io" + excluded,
		"webhooks[1].rules[0]: selfsubjectrulesreviews.authorization.k8s.io" + excluded,
	}
	for plural, obj := range map[string]registry.Object{"mutatingwebhookconfigurations": c, "validatingwebhookconfigurations": asValidating(c)} {
		var got []string
		ctx := registry.WithWarnings(t.Context(), func(text string) { got = append(got, text) })
		if err := find(t, plural).Rules.Guard(ctx, obj, obj); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, warned\n\t%s", plural, err, strings.Join(got, "\n\t"))
		}
	}
}

// TestFromV1beta1: what v1beta1 leaves unset has v1beta1's defaults.
func TestFromV1beta1(t *testing.T) {
	bare := v1beta1.MutatingWebhook{
		Name: "a", ClientConfig: v1beta1.WebhookClientConfig{URL: new("https://x"), CABundle: []byte("ca")},
		MatchConditions: []v1beta1.MatchCondition{{Name: "n", Expression: "e"}, {Name: "m", Expression: "f"}},
	}
	full := bare
	full.FailurePolicy, full.MatchPolicy = new(v1beta1.Fail), new(v1beta1.Equivalent)
	full.SideEffects, full.TimeoutSeconds = new(v1beta1.SideEffectClassNone), new(int32(3))
	full.AdmissionReviewVersions, full.ReinvocationPolicy = []string{"v1", "v2"}, new(v1beta1.IfNeededReinvocationPolicy)
	old := &v1beta1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Webhooks: []v1beta1.MutatingWebhook{bare, full}}
	oldValidating := &v1beta1.ValidatingWebhookConfiguration{ObjectMeta: old.ObjectMeta}
	for _, w := range old.Webhooks {
		oldValidating.Webhooks = append(oldValidating.Webhooks, v1beta1.ValidatingWebhook{
			Name: w.Name, ClientConfig: w.ClientConfig, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy, SideEffects: w.SideEffects,
			TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
		})
	}

	first := admissionv1.MutatingWebhook{
		Name: "a", ClientConfig: admissionv1.WebhookClientConfig{URL: new("https://x"), CABundle: []byte("ca")},
		MatchConditions: []admissionv1.MatchCondition{{Name: "n", Expression: "e"}, {Name: "m", Expression: "f"}},
	}
	second := first
	first.FailurePolicy, first.MatchPolicy, first.SideEffects = new(admissionv1.Ignore), new(admissionv1.Exact), new(admissionv1.SideEffectClassUnknown)
	first.TimeoutSeconds, first.AdmissionReviewVersions = new(int32(30)), []string{"v1beta1"}
	second.FailurePolicy, second.MatchPolicy, second.SideEffects = new(admissionv1.Fail), new(admissionv1.Equivalent), new(admissionv1.SideEffectClassNone)
	second.TimeoutSeconds, second.AdmissionReviewVersions = new(int32(3)), []string{"v1", "v2"}
	second.ReinvocationPolicy = new(admissionv1.IfNeededReinvocationPolicy)
	want := &mutating{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Webhooks: []admissionv1.MutatingWebhook{first, second}}

	check := func(plural string, stored []byte, want registry.Object) {
		t.Helper()
		older := find(t, plural).Older
		if len(older) != 1 || older[0].GroupVersion != v1beta1.SchemeGroupVersion {
			t.Fatalf("older versions: %+v", older)
		}
		into := older[0].New()
		if _, err := codec.Decode(stored, into); err != nil {
			t.Fatal(err)
		}
		was := into.DeepCopyObject()
		if got := older[0].ToStored(into); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
		if !reflect.DeepEqual(into, was) {
			t.Errorf("the argument became %+v", into)
		}
	}
	encode := func(obj registry.Object, kind string) []byte {
		stored, err := codec.Stored(v1beta1.SchemeGroupVersion.WithKind(kind), obj)
		if err != nil {
			t.Fatal(err)
		}
		return stored
	}
	check("mutatingwebhookconfigurations", encode(old, "MutatingWebhookConfiguration"), want)
	check("validatingwebhookconfigurations", encode(oldValidating, "ValidatingWebhookConfiguration"), asValidating(want))
}

func ExampleKinds() {
	for _, k := range admissionregistration.Kinds(admissionregistration.Options{}) {
		fmt.Println(k.GroupVersion, k.Plural)
	}
	// Output:
	// admissionregistration.k8s.io/v1 mutatingwebhookconfigurations
	// admissionregistration.k8s.io/v1 validatingwebhookconfigurations
}

func ExampleOptions() {
	kinds := admissionregistration.Kinds(admissionregistration.Options{
		Compile: func(expression string, _ bool) error {
			if expression != "true" { // in a server, a compiler of CEL
				return errors.New("not understood")
			}
			return nil
		},
	})
	c := configuration()
	c.Webhooks[0].MatchConditions = []admissionv1.MatchCondition{{Name: "always", Expression: "tru"}}
	kinds[0].Rules.Default(c)
	kinds[0].Rules.PrepareCreate(context.Background(), c)
	fmt.Println(kinds[0].Rules.Validate(c).ToAggregate())
	// Output: webhooks[0].matchConditions[0].expression: Invalid value: "tru": not understood
}
