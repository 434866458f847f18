package audit_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

const head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"

func TestParsePolicy(t *testing.T) {
	tests := []struct{ name, policy, err string }{
		{"no YAML", "a: [", "yaml"},
		{"aliases", "a: &a " + strings.Repeat("x", 1<<17) + "\nb: [" + strings.Repeat("*a, ", 1<<15) + "]\n" + head, "its aliases expand to more than 3145728 bytes"},
		{"empty", "", `apiVersion "", kind ""`},
		{"other version", "apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]", `want apiVersion "audit.k8s.io/v1", kind "Policy"`},
		{"unknown field", head + "rules: [{level: None, user: [a]}]", `unknown field "rules[0].user"`},
		{"no rules", head, `rules: there are none`},
		{"no level", head + "rules: [{verbs: [get]}]", "rules[0].level: Required value: None, Metadata, Request or RequestResponse"},
		{"unknown level", head + "rules: [{level: All}]", `rules[0].level: Unsupported value: "All": supported values: "None", "Metadata", "Request", "RequestResponse"`},
		{"unknown stage", head + "omitStages: [Begun]\nrules: [{level: None}]", `omitStages[0]: Unsupported value: "Begun"`},
		{"unknown stage of a rule", head + "rules: [{level: None, omitStages: [Panic, x]}]", `rules[0].omitStages[1]: Unsupported value: "x"`},
		{"path without slash", head + "rules: [{level: None, nonResourceURLs: [healthz]}]", `rules[0].nonResourceURLs[0]: Invalid value: "healthz": non-resource URL rules must begin with a '/' character`},
		{"star within", head + `rules: [{level: None, nonResourceURLs: ["/a", "/*/b"]}]`, `rules[0].nonResourceURLs[1]: Invalid value: "/*/b": non-resource URL wildcards '*' must be the final character of the rule`},
		{"paths and resources", head + `rules: [{level: None, nonResourceURLs: ["/a"], namespaces: [x]}]`, "rules cannot apply to both regular resources and non-resource URLs"},
		{"group with version", head + `rules: [{level: None, resources: [{group: ""}, {group: apps/v1}]}]`, `rules[0].resources[1].group: Invalid value: "apps/v1"`},
		{"names without resources", head + `rules: [{level: None, resources: [{resourceNames: [a]}]}]`, "using resourceNames requires at least one resource"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, err := audit.ParsePolicy([]byte(test.policy))
			if p != nil || !errors.Is(err, audit.ErrPolicy) || !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %v, want %q", err, test.err)
			}
		})
	}
	if _, err := audit.ParsePolicy([]byte(`{"apiVersion":"audit.k8s.io/v1","kind":"Policy","rules":[{"level":"None","nonResourceURLs":["*","/a*"]},{"level":"Request","resources":[{"group":"*","resources":["*/scale"]}]}]}`)); err != nil {
		t.Errorf("JSON: %v", err)
	}
}

// TestRule: the policy that upstream's documentation shows, and further rules.
func TestRule(t *testing.T) {
	data, err := os.ReadFile("testdata/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := audit.ParsePolicy(data)
	if err != nil {
		t.Fatal(err)
	}
	ann := &authn.Identity{Name: "ann", Groups: []string{"dev", authn.GroupAuthenticated}}
	resource := func(verb, group, resource, sub, namespace, name string) authz.Attributes {
		return authz.Attributes{User: ann, Verb: verb, Group: group, Resource: resource, Subresource: sub, Namespace: namespace, Name: name, ResourceRequest: true}
	}
	path := func(path string) authz.Attributes { return authz.Attributes{User: ann, Verb: "get", Path: path} }
	received, started := auditv1.StageRequestReceived, auditv1.StageResponseStarted
	tests := []struct {
		name  string
		a     authz.Attributes
		level auditv1.Level
		omit  []auditv1.Stage
		bare  bool
	}{
		{"pods", resource("get", "", "pods", "", "x", "p"), auditv1.LevelRequestResponse, []auditv1.Stage{received}, true},
		{"their log", resource("get", "", "pods", "log", "x", "p"), auditv1.LevelMetadata, []auditv1.Stage{received}, true},
		{"their exec falls through", resource("create", "", "pods", "exec", "x", "p"), auditv1.LevelMetadata, []auditv1.Stage{received}, true},
		{"one config map", resource("get", "", "configmaps", "", "x", "controller-leader"), auditv1.LevelNone, []auditv1.Stage{received}, true},
		{"another", resource("get", "", "configmaps", "", "kube-system", "a"), auditv1.LevelRequest, []auditv1.Stage{received}, true},
		{"of another namespace", resource("get", "", "configmaps", "", "x", "a"), auditv1.LevelMetadata, []auditv1.Stage{received}, true},
		{"a whole group", resource("list", "extensions", "things", "", "", ""), auditv1.LevelRequest, []auditv1.Stage{received}, true},
		{"a group that begins alike", resource("list", "extensions.io", "things", "", "", ""), auditv1.LevelNone, []auditv1.Stage{received}, true},
		{"every scale", resource("update", "apps", "deployments", "scale", "x", "d"), auditv1.LevelRequest, []auditv1.Stage{started, received}, false},
		{"all of a resource", resource("get", "batch", "jobs", "", "x", "j"), auditv1.LevelRequest, []auditv1.Stage{started, received}, false},
		{"and what is below", resource("get", "batch", "jobs", "status", "x", "j"), auditv1.LevelRequest, []auditv1.Stage{started, received}, false},
		{"a path", path("/healthz"), auditv1.LevelMetadata, []auditv1.Stage{received}, true},
		{"a path below", path("/api/x"), auditv1.LevelNone, []auditv1.Stage{received}, true},
		{"no path is a resource", resource("get", "x", "y", "", "", ""), auditv1.LevelNone, []auditv1.Stage{received}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			want := audit.Rule{Level: test.level, OmitStages: test.omit, OmitManagedFields: test.bare}
			if diff := cmp.Diff(want, p.Rule(&test.a)); diff != "" {
				t.Error(diff)
			}
		})
	}
	// Who asks decides, too: kube-proxy's watches are not recorded, and of others by their group.
	watch := resource("watch", "", "services", "", "", "")
	watch.User = &authn.Identity{Name: "system:kube-proxy"}
	if got := p.Rule(&watch); got.Level != auditv1.LevelNone {
		t.Error(got)
	}
	nobody := path("/anything")
	nobody.User = nil
	if got := p.Rule(&nobody); got.Level != auditv1.LevelNone {
		t.Error(got)
	}
}

func FuzzParsePolicy(f *testing.F) {
	f.Add([]byte(head + "rules: [{level: Metadata}]"))
	f.Add([]byte(head + `rules: [{level: None, nonResourceURLs: ["*"]}, {level: Request, resources: [{group: "", resources: ["pods/*"]}]}]`))
	f.Add([]byte(`{"apiVersion":"audit.k8s.io/v1","kind":"Policy","rules":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := audit.ParsePolicy(data)
		if (p == nil) != (err != nil) {
			t.Fatalf("%v beside %v", p, err)
		}
		if err != nil {
			return
		}
		for _, a := range []authz.Attributes{{Path: "/a", Verb: "get"}, {ResourceRequest: true, Resource: "pods", Subresource: "log", Verb: "get"}} {
			if p.Rule(&a).Level == "" {
				t.Error("no level")
			}
		}
	})
}
