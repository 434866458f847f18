package flowcontrol_test

import (
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/flowcontrol"
)

func by(name string, groups ...string) *authn.Identity {
	return &authn.Identity{Name: name, Groups: groups}
}

func on(who *authn.Identity, verb, group, resource, subresource, namespace string) authz.Attributes {
	return authz.Attributes{User: who, Verb: verb, Group: group, Resource: resource, Subresource: subresource, Namespace: namespace, ResourceRequest: true}
}

func at(who *authn.Identity, verb, path string) authz.Attributes {
	return authz.Attributes{User: who, Verb: verb, Path: path}
}

// TestDefaults: what upstream's default objects make of requests.
func TestDefaults(t *testing.T) {
	c := flowcontrol.DefaultConfig()
	all, nodes := "system:authenticated", authn.GroupNodes
	account := func(namespace string) *authn.Identity {
		return by("system:serviceaccount:"+namespace+":a", "system:serviceaccounts", all)
	}
	for _, tt := range []struct {
		name                string
		request             authz.Attributes
		schema, level, flow string
	}{
		{"a master", on(by("root", authn.GroupMasters, all), "get", "", "pods", "", "ns"), "exempt", "exempt", ""},
		{"a probe", at(by("ann", all), "get", "/livez"), "probes", "exempt", ""},
		{"a probe of a part", at(by("ann", all), "get", "/livez/etcd"), "probes", "exempt", ""},
		{"what begins like a probe", at(by("ann", all), "get", "/livezz"), "global-default", "global-default", "ann"},
		{"a probe that writes", at(by("ann", all), "post", "/livez"), "global-default", "global-default", "ann"},
		{"a node's heartbeat", on(by("system:node:n", nodes, all), "update", "coordination.k8s.io", "leases", "", "kube-node-lease"), "system-node-high", "node-high", "system:node:n"},
		{"a node's status", on(by("system:node:n", nodes, all), "patch", "", "nodes", "status", ""), "system-node-high", "node-high", "system:node:n"},
		{"a node's proxy", on(by("system:node:n", nodes, all), "get", "", "nodes", "proxy", ""), "system-nodes", "system", "system:node:n"},
		{"a node's pods", on(by("system:node:n", nodes, all), "list", "", "pods", "", ""), "system-nodes", "system", "system:node:n"},
		{"the scheduler's lease", on(by("system:kube-scheduler", all), "update", "coordination.k8s.io", "leases", "", "kube-system"), "system-leader-election", "leader-election", "system:kube-scheduler"},
		{"the scheduler watches leases", on(by("system:kube-scheduler", all), "watch", "coordination.k8s.io", "leases", "", "kube-system"), "kube-scheduler", "workload-high", "kube-system"},
		{"an account of the cluster", on(account("kube-system"), "list", "", "pods", "", "ns"), "kube-system-service-accounts", "workload-high", "ns"},
		{"its lease", on(account("kube-system"), "get", "coordination.k8s.io", "leases", "", "ns"), "system-leader-election", "leader-election", "system:serviceaccount:kube-system:a"},
		{"an account of another namespace", on(account("kube-system2"), "list", "", "pods", "", "ns"), "service-accounts", "workload-low", "system:serviceaccount:kube-system2:a"},
		{"a person", on(by("ann", all), "list", "", "pods", "", "ns"), "global-default", "global-default", "ann"},
		{"nobody's group", on(by("ann"), "list", "", "pods", "", "ns"), "catch-all", "catch-all", "ann"},
	} {
		got := c.Classify(tt.request)
		if got.Schema.Name != tt.schema || got.Level.Name != tt.level || got.Flow != tt.flow {
			t.Errorf("%s: %s, %s, %q; want %s, %s, %q", tt.name, got.Schema.Name, got.Level.Name, got.Flow, tt.schema, tt.level, tt.flow)
		}
	}
}

