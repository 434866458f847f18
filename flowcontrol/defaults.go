package flowcontrol

import (
	"slices"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultLevels returns the priority levels that every API server keeps, as new objects: the mandatory ones, whose specs
// are fixed, and the suggested ones.
func DefaultLevels() (mandatory, suggested []*flowcontrolv1.PriorityLevelConfiguration) {
	mandatory = []*flowcontrolv1.PriorityLevelConfiguration{
		limited(catchAll, 5, 0, nil),
		level(exempt, flowcontrolv1.PriorityLevelConfigurationSpec{
			Type:   flowcontrolv1.PriorityLevelEnablementExempt,
			Exempt: &flowcontrolv1.ExemptPriorityLevelConfiguration{NominalConcurrencyShares: new(int32(0)), LendablePercent: new(int32(0))},
		}),
	}
	queues := func(n, hand int32) *flowcontrolv1.QueuingConfiguration {
		return &flowcontrolv1.QueuingConfiguration{Queues: n, HandSize: hand, QueueLengthLimit: 50}
	}
	return mandatory, []*flowcontrolv1.PriorityLevelConfiguration{
		limited("system", 30, 33, queues(64, 6)),
		limited("node-high", 40, 25, queues(64, 6)),
		limited("leader-election", 10, 0, queues(16, 4)),
		limited("workload-high", 40, 50, queues(128, 6)),
		limited("workload-low", 100, 90, queues(128, 6)),
		limited("global-default", 20, 50, queues(128, 6)),
	}
}

// limited returns a level that rejects what is too much unless it has queues.
func limited(name string, shares, lendable int32, queues *flowcontrolv1.QueuingConfiguration) *flowcontrolv1.PriorityLevelConfiguration {
	response := flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject}
	if queues != nil {
		response = flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeQueue, Queuing: queues}
	}
	return level(name, flowcontrolv1.PriorityLevelConfigurationSpec{
		Type: flowcontrolv1.PriorityLevelEnablementLimited,
		Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
			NominalConcurrencyShares: &shares, LendablePercent: &lendable, LimitResponse: response,
		},
	})
}

func level(name string, spec flowcontrolv1.PriorityLevelConfigurationSpec) *flowcontrolv1.PriorityLevelConfiguration {
	return &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: kept(name), Spec: spec}
}

func kept(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Annotations: map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: "true"}}
}

// DefaultSchemas returns the flow schemas that every API server keeps, as DefaultLevels does.
func DefaultSchemas() (mandatory, suggested []*flowcontrolv1.FlowSchema) {
	const byUser, byNamespace = flowcontrolv1.FlowDistinguisherMethodByUserType, flowcontrolv1.FlowDistinguisherMethodByNamespaceType
	everybody, nodes := groups("system:unauthenticated", "system:authenticated"), groups("system:nodes")
	mandatory = []*flowcontrolv1.FlowSchema{
		schema(exempt, exempt, 1, "", anything(groups("system:masters"))),
		schema(catchAll, catchAll, 10000, byUser, anything(everybody)),
	}
	probes := flowcontrolv1.PolicyRulesWithSubjects{Subjects: everybody, NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{
		{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz", "/readyz", "/livez"}},
	}}
	elections := flowcontrolv1.PolicyRulesWithSubjects{
		Subjects:      slices.Concat(users("system:kube-controller-manager", "system:kube-scheduler"), systemAccounts()),
		ResourceRules: []flowcontrolv1.ResourcePolicyRule{on([]string{"get", "create", "update"}, "coordination.k8s.io", false, "leases")},
	}
	heartbeats := flowcontrolv1.PolicyRulesWithSubjects{Subjects: nodes, ResourceRules: []flowcontrolv1.ResourcePolicyRule{
		on([]string{"*"}, "", true, "nodes", "nodes/status"), on([]string{"*"}, "coordination.k8s.io", false, "leases"),
	}}
	return mandatory, []*flowcontrolv1.FlowSchema{
		schema("system-nodes", "system", 500, byUser, anything(nodes)),
		schema("system-node-high", "node-high", 400, byUser, heartbeats),
		schema("probes", exempt, 2, "", probes),
		schema("system-leader-election", "leader-election", 100, byUser, elections),
		schema("kube-controller-manager", "workload-high", 800, byNamespace, anything(users("system:kube-controller-manager"))),
		schema("kube-scheduler", "workload-high", 800, byNamespace, anything(users("system:kube-scheduler"))),
		schema("kube-system-service-accounts", "workload-high", 900, byNamespace, anything(systemAccounts())),
		schema("service-accounts", "workload-low", 9000, byUser, anything(groups("system:serviceaccounts"))),
		schema("global-default", "global-default", 9900, byUser, anything(everybody)),
	}
}

func schema(name, level string, precedence int32, method flowcontrolv1.FlowDistinguisherMethodType, rules flowcontrolv1.PolicyRulesWithSubjects) *flowcontrolv1.FlowSchema {
	s := &flowcontrolv1.FlowSchema{ObjectMeta: kept(name), Spec: flowcontrolv1.FlowSchemaSpec{
		PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: level},
		MatchingPrecedence:         precedence, Rules: []flowcontrolv1.PolicyRulesWithSubjects{rules},
	}}
	if method != "" {
		s.Spec.DistinguisherMethod = &flowcontrolv1.FlowDistinguisherMethod{Type: method}
	}
	return s
}

func anything(of []flowcontrolv1.Subject) flowcontrolv1.PolicyRulesWithSubjects {
	all := []string{"*"}
	return flowcontrolv1.PolicyRulesWithSubjects{
		Subjects: of, ResourceRules: []flowcontrolv1.ResourcePolicyRule{on(all, "*", true, "*")},
		NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: all, NonResourceURLs: all}},
	}
}

func on(verbs []string, group string, clusterScope bool, resources ...string) flowcontrolv1.ResourcePolicyRule {
	return flowcontrolv1.ResourcePolicyRule{
		Verbs: verbs, APIGroups: []string{group}, Resources: resources, Namespaces: []string{"*"}, ClusterScope: clusterScope,
	}
}

func groups(names ...string) []flowcontrolv1.Subject {
	var out []flowcontrolv1.Subject
	for _, name := range names {
		out = append(out, flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: name}})
	}
	return out
}

func users(names ...string) []flowcontrolv1.Subject {
	var out []flowcontrolv1.Subject
	for _, name := range names {
		out = append(out, flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: name}})
	}
	return out
}

func systemAccounts() []flowcontrolv1.Subject {
	return []flowcontrolv1.Subject{{
		Kind:           flowcontrolv1.SubjectKindServiceAccount,
		ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Name: flowcontrolv1.NameAll, Namespace: metav1.NamespaceSystem},
	}}
}

// DefaultConfig is made of the objects that every API server keeps.
func DefaultConfig() *Config {
	mandatory, suggested := DefaultLevels()
	required, proposed := DefaultSchemas()
	return NewConfig(append(required, proposed...), append(mandatory, suggested...))
}
