package audit_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	internal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/apis/audit/validation"
	upstream "k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// TestPolicies: both refuse the same policies and record the same requests.
func TestPolicies(t *testing.T) {
	r := source{rand.New(rand.NewPCG(1, 2))}
	valid, recorded := 0, 0
	for range 50_000 {
		p := r.policy()
		var theirs internal.Policy
		if err := auditv1.Convert_v1_Policy_To_audit_Policy(p.DeepCopy(), &theirs, nil); err != nil {
			t.Fatal(err)
		}
		refusals := validation.ValidatePolicy(&theirs)
		ours, err := audit.NewPolicy(p)
		if (len(refusals) > 0) != (err != nil) {
			t.Fatalf("%+v: upstream %v, keelson %v", p, refusals, err)
		}
		if err != nil {
			continue
		}
		valid++
		evaluator := upstream.NewPolicyRuleEvaluator(&theirs)
		for range 5 {
			a := r.attributes()
			want, got := evaluator.EvaluatePolicyRule(record(a)), ours.Rule(&a)
			omit := []auditv1.Stage{}
			for _, stage := range want.OmitStages {
				omit = append(omit, auditv1.Stage(stage))
			}
			slices.Sort(omit)
			had := append([]auditv1.Stage{}, got.OmitStages...)
			slices.Sort(had)
			if string(want.Level) != string(got.Level) || want.OmitManagedFields != got.OmitManagedFields || !slices.Equal(omit, had) {
				t.Fatalf("%+v\n%+v\n(-upstream +keelson) %s", p, a, cmp.Diff(want, got))
			}
			if got.Level != auditv1.LevelNone {
				recorded++
			}
		}
	}
	if valid < 10_000 || recorded < 5_000 {
		t.Errorf("only %d policies are valid and %d requests recorded: the test says little", valid, recorded)
	}
}

// source makes policies and requests from few words, which makes matches likely.
type source struct{ *rand.Rand }

func (r source) one(of ...string) string { return of[r.IntN(len(of))] }

func (r source) some(of ...string) []string {
	return slices.DeleteFunc(of, func(string) bool { return r.IntN(4) != 0 })
}

func (r source) stages() []auditv1.Stage {
	var out []auditv1.Stage
	for _, s := range r.some("RequestReceived", "ResponseStarted", "ResponseComplete", "Panic") {
		out = append(out, auditv1.Stage(s))
	}
	if r.IntN(30) == 0 {
		out = append(out, "Begun")
	}
	return out
}

func (r source) policy() auditv1.Policy {
	p := auditv1.Policy{OmitManagedFields: r.IntN(2) == 0, OmitStages: r.stages()}
	for range 1 + r.IntN(3) {
		rule := auditv1.PolicyRule{
			Level: auditv1.Level(r.one("None", "Metadata", "Request", "RequestResponse")),
			Users: r.some("ann", "bob"), UserGroups: r.some("g", "h"), Verbs: r.some("get", "list", ""), OmitStages: r.stages(),
		}
		if r.IntN(30) == 0 {
			rule.Level = auditv1.Level(r.one("", "All"))
		}
		if r.IntN(2) == 0 {
			rule.Namespaces = r.some("x", "", "y")
			for range r.IntN(3) {
				rule.Resources = append(rule.Resources, auditv1.GroupResources{
					Group:         r.one("", "", "apps", "apps", "*", "*", "b/v1"),
					Resources:     r.some("pods", "pods/log", "pods/*", "*/log", "*", "pods/", "/log", "*/*", "*/", "/*", "pods/log/x"),
					ResourceNames: r.some("n", ""),
				})
			}
		} else {
			rule.NonResourceURLs = r.some("*", "/a", "/a*", "/a/*", "/b", "/", "", "a", "/*a")
		}
		if r.IntN(3) == 0 {
			omit := r.IntN(2) == 0
			rule.OmitManagedFields = &omit
		}
		p.Rules = append(p.Rules, rule)
	}
	return p
}

func (r source) attributes() authz.Attributes {
	a := authz.Attributes{Verb: r.one("get", "list", "create"), Path: r.one("/a", "/a/b", "/b", "/", "")}
	if r.IntN(4) != 0 {
		a.User = &authn.Identity{Name: r.one("ann", "bob", "carol"), Groups: r.some("g", "h", "i")}
	}
	if a.ResourceRequest = r.IntN(2) == 0; a.ResourceRequest {
		a.Group, a.Resource, a.Subresource = r.one("", "apps"), r.one("pods", "jobs", ""), r.one("", "log", "x")
		a.Namespace, a.Name = r.one("", "x", "z"), r.one("", "n", "m")
	}
	return a
}

func record(a authz.Attributes) authorizer.Attributes {
	out := authorizer.AttributesRecord{
		Verb: a.Verb, Namespace: a.Namespace, APIGroup: a.Group, Resource: a.Resource, Subresource: a.Subresource,
		Name: a.Name, ResourceRequest: a.ResourceRequest, Path: a.Path,
	}
	if a.User != nil {
		out.User = &user.DefaultInfo{Name: a.User.Name, Groups: a.User.Groups}
	}
	return out
}