// TestMatches are the rules that no default object has.
func TestMatches(t *testing.T) {
	resource := func(r flowcontrolv1.ResourcePolicyRule) *flowcontrolv1.FlowSchema {
		return ruled(flowcontrolv1.PolicyRulesWithSubjects{Subjects: []flowcontrolv1.Subject{{Kind: "User", User: &flowcontrolv1.UserSubject{Name: "*"}}}, ResourceRules: []flowcontrolv1.ResourcePolicyRule{r}})
	}
	path := func(verb string, urls ...string) *flowcontrolv1.FlowSchema {
		return ruled(flowcontrolv1.PolicyRulesWithSubjects{
			Subjects:         []flowcontrolv1.Subject{{Kind: "Group", Group: &flowcontrolv1.GroupSubject{Name: "*"}}},
			NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{verb}, NonResourceURLs: urls}},
		})
	}
	subject := func(s flowcontrolv1.Subject) *flowcontrolv1.FlowSchema {
		all := []string{"*"}
		return ruled(flowcontrolv1.PolicyRulesWithSubjects{Subjects: []flowcontrolv1.Subject{s}, NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: all, NonResourceURLs: all}}})
	}
	account := func(namespace, name string) *flowcontrolv1.FlowSchema {
		return subject(flowcontrolv1.Subject{Kind: "ServiceAccount", ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: namespace, Name: name}})
	}
	pods := flowcontrolv1.ResourcePolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods", "pods/log"}, Namespaces: []string{"a", "b"}}
	everywhere := pods
	everywhere.ClusterScope, everywhere.Namespaces = true, nil
	stars := flowcontrolv1.ResourcePolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, Namespaces: []string{"*"}}
	ann := by("ann")
	for _, tt := range []struct {
		name    string
		schema  *flowcontrolv1.FlowSchema
		request authz.Attributes
		want    bool
	}{
		{"resource", resource(pods), on(ann, "get", "", "pods", "", "b"), true},
		{"subresource", resource(pods), on(ann, "get", "", "pods", "log", "b"), true},
		{"another subresource", resource(pods), on(ann, "get", "", "pods", "exec", "b"), false},
		{"as long a subresource", resource(pods), on(ann, "get", "", "pods", "lag", "b"), false},
		{"another verb", resource(pods), on(ann, "list", "", "pods", "", "b"), false},
		{"another group", resource(pods), on(ann, "get", "x", "pods", "", "b"), false},
		{"another resource", resource(pods), on(ann, "get", "", "pod", "", "b"), false},
		{"another namespace", resource(pods), on(ann, "get", "", "pods", "", "c"), false},
		{"no namespace", resource(pods), on(ann, "get", "", "pods", "", ""), false},
		{"cluster scope", resource(everywhere), on(ann, "get", "", "pods", "", ""), true},
		{"cluster scope only", resource(everywhere), on(ann, "get", "", "pods", "", "a"), false},
		{"anything", resource(stars), on(ann, "x", "y", "z", "log", "n"), true},
		{"anything but paths", resource(stars), at(ann, "get", "/x"), false},
		{"a star among others is none", resource(flowcontrolv1.ResourcePolicyRule{Verbs: []string{"*", "get"}, APIGroups: []string{"*"}, Resources: []string{"*"}, Namespaces: []string{"*"}}), on(ann, "list", "", "pods", "", "a"), false},
		{"path", path("get", "/a"), at(ann, "get", "/a"), true},
		{"below a path", path("get", "/a"), at(ann, "get", "/a/b"), true},
		{"below a path with a star", path("get", "/a/*"), at(ann, "get", "/a/b"), true},
		{"not below a path with a star", path("get", "/a/*"), at(ann, "get", "/a"), false},
		{"beside a path", path("get", "/a"), at(ann, "get", "/ab"), false},
		{"the second path", path("get", "/a", "/b"), at(ann, "get", "/b"), true},
		{"all paths", path("get", "*"), at(ann, "get", "/x"), true},
		{"all paths below the root", path("get", "/"), at(ann, "get", "/x"), true},
		{"another verb of a path", path("get", "*"), at(ann, "post", "/x"), false},
		{"paths but resources", path("*", "*"), on(ann, "get", "", "pods", "", "a"), false},
		{"user", subject(flowcontrolv1.Subject{Kind: "User", User: &flowcontrolv1.UserSubject{Name: "ann"}}), at(ann, "get", "/"), true},
		{"another user", subject(flowcontrolv1.Subject{Kind: "User", User: &flowcontrolv1.UserSubject{Name: "an"}}), at(ann, "get", "/"), false},
		{"no user", subject(flowcontrolv1.Subject{Kind: "User"}), at(ann, "get", "/"), false},
		{"group", subject(flowcontrolv1.Subject{Kind: "Group", Group: &flowcontrolv1.GroupSubject{Name: "g"}}), at(by("ann", "f", "g"), "get", "/"), true},
		{"another group", subject(flowcontrolv1.Subject{Kind: "Group", Group: &flowcontrolv1.GroupSubject{Name: "ann"}}), at(by("ann", "f", "g"), "get", "/"), false},
		{"no group", subject(flowcontrolv1.Subject{Kind: "Group"}), at(ann, "get", "/"), false},
		{"account", account("ns", "a"), at(by("system:serviceaccount:ns:a"), "get", "/"), true},
		{"another account", account("ns", "a"), at(by("system:serviceaccount:ns:ab"), "get", "/"), false},
		{"an account of another namespace", account("ns", "*"), at(by("system:serviceaccount:ns2:a"), "get", "/"), false},
		{"all accounts", account("ns", "*"), at(by("system:serviceaccount:ns:b"), "get", "/"), true},
		{"no account", account("ns", "*"), at(by("ns:b"), "get", "/"), false},
		{"no subject", subject(flowcontrolv1.Subject{Kind: "ServiceAccount"}), at(by("system:serviceaccount:ns:b"), "get", "/"), false},
	} {
		if got := flowcontrol.Matches(tt.schema, tt.request); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}

