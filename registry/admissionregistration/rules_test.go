package admissionregistration_test

import (
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/admissionregistration"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

type change = registrytest.Change[*mutating]

// to changes the only webhook.
func to(change func(w *admissionv1.MutatingWebhook)) func(*mutating) {
	return func(c *mutating) { change(&c.Webhooks[0]) }
}

func rule(change func(r *admissionv1.RuleWithOperations)) func(*mutating) {
	return to(func(w *admissionv1.MutatingWebhook) { change(&w.Rules[0]) })
}

func at(url string) func(*mutating) {
	return to(func(w *admissionv1.MutatingWebhook) { w.ClientConfig = admissionv1.WebhookClientConfig{URL: &url} })
}

func service(change func(s *admissionv1.ServiceReference)) func(*mutating) {
	return to(func(w *admissionv1.MutatingWebhook) { change(w.ClientConfig.Service) })
}

func path(path string) func(*mutating) {
	return service(func(s *admissionv1.ServiceReference) { s.Path = &path })
}

func resources(resources ...string) func(*mutating) {
	return rule(func(r *admissionv1.RuleWithOperations) { r.Resources = resources })
}

// validates runs the changes on both kinds, in creates and updates.
func validates(t *testing.T, changes []change) {
	t.Helper()
	m, v := find(t, "mutatingwebhookconfigurations"), find(t, "validatingwebhookconfigurations")
	registrytest.Create(t, m, configuration(), changes)
	registrytest.Update(t, m, "", configuration(), changes)
	var same []registrytest.Change[*validating]
	for _, c := range changes {
		same = append(same, registrytest.Change[*validating]{Name: c.Name, Refused: c.Refused, To: func(obj *validating) {
			// The change is to a mutating configuration that was made by the same steps as obj.
			as := configuration()
			if obj.Webhooks[0].TimeoutSeconds != nil {
				m.Rules.Default(as)
			}
			c.To(as)
			obj.ObjectMeta, obj.Webhooks = as.ObjectMeta, asValidating(as).Webhooks
		}})
	}
	registrytest.Create(t, v, asValidating(configuration()), same)
	registrytest.Update(t, v, "", asValidating(configuration()), same)
}

func TestWebhook(t *testing.T) {
	const subdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	validates(t, []change{
		{Name: "no webhooks", To: func(c *mutating) { c.Webhooks = nil }},
		{Name: "no name", To: to(func(w *admissionv1.MutatingWebhook) { w.Name = "" }), Refused: []string{`webhooks[0].name: Required value`}},
		{Name: "short name", To: to(func(w *admissionv1.MutatingWebhook) { w.Name = "example.com" }), Refused: []string{
			`webhooks[0].name: Invalid value: "example.com": should be a domain with at least three segments separated by dots`}},
		{Name: "bad name", To: to(func(w *admissionv1.MutatingWebhook) { w.Name = "A.example.com" }), Refused: []string{
			`webhooks[0].name: Invalid value: "A.example.com": ` + subdomain}},
		{Name: "the same name twice", To: func(c *mutating) { c.Webhooks = append(c.Webhooks, c.Webhooks[0]) }, Refused: []string{
			`webhooks[1].name: Duplicate value: "pods.example.com"`}},
		{Name: "no name twice", To: func(c *mutating) {
			c.Webhooks[0].Name = ""
			c.Webhooks = append(c.Webhooks, c.Webhooks[0])
		}, Refused: []string{`webhooks[0].name: Required value`, `webhooks[1].name: Required value`}},
		{Name: "failure policy", To: to(func(w *admissionv1.MutatingWebhook) { w.FailurePolicy = new(admissionv1.FailurePolicyType("x")) }), Refused: []string{
			`webhooks[0].failurePolicy: Unsupported value: "x": supported values: "Fail", "Ignore"`}},
		{Name: "failure ignored", To: to(func(w *admissionv1.MutatingWebhook) { w.FailurePolicy = new(admissionv1.Ignore) })},
		{Name: "match policy", To: to(func(w *admissionv1.MutatingWebhook) { w.MatchPolicy = new(admissionv1.MatchPolicyType("")) }), Refused: []string{
			`webhooks[0].matchPolicy: Unsupported value: "": supported values: "Equivalent", "Exact"`}},
		{Name: "no side effects given", To: to(func(w *admissionv1.MutatingWebhook) { w.SideEffects = nil }), Refused: []string{
			`webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun`}},
		{Name: "some side effects", To: to(func(w *admissionv1.MutatingWebhook) { w.SideEffects = new(admissionv1.SideEffectClassSome) }), Refused: []string{
			`webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"`}},
		{Name: "none in dry runs", To: to(func(w *admissionv1.MutatingWebhook) { w.SideEffects = new(admissionv1.SideEffectClassNoneOnDryRun) })},
		{Name: "no time", To: to(func(w *admissionv1.MutatingWebhook) { w.TimeoutSeconds = new(int32(0)) }), Refused: []string{
			`webhooks[0].timeoutSeconds: Invalid value: 0: the timeout value must be between 1 and 30 seconds`}},
		{Name: "a second", To: to(func(w *admissionv1.MutatingWebhook) { w.TimeoutSeconds = new(int32(1)) })},
		{Name: "30 seconds", To: to(func(w *admissionv1.MutatingWebhook) { w.TimeoutSeconds = new(int32(30)) })},
		{Name: "31 seconds", To: to(func(w *admissionv1.MutatingWebhook) { w.TimeoutSeconds = new(int32(31)) }), Refused: []string{
			`webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds`}},
		{Name: "selectors", To: to(func(w *admissionv1.MutatingWebhook) {
			bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In"}}}
			w.NamespaceSelector, w.ObjectSelector = bad, bad
		}), Refused: []string{
			"webhooks[0].namespaceSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
			"webhooks[0].objectSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"}},
	})
	registrytest.Create(t, find(t, "mutatingwebhookconfigurations"), configuration(), []change{
		{Name: "reinvocation", To: to(func(w *admissionv1.MutatingWebhook) {
			w.ReinvocationPolicy = new(admissionv1.ReinvocationPolicyType("x"))
		}), Refused: []string{
			`webhooks[0].reinvocationPolicy: Unsupported value: "x": supported values: "IfNeeded", "Never"`}},
		{Name: "reinvoked", To: to(func(w *admissionv1.MutatingWebhook) {
			w.ReinvocationPolicy = new(admissionv1.IfNeededReinvocationPolicy)
		})},
		{Name: "a reserved name", To: func(c *mutating) { c.Name = "a.static.k8s.io" }, Refused: []string{
			`metadata.name: Invalid value: "a.static.k8s.io": names ending with ".static.k8s.io" are reserved for static manifest-based configurations and cannot be managed via the API`}},
	})
}

// TestUndefaulted: what defaults would fill may be missing.
func TestUndefaulted(t *testing.T) {
	c := configuration()
	at("https://x")(c)
	for plural, obj := range map[string]registry.Object{"mutatingwebhookconfigurations": c, "validatingwebhookconfigurations": asValidating(c)} {
		if errs := find(t, plural).Rules.Validate(obj); len(errs) > 0 {
			t.Errorf("%s: %v", plural, errs)
		}
	}
	service := configuration()
	errs := find(t, "mutatingwebhookconfigurations").Rules.Validate(service)
	if len(errs) != 1 || errs[0].Error() != "webhooks[0].clientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive" {
		t.Errorf("no port: %v", errs)
	}
}

func TestReviewVersions(t *testing.T) {
	versions := func(versions ...string) func(*mutating) {
		return to(func(w *admissionv1.MutatingWebhook) { w.AdmissionReviewVersions = versions })
	}
	validates(t, []change{
		{Name: "none", To: versions(), Refused: []string{`webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1`}},
		{Name: "unknown", To: versions("v2"), Refused: []string{
			`webhooks[0].admissionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1`}},
		{Name: "unknown before known", To: versions("v2", "v1beta1")},
		{Name: "twice", To: versions("v1", "v1"), Refused: []string{`webhooks[0].admissionReviewVersions[1]: Invalid value: "v1": duplicate version`}},
		{Name: "malformed twice", To: versions("v1", "V/", "V/"), Refused: []string{
			`webhooks[0].admissionReviewVersions[1]: Invalid value: "V/": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`,
			`webhooks[0].admissionReviewVersions[2]: Invalid value: "V/": duplicate version`}},
	})
}

func TestRules(t *testing.T) {
	validates(t, []change{
		{Name: "no rules", To: to(func(w *admissionv1.MutatingWebhook) { w.Rules = nil })},
		{Name: "an empty rule", To: rule(func(r *admissionv1.RuleWithOperations) {
			*r = admissionv1.RuleWithOperations{Rule: admissionv1.Rule{Scope: new(admissionv1.ScopeType("x"))}}
		}), Refused: []string{
			`webhooks[0].rules[0].operations: Required value`, `webhooks[0].rules[0].apiGroups: Required value`,
			`webhooks[0].rules[0].apiVersions: Required value`, `webhooks[0].rules[0].resources: Required value`,
			`webhooks[0].rules[0].scope: Unsupported value: "x": supported values: "*", "Cluster", "Namespaced"`}},
		{Name: "wildcards", To: rule(func(r *admissionv1.RuleWithOperations) {
			r.Operations, r.APIGroups, r.APIVersions, r.Resources = []admissionv1.OperationType{"*"}, []string{"*"}, []string{"*"}, []string{"*"}
		})},
		{Name: "wildcards and more", To: rule(func(r *admissionv1.RuleWithOperations) {
			r.Operations, r.APIGroups, r.APIVersions = []admissionv1.OperationType{"*", "DELETE"}, []string{"", "*"}, []string{"*", "v1"}
		}), Refused: []string{
			`webhooks[0].rules[0].operations: Invalid value: ["*","DELETE"]: if '*' is present, must not specify other operations`,
			`webhooks[0].rules[0].apiGroups: Invalid value: ["","*"]: if '*' is present, must not specify other API groups`,
			`webhooks[0].rules[0].apiVersions: Invalid value: ["*","v1"]: if '*' is present, must not specify other API versions`}},
		{Name: "operations", To: rule(func(r *admissionv1.RuleWithOperations) {
			r.Operations = []admissionv1.OperationType{"CREATE", "UPDATE", "DELETE", "CONNECT", "PATCH"}
		}), Refused: []string{
			`webhooks[0].rules[0].operations[4]: Unsupported value: "PATCH": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"`}},
		{Name: "an empty version", To: rule(func(r *admissionv1.RuleWithOperations) { r.APIVersions = []string{"v1", ""} }), Refused: []string{
			`webhooks[0].rules[0].apiVersions[1]: Required value`}},
		{Name: "an empty resource", To: resources("*", ""), Refused: []string{`webhooks[0].rules[0].resources[1]: Required value`}},
		{Name: "subresources", To: resources("pods", "pods/status", "*/scale", "nodes/*")},
		{Name: "all and one", To: resources("*", "pods"), Refused: []string{
			`webhooks[0].rules[0].resources: Invalid value: ["*","pods"]: if '*' is present, must not specify other resources without subresources`}},
		// Upstream looks at the last one only.
		{Name: "one and all", To: resources("pods", "*")},
		{Name: "all and a subresource", To: resources("*", "pods/status")},
		{Name: "everything and more", To: resources("pods/log", "*/*"), Refused: []string{
			`webhooks[0].rules[0].resources: Invalid value: ["pods/log","*/*"]: if '*/*' is present, must not specify other resources`}},
		{Name: "everything", To: resources("*/*")},
		{Name: "a subresource of all of them", To: resources("pods/*", "pods/status", "nodes/x", "pods/log"), Refused: []string{
			`webhooks[0].rules[0].resources[1]: Invalid value: "pods/status": if 'pods/*' is present, must not specify pods/status`,
			`webhooks[0].rules[0].resources[3]: Invalid value: "pods/log": if 'pods/*' is present, must not specify pods/log`}},
		{Name: "before all of them", To: resources("pods/status", "pods/*")},
		{Name: "a subresource of all resources", To: resources("*/scale", "x/scale", "y/scale"), Refused: []string{
			`webhooks[0].rules[0].resources[1]: Invalid value: "x/scale": if '*/scale' is present, must not specify x/scale`,
			`webhooks[0].rules[0].resources[2]: Invalid value: "y/scale": if '*/scale' is present, must not specify y/scale`}},
		{Name: "scopes", To: rule(func(r *admissionv1.RuleWithOperations) { r.Scope = new(admissionv1.NamespacedScope) })},
	})
}

func TestClientConfig(t *testing.T) {
	const form = "; desired format: https://host[/path]"
	const url, service0 = `webhooks[0].clientConfig.url: `, `webhooks[0].clientConfig.service.`
	validates(t, []change{
		{Name: "neither", To: to(func(w *admissionv1.MutatingWebhook) { w.ClientConfig = admissionv1.WebhookClientConfig{} }), Refused: []string{
			`webhooks[0].clientConfig: Required value: exactly one of url or service is required`}},
		{Name: "both", To: to(func(w *admissionv1.MutatingWebhook) { w.ClientConfig.URL = new("https://x") }), Refused: []string{
			`webhooks[0].clientConfig: Required value: exactly one of url or service is required`}},
		{Name: "a URL", To: at("https://example.com:8443/a")},
		{Name: "no URL", To: at("https://%"), Refused: []string{
			url + `Required value: url must be a valid URL: parse "https://%": invalid URL escape "%"` + form}},
		{Name: "an empty URL", To: at(""), Refused: []string{
			url + `Invalid value: "": 'https' is the only allowed URL scheme` + form, url + `Invalid value: "": host must be specified` + form}},
		{Name: "all wrong", To: at("http://me:pw@x/y?q=1#f"), Refused: []string{
			url + `Invalid value: "http": 'https' is the only allowed URL scheme` + form,
			url + `Invalid value: "me:pw": user information is not permitted in the URL`,
			url + `Invalid value: "f": fragments are not permitted in the URL`,
			url + `Invalid value: "q=1": query parameters are not permitted in the URL`}},
		// Upstream names the other field.
		{Name: "a service without a name", To: service(func(s *admissionv1.ServiceReference) { s.Name = "" }), Refused: []string{service0 + `namespace: Required value`}},
		{Name: "a service in no namespace", To: service(func(s *admissionv1.ServiceReference) { s.Namespace = "" }), Refused: []string{service0 + `name: Required value`}},
		{Name: "a port", To: service(func(s *admissionv1.ServiceReference) { s.Port = new(int32(65536)) }), Refused: []string{
			service0 + `port: Invalid value: 65536: port is not valid: must be between 1 and 65535, inclusive`}},
		{Name: "an empty path", To: path("")},
		{Name: "the root", To: path("/")},
		{Name: "a path", To: path("/a/b.c/")},
		{Name: "two slashes", To: path("//"), Refused: []string{service0 + `path: Invalid value: "//": segment[0] may not be empty`}},
		{Name: "an empty segment", To: path("/a//b"), Refused: []string{service0 + `path: Invalid value: "/a//b": segment[1] may not be empty`}},
		{Name: "relative", To: path("xab"), Refused: []string{service0 + `path: Invalid value: "xab": must start with a '/'`}},
		{Name: "a segment", To: path("/a/B"), Refused: []string{
			service0 + `path: Invalid value: "/a/B": segment[1]: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`}},
	})
}

func conditions(list ...admissionv1.MatchCondition) func(*mutating) {
	return to(func(w *admissionv1.MutatingWebhook) { w.MatchConditions = list })
}

func TestMatchConditions(t *testing.T) {
	many := func(n int) (list []admissionv1.MatchCondition) {
		for i := range n {
			list = append(list, admissionv1.MatchCondition{Name: fmt.Sprint("c", i), Expression: "good"})
		}
		return list
	}
	const path = "webhooks[0].matchConditions"
	validates(t, []change{
		{Name: "conditions", To: conditions(many(64)...)},
		{Name: "too many", To: conditions(many(65)...), Refused: []string{path + `: Too many: 65: must have at most 64 items`}},
		{Name: "empty", To: conditions(admissionv1.MatchCondition{Expression: " "}), Refused: []string{
			path + `[0].expression: Required value`, path + `[0].name: Required value`}},
		{Name: "trimmed", To: conditions(admissionv1.MatchCondition{Name: "a", Expression: " bad "}), Refused: []string{
			path + `[0].expression: Invalid value: "bad": compilation failed`}},
		{Name: "only good once stored", To: conditions(admissionv1.MatchCondition{Name: "a", Expression: "old"}), Refused: []string{
			path + `[0].expression: Invalid value: "old": compilation failed`}},
		{Name: "a prefixed name", To: conditions(admissionv1.MatchCondition{Name: "example.com/a", Expression: "good"})},
		{Name: "a bad name", To: conditions(admissionv1.MatchCondition{Name: "a/b/c", Expression: "good"}), Refused: []string{
			path + `[0].name: Invalid value: "a/b/c": ` + validation.IsQualifiedName("a/b/c")[0]}},
		{Name: "twice", To: conditions(many(1)[0], many(1)[0]), Refused: []string{path + `[1].name: Duplicate value: "c0"`}},
	})
}

// TestNoCompiler: without a compiler, match conditions are refused, not ignored, but those that are stored stay.
func TestNoCompiler(t *testing.T) {
	k := registrytest.Find(t, admissionregistration.Kinds(admissionregistration.Options{}), "mutatingwebhookconfigurations")
	with := conditions(admissionv1.MatchCondition{Name: "a", Expression: "good"})
	const refusal = "webhooks[0].matchConditions: Forbidden: this server does not evaluate match conditions: it has no compiler for their expressions (CEL)"
	changes := []change{{Name: "a condition", To: with, Refused: []string{refusal}}}
	registrytest.Create(t, k, configuration(), changes)
	registrytest.Update(t, k, "", configuration(), changes)
	stored := configuration()
	with(stored)
	registrytest.Update(t, k, "", stored, []change{
		{Name: "something else", To: func(c *mutating) { c.Webhooks[0].TimeoutSeconds = new(int32(5)) }},
		{Name: "removed", To: conditions()},
		{Name: "another", To: conditions(admissionv1.MatchCondition{Name: "a", Expression: "good2"}), Refused: []string{refusal}},
	})
}

// TestOldStays: what an older server accepted, an update need not correct, and where there is nothing to forgive,
// it is not introduced.
func TestOldStays(t *testing.T) {
	bad := map[string]string{"a": "not valid"}
	selector := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In", Values: []string{bad["a"]}}}}
	for name, old := range map[string]func(w *admissionv1.MutatingWebhook){
		"side effects":          func(w *admissionv1.MutatingWebhook) { w.SideEffects = new(admissionv1.SideEffectClassUnknown) },
		"review versions":       func(w *admissionv1.MutatingWebhook) { w.AdmissionReviewVersions = []string{"v0"} },
		"selector":              func(w *admissionv1.MutatingWebhook) { w.ObjectSelector = selector },
		"selector of namespace": func(w *admissionv1.MutatingWebhook) { w.NamespaceSelector = selector },
		"conditions": func(w *admissionv1.MutatingWebhook) {
			w.MatchConditions = []admissionv1.MatchCondition{{Name: "a", Expression: "bad"}}
		},
	} {
		for _, k := range kinds() {
			of := func(c *mutating) registry.Object {
				if k.Plural == "mutatingwebhookconfigurations" {
					return c
				}
				return asValidating(c)
			}
			stored := configuration()
			old(&stored.Webhooks[0])
			obj := of(stored)
			registrytest.Prepare(k, obj)
			if errs := k.Rules.Validate(obj); len(errs) != 1 {
				t.Errorf("%s of %s: created: %v", name, k.Plural, errs)
			}
			if errs := registrytest.Replace(k, "", of(stored.DeepCopy()), obj); len(errs) != 0 {
				t.Errorf("%s of %s: updated: %v", name, k.Plural, errs)
			}
			good := of(configuration())
			registrytest.Prepare(k, good)
			if errs := registrytest.Replace(k, "", of(stored.DeepCopy()), good); len(errs) != 1 {
				t.Errorf("%s of %s: introduced: %v", name, k.Plural, errs)
			}
		}
	}
	k := find(t, "mutatingwebhookconfigurations")
	two := configuration()
	two.Webhooks = append(two.Webhooks, hook())
	three := configuration()
	three.Webhooks = append(three.Webhooks, hook(), hook())
	registrytest.Prepare(k, two)
	if errs := registrytest.Replace(k, "", three, two); len(errs) != 0 {
		t.Errorf("names that were not unique: %v", errs)
	}
	// No side effects were given at all, and no review versions, which must still be.
	none := configuration()
	none.Webhooks[0].SideEffects, none.Webhooks[0].AdmissionReviewVersions = nil, nil
	old := none.DeepCopy()
	registrytest.Prepare(k, old)
	next := configuration()
	next.Webhooks[0].SideEffects, next.Webhooks[0].AdmissionReviewVersions = new(admissionv1.SideEffectClass("x")), []string{"v0"}
	errs := registrytest.Replace(k, "", next, old)
	if len(errs) != 2 || errs[0].Error() != `webhooks[0].sideEffects: Unsupported value: "x": supported values: "None", "NoneOnDryRun", "Some", "Unknown"` ||
		errs[1].Error() != `webhooks[0].admissionReviewVersions: Invalid value: ["v0"]: must include at least one of v1, v1beta1` {
		t.Errorf("after none: %v", errs)
	}
}

// TestStoredExpressions: an expression that is stored compiles as one, also in another condition, and untrimmed does not
// count as stored.
func TestStoredExpressions(t *testing.T) {
	k := find(t, "mutatingwebhookconfigurations")
	stored := configuration()
	conditions(admissionv1.MatchCondition{Name: "a", Expression: "old"})(stored)
	registrytest.Update(t, k, "", stored, []change{
		{Name: "another name", To: conditions(admissionv1.MatchCondition{Name: "b", Expression: " old"})},
		{Name: "a bad one beside it", To: conditions(admissionv1.MatchCondition{Name: "a", Expression: "old"}, admissionv1.MatchCondition{Name: "b", Expression: "bad"}),
			Refused: []string{`webhooks[0].matchConditions[1].expression: Invalid value: "bad": compilation failed`}},
		{Name: "a webhook more", To: func(c *mutating) {
			c.Webhooks = append(c.Webhooks, hook())
			c.Webhooks[1].Name = "b.example.com"
			c.Webhooks[1].MatchConditions = c.Webhooks[0].MatchConditions
		}},
	})
	registrytest.Update(t, k, "", configuration(), []change{
		{Name: "not stored", To: conditions(admissionv1.MatchCondition{Name: "a", Expression: "old"}), Refused: []string{
			`webhooks[0].matchConditions[0].expression: Invalid value: "old": compilation failed`}},
	})
}
