package flowcontrol

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	exempt   = flowcontrolv1.PriorityLevelConfigurationNameExempt
	catchAll = flowcontrolv1.PriorityLevelConfigurationNameCatchAll
)

// PriorityLevels returns the priority levels that every API server keeps, as new objects: the mandatory ones, whose specs
// are fixed, and the suggested ones.
func PriorityLevels() (mandatory, suggested []*flowcontrolv1.PriorityLevelConfiguration) {
	mandatory = []priorityLevel{
		limited(catchAll, 5, 0, nil),
		level(exempt, flowcontrolv1.PriorityLevelConfigurationSpec{
			Type:   flowcontrolv1.PriorityLevelEnablementExempt,
			Exempt: &flowcontrolv1.ExemptPriorityLevelConfiguration{NominalConcurrencyShares: new(int32(0)), LendablePercent: new(int32(0))},
		}),
	}
	queues := func(n, hand int32) *flowcontrolv1.QueuingConfiguration {
		return &flowcontrolv1.QueuingConfiguration{Queues: n, HandSize: hand, QueueLengthLimit: 50}
	}
	return mandatory, []priorityLevel{
		limited("system", 30, 33, queues(64, 6)),
		limited("node-high", 40, 25, queues(64, 6)),
		limited("leader-election", 10, 0, queues(16, 4)),
		limited("workload-high", 40, 50, queues(128, 6)),
		limited("workload-low", 100, 90, queues(128, 6)),
		limited("global-default", 20, 50, queues(128, 6)),
	}
}

// limited returns a level that rejects what is too much unless it has queues.
func limited(name string, shares, lendable int32, queues *flowcontrolv1.QueuingConfiguration) priorityLevel {
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

func level(name string, spec flowcontrolv1.PriorityLevelConfigurationSpec) priorityLevel {
	return &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: kept(name), Spec: spec}
}

func kept(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Annotations: map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: "true"}}
}

// FlowSchemas returns the flow schemas that every API server keeps, as PriorityLevels does.
func FlowSchemas() (mandatory, suggested []*flowcontrolv1.FlowSchema) {
	const byUser, byNamespace = flowcontrolv1.FlowDistinguisherMethodByUserType, flowcontrolv1.FlowDistinguisherMethodByNamespaceType
	everybody, nodes := groups("system:unauthenticated", "system:authenticated"), groups("system:nodes")
	mandatory = []flowSchema{
		flow(exempt, exempt, 1, "", anything(groups("system:masters"))),
		flow(catchAll, catchAll, 10000, byUser, anything(everybody)),
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
	return mandatory, []flowSchema{
		flow("system-nodes", "system", 500, byUser, anything(nodes)),
		flow("system-node-high", "node-high", 400, byUser, heartbeats),
		flow("probes", exempt, 2, "", probes),
		flow("system-leader-election", "leader-election", 100, byUser, elections),
		flow("kube-controller-manager", "workload-high", 800, byNamespace, anything(users("system:kube-controller-manager"))),
		flow("kube-scheduler", "workload-high", 800, byNamespace, anything(users("system:kube-scheduler"))),
		flow("kube-system-service-accounts", "workload-high", 900, byNamespace, anything(systemAccounts())),
		flow("service-accounts", "workload-low", 9000, byUser, anything(groups("system:serviceaccounts"))),
		flow("global-default", "global-default", 9900, byUser, anything(everybody)),
	}
}

func flow(name, level string, precedence int32, method flowcontrolv1.FlowDistinguisherMethodType, rules flowcontrolv1.PolicyRulesWithSubjects) flowSchema {
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

// RevisePriorityLevel returns what a kept priority level must become, or nil if it is as it should be. Suggested ones are
// kept only while their annotation apf.kubernetes.io/autoupdate-spec says so, or nobody has changed them. Neither argument
// is changed.
func RevisePriorityLevel(current, want *flowcontrolv1.PriorityLevelConfiguration, mandatory bool) *flowcontrolv1.PriorityLevelConfiguration {
	want = want.DeepCopy()
	DefaultPriorityLevel(want)
	if want.Name == exempt && current.Spec.Exempt != nil { // what the exempt level lends is the administrator's to say
		want.Spec.Exempt = current.Spec.Exempt.DeepCopy()
	}
	keep := mandatory || keeps(current)
	revised := current.DeepCopy()
	changed := keep && !equality.Semantic.DeepEqual(want.Spec, current.Spec)
	if changed {
		revised.Spec = want.Spec
	}
	if mark(&revised.ObjectMeta, keep) || changed {
		return revised
	}
	return nil
}

// ReviseFlowSchema is RevisePriorityLevel for flow schemas.
func ReviseFlowSchema(current, want *flowcontrolv1.FlowSchema, mandatory bool) *flowcontrolv1.FlowSchema {
	want = want.DeepCopy()
	DefaultFlowSchema(want)
	keep := mandatory || keeps(current)
	revised := current.DeepCopy()
	changed := keep && !equality.Semantic.DeepEqual(want.Spec, current.Spec)
	if changed {
		revised.Spec = want.Spec
	}
	if mark(&revised.ObjectMeta, keep) || changed {
		return revised
	}
	return nil
}

// keeps reports whether the spec of an object is kept as this server wants it.
func keeps(obj metav1.Object) bool {
	value, err := strconv.ParseBool(obj.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey])
	if err != nil {
		return obj.GetGeneration() == 1
	}
	return value
}

// mark says in an annotation whether a spec is kept, and reports whether it did not yet.
func mark(meta *metav1.ObjectMeta, keep bool) bool {
	if value, err := strconv.ParseBool(meta.Annotations[flowcontrolv1.AutoUpdateAnnotationKey]); err == nil && value == keep {
		return false
	}
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	meta.Annotations[flowcontrolv1.AutoUpdateAnnotationKey] = strconv.FormatBool(keep)
	return true
}

// Unwanted reports whether a server of another version has kept an object that this one does not know. known are the names
// of those of its kind that it does.
func Unwanted(obj metav1.Object, known []string) bool {
	value, err := strconv.ParseBool(obj.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey])
	return err == nil && value && !slices.Contains(known, obj.GetName())
}

// SetDangling sets the condition that tells whether a schema's priority level is missing, and reports whether that
// changes anything. It changes s.
func SetDangling(s *flowcontrolv1.FlowSchema, missing bool) bool {
	level := s.Spec.PriorityLevelConfiguration.Name
	want := flowcontrolv1.FlowSchemaCondition{
		Type: flowcontrolv1.FlowSchemaConditionDangling, Status: flowcontrolv1.ConditionFalse, Reason: "Found",
		Message: fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q and it exists", level),
	}
	if missing {
		want.Status, want.Reason = flowcontrolv1.ConditionTrue, "NotFound"
		want.Message = fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q but there is no such object", level)
	}
	at := slices.IndexFunc(s.Status.Conditions, func(c flowcontrolv1.FlowSchemaCondition) bool { return c.Type == want.Type })
	if at < 0 {
		s.Status.Conditions = append(s.Status.Conditions, flowcontrolv1.FlowSchemaCondition{})
		at = len(s.Status.Conditions) - 1
	}
	have := &s.Status.Conditions[at]
	if have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message {
		return false
	}
	want.LastTransitionTime = metav1.NewTime(time.Now())
	*have = want
	return true
}