func ruled(r flowcontrolv1.PolicyRulesWithSubjects) *flowcontrolv1.FlowSchema {
	return &flowcontrolv1.FlowSchema{Spec: flowcontrolv1.FlowSchemaSpec{Rules: []flowcontrolv1.PolicyRulesWithSubjects{r}}}
}

func schema(name, level string, precedence int32) *flowcontrolv1.FlowSchema {
	all := []string{"*"}
	s := ruled(flowcontrolv1.PolicyRulesWithSubjects{
		Subjects:         []flowcontrolv1.Subject{{Kind: "User", User: &flowcontrolv1.UserSubject{Name: "*"}}},
		NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: all, NonResourceURLs: all}},
	})
	s.Name, s.Spec.PriorityLevelConfiguration.Name, s.Spec.MatchingPrecedence = name, level, precedence
	return s
}

func level(name string, shares int32, change func(*flowcontrolv1.LimitedPriorityLevelConfiguration)) *flowcontrolv1.PriorityLevelConfiguration {
	limited := &flowcontrolv1.LimitedPriorityLevelConfiguration{
		NominalConcurrencyShares: &shares, LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject},
	}
	if change != nil {
		change(limited)
	}
	return &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
		Type: flowcontrolv1.PriorityLevelEnablementLimited, Limited: limited,
	}}
}

func queues(q flowcontrolv1.QueuingConfiguration) func(*flowcontrolv1.LimitedPriorityLevelConfiguration) {
	return func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) {
		l.LimitResponse = flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeQueue, Queuing: &q}
	}
}

// TestPrecedence: schemas count in their order, if their level is there and makes sense.
func TestPrecedence(t *testing.T) {
	broken := map[string]*flowcontrolv1.PriorityLevelConfiguration{
		"no type":   {},
		"no limits": {Spec: flowcontrolv1.PriorityLevelConfigurationSpec{Type: flowcontrolv1.PriorityLevelEnablementLimited}},
		"exempt":    {Spec: flowcontrolv1.PriorityLevelConfigurationSpec{Type: flowcontrolv1.PriorityLevelEnablementExempt, Exempt: &flowcontrolv1.ExemptPriorityLevelConfiguration{}}},
		"no queues": level("", 1, func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) {
			l.LimitResponse.Type = flowcontrolv1.LimitResponseTypeQueue
		}),
		"queues unwanted": level("", 1, func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) {
			l.LimitResponse.Queuing = &flowcontrolv1.QueuingConfiguration{Queues: 1, HandSize: 1}
		}),
		"zero queues":      level("", 1, queues(flowcontrolv1.QueuingConfiguration{})),
		"no hand":          level("", 1, queues(flowcontrolv1.QueuingConfiguration{Queues: 2})),
		"a hand too large": level("", 1, queues(flowcontrolv1.QueuingConfiguration{Queues: 2, HandSize: 3})),
	}
	for name, l := range broken {
		l.Name = "l"
		c := flowcontrol.NewConfig([]*flowcontrolv1.FlowSchema{schema("s", "l", 1)}, []*flowcontrolv1.PriorityLevelConfiguration{l})
		if got := c.Classify(at(by("ann"), "get", "/")).Schema.Name; got != "catch-all" || len(c.Levels()) != 2 {
			t.Errorf("%s: %s, %d levels", name, got, len(c.Levels()))
		}
	}
	l, q := level("l", 1, nil), level("q", 1, queues(flowcontrolv1.QueuingConfiguration{Queues: 2, HandSize: 2}))
	levels := []*flowcontrolv1.PriorityLevelConfiguration{l, q}
	for want, schemas := range map[string][]*flowcontrolv1.FlowSchema{
		"first":     {schema("second", "l", 8), schema("first", "q", 7)},
		"a":         {schema("b", "l", 7), schema("a", "q", 7)},
		"there":     {schema("missing", "x", 7), schema("there", "q", 8)},
		"catch-all": {schema("missing", "x", 7), schema("a level that is not there yet", "exempt", 7)},
	} {
		if got := flowcontrol.NewConfig(schemas, levels).Classify(at(by("ann"), "get", "/")).Schema.Name; got != want {
			t.Errorf("%s: %s", want, got)
		}
	}
	own := level("catch-all", 77, nil)
	c := flowcontrol.NewConfig(nil, []*flowcontrolv1.PriorityLevelConfiguration{own})
	if got := c.Classify(at(by("ann"), "get", "/")); got.Level != own || len(c.Levels()) != 2 {
		t.Errorf("%+v", got)
	}
}
