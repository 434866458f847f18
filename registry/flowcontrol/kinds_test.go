package flowcontrol_test

import (
	"fmt"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/api/flowcontrol/v1beta1"
	"k8s.io/api/flowcontrol/v1beta2"
	"k8s.io/api/flowcontrol/v1beta3"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	apf "github.com/keelson-dev/keelson/flowcontrol"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/flowcontrol"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

func TestKinds(t *testing.T) { registrytest.Kinds(t, flowcontrol.Kinds()) }

func schema() *flowcontrolv1.FlowSchema {
	return &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: "s", Generation: 1},
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "workload-low"}, MatchingPrecedence: 500,
			DistinguisherMethod: &flowcontrolv1.FlowDistinguisherMethod{Type: flowcontrolv1.FlowDistinguisherMethodByUserType},
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects: []flowcontrolv1.Subject{
					{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: "ann"}},
					{Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: "people"}},
					{Kind: flowcontrolv1.SubjectKindServiceAccount, ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Name: "*", Namespace: "ns"}},
				},
				ResourceRules:    []flowcontrolv1.ResourcePolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, Namespaces: []string{"ns"}}},
				NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{"*"}, NonResourceURLs: []string{"/", "/healthz/*"}}},
			}},
		},
	}
}

type schemaChange = registrytest.Change[*flowcontrolv1.FlowSchema]

// rules changes the first rules.
func rules(to func(*flowcontrolv1.PolicyRulesWithSubjects)) func(*flowcontrolv1.FlowSchema) {
	return func(s *flowcontrolv1.FlowSchema) { to(&s.Spec.Rules[0]) }
}

func subject(s flowcontrolv1.Subject) func(*flowcontrolv1.FlowSchema) {
	return rules(func(r *flowcontrolv1.PolicyRulesWithSubjects) { r.Subjects = []flowcontrolv1.Subject{s} })
}

func TestFlowSchema(t *testing.T) {
	k := registrytest.Find(t, flowcontrol.Kinds(), "flowschemas")
	const at = `spec.rules[0].`
	changes := []schemaChange{
		{Name: "precedence by default", To: func(s *flowcontrolv1.FlowSchema) { s.Spec.MatchingPrecedence = 0 }},
		{Name: "negative", To: func(s *flowcontrolv1.FlowSchema) { s.Spec.MatchingPrecedence = -1 }, Refused: []string{
			`spec.matchingPrecedence: Invalid value: -1: must be a positive value`}},
		{Name: "first", To: func(s *flowcontrolv1.FlowSchema) { s.Spec.MatchingPrecedence = 1 }, Refused: []string{
			`spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1`}},
		{Name: "large", To: func(s *flowcontrolv1.FlowSchema) { s.Spec.MatchingPrecedence = 10001 }, Refused: []string{
			`spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000`}},
		{Name: "no method", To: func(s *flowcontrolv1.FlowSchema) { s.Spec.DistinguisherMethod = nil }},
		{Name: "a method", To: func(s *flowcontrolv1.FlowSchema) { s.Spec.DistinguisherMethod.Type = "x" }, Refused: []string{
			`spec.distinguisherMethod.type: Unsupported value: {"Type":"x"}: supported values: "ByNamespace", "ByUser"`}},
		{Name: "no level", To: func(s *flowcontrolv1.FlowSchema) { s.Spec.PriorityLevelConfiguration.Name = "" }, Refused: []string{
			`spec.priorityLevelConfiguration.name: Required value: must reference a priority level`}},
		{Name: "nothing", To: rules(func(r *flowcontrolv1.PolicyRulesWithSubjects) { *r = flowcontrolv1.PolicyRulesWithSubjects{} }), Refused: []string{
			at + `subjects: Required value: subjects must contain at least one value`,
			`spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty`}},
		{Name: "no kind", To: subject(flowcontrolv1.Subject{Kind: "x"}), Refused: []string{
			at + `subjects[0].kind: Unsupported value: "x": supported values: "Group", "ServiceAccount", "User"`}},
		{Name: "no user", To: subject(flowcontrolv1.Subject{Kind: "User", Group: &flowcontrolv1.GroupSubject{}, ServiceAccount: &flowcontrolv1.ServiceAccountSubject{}}), Refused: []string{
			at + `subjects[0].user: Required value: user is required when subject kind is 'User'`,
			at + `subjects[0].serviceAccount: Forbidden: serviceAccount is forbidden when subject kind is not 'ServiceAccount'`,
			at + `subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'`}},
		{Name: "no group", To: subject(flowcontrolv1.Subject{Kind: "Group", User: &flowcontrolv1.UserSubject{}}), Refused: []string{
			at + `subjects[0].group: Required value: group is required when subject kind is 'Group'`,
			at + `subjects[0].user: Forbidden: user is forbidden when subject kind is not 'User'`}},
		{Name: "no account", To: subject(flowcontrolv1.Subject{Kind: "ServiceAccount"}), Refused: []string{
			at + `subjects[0].serviceAccount: Required value: serviceAccount is required when subject kind is 'ServiceAccount'`}},
		{Name: "no names", To: rules(func(r *flowcontrolv1.PolicyRulesWithSubjects) {
			r.Subjects[0].User.Name, r.Subjects[1].Group.Name, r.Subjects[2].ServiceAccount = "", "", &flowcontrolv1.ServiceAccountSubject{}
		}), Refused: []string{
			at + `subjects[0].user.name: Required value`, at + `subjects[1].group.name: Required value`,
			at + `subjects[2].serviceAccount.name: Required value`, at + `subjects[2].serviceAccount.namespace: Required value: must specify namespace for service account`}},
		{Name: "no rules of resources", To: rules(func(r *flowcontrolv1.PolicyRulesWithSubjects) {
			r.ResourceRules[0], r.NonResourceRules[0] = flowcontrolv1.ResourcePolicyRule{}, flowcontrolv1.NonResourcePolicyRule{}
		}), Refused: []string{
			at + `resourceRules[0].verbs: Required value: verbs must contain at least one value`,
			at + `resourceRules[0].apiGroups: Required value: resource rules must supply at least one api group`,
			at + `resourceRules[0].resources: Required value: resource rules must supply at least one resource`,
			at + `resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped must supply at least one namespace`,
			at + `nonResourceRules[0].verbs: Required value: verbs must contain at least one value`,
			at + `nonResourceRules[0].nonResourceURLs: Required value: nonResourceURLs must contain at least one value`}},
		{Name: "all and more", To: rules(func(r *flowcontrolv1.PolicyRulesWithSubjects) {
			two := []string{"*", "x"}
			r.ResourceRules[0] = flowcontrolv1.ResourcePolicyRule{Verbs: two, APIGroups: two, Resources: two, Namespaces: two}
			r.NonResourceRules[0] = flowcontrolv1.NonResourcePolicyRule{Verbs: []string{"x"}, NonResourceURLs: two}
		}), Refused: []string{
			at + `resourceRules[0].verbs: Invalid value: ["*","x"]: if '*' is present, must not specify other verbs`,
			at + `resourceRules[0].apiGroups: Invalid value: ["*","x"]: if '*' is present, must not specify other api groups`,
			at + `resourceRules[0].resources: Invalid value: ["*","x"]: if '*' is present, must not specify other resources`,
			at + `resourceRules[0].namespaces: Invalid value: ["*","x"]: if '*' is present, must not specify other namespaces`,
			at + `nonResourceRules[0].verbs: Unsupported value: ["x"]: supported values: "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"`,
			at + `nonResourceRules[0].nonResourceURLs: Invalid value: ["*","x"]: if '*' is present, must not specify other non-resource URLs`}},
		{Name: "URLs", To: rules(func(r *flowcontrolv1.PolicyRulesWithSubjects) {
			r.NonResourceRules[0].NonResourceURLs = []string{"", "x", "/a b", "/a//b", "/a*", "/*/*"}
		}), Refused: []string{
			at + `nonResourceRules[0].nonResourceURLs[0]: Invalid value: "": must not be empty`, at + `nonResourceRules[0].nonResourceURLs[1]: Invalid value: "x": must start with slash`,
			at + `nonResourceRules[0].nonResourceURLs[2]: Invalid value: "/a b": must not contain white-space`,
			at + `nonResourceRules[0].nonResourceURLs[3]: Invalid value: "/a//b": must not contain double slash`,
			at + `nonResourceRules[0].nonResourceURLs[4]: Invalid value: "/a*": wildcard can only do suffix matching`,
			at + `nonResourceRules[0].nonResourceURLs[5]: Invalid value: "/*/*": wildcard can only do suffix matching`}},
		{Name: "a namespace", To: rules(func(r *flowcontrolv1.PolicyRulesWithSubjects) { r.ResourceRules[0].Namespaces = []string{"A"} }), Refused: []string{
			at + `resourceRules[0].namespaces[0]: Invalid value: "A": each member of this list must be '*' or a DNS-1123 label; a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`}},
	}
	registrytest.Create(t, k, schema(), changes)
	registrytest.Update(t, k, "", schema(), changes)
	registrytest.Update(t, k, "status", schema(), []schemaChange{
		{Name: "conditions", To: func(s *flowcontrolv1.FlowSchema) {
			s.Status.Conditions = []flowcontrolv1.FlowSchemaCondition{{Type: "a"}, {Type: "a"}, {}}
		}, Refused: []string{`status.conditions[1].type: Duplicate value: "a"`, `status.conditions[2].type: Required value`}},
		{Name: "the spec stays", To: func(s *flowcontrolv1.FlowSchema) { s.Spec.MatchingPrecedence = -1 }},
	})
}

func level() *flowcontrolv1.PriorityLevelConfiguration {
	return &flowcontrolv1.PriorityLevelConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "l", Generation: 1},
		Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
				NominalConcurrencyShares: new(int32(5)), LendablePercent: new(int32(0)),
				LimitResponse: flowcontrolv1.LimitResponse{
					Type:    flowcontrolv1.LimitResponseTypeQueue,
					Queuing: &flowcontrolv1.QueuingConfiguration{Queues: 64, HandSize: 6, QueueLengthLimit: 50},
				},
			},
		},
	}
}

func TestPriorityLevel(t *testing.T) {
	k := registrytest.Find(t, flowcontrol.Kinds(), "prioritylevelconfigurations")
	type change = registrytest.Change[*flowcontrolv1.PriorityLevelConfiguration]
	limited := func(to func(*flowcontrolv1.LimitedPriorityLevelConfiguration)) func(*flowcontrolv1.PriorityLevelConfiguration) {
		return func(l *flowcontrolv1.PriorityLevelConfiguration) { to(l.Spec.Limited) }
	}
	queues := func(n, hand, length int32) func(*flowcontrolv1.PriorityLevelConfiguration) {
		return limited(func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) {
			l.LimitResponse.Queuing = &flowcontrolv1.QueuingConfiguration{Queues: n, HandSize: hand, QueueLengthLimit: length}
		})
	}
	const at = `spec.limited.limitResponse.`
	changes := []change{
		{Name: "defaults", To: limited(func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) {
			*l = flowcontrolv1.LimitedPriorityLevelConfiguration{LimitResponse: flowcontrolv1.LimitResponse{Type: "Queue", Queuing: &flowcontrolv1.QueuingConfiguration{}}}
		})},
		{Name: "nothing", To: func(l *flowcontrolv1.PriorityLevelConfiguration) {
			l.Spec = flowcontrolv1.PriorityLevelConfigurationSpec{}
		}, Refused: []string{`spec.type: Required value`}},
		{Name: "a type", To: func(l *flowcontrolv1.PriorityLevelConfiguration) { l.Spec.Type, l.Spec.Limited = "x", nil }, Refused: []string{
			`spec.type: Unsupported value: "x": supported values: "Exempt", "Limited"`}},
		{Name: "exempt", To: func(l *flowcontrolv1.PriorityLevelConfiguration) { l.Spec.Type = "Exempt" }, Refused: []string{
			"spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'", `spec.limited: Forbidden`}},
		{Name: "no limit", To: func(l *flowcontrolv1.PriorityLevelConfiguration) {
			l.Spec.Limited, l.Spec.Exempt = nil, &flowcontrolv1.ExemptPriorityLevelConfiguration{}
		}, Refused: []string{`spec.exempt: Forbidden`, `spec.limited: Required value`}},
		{Name: "shares", To: limited(func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) {
			l.NominalConcurrencyShares, l.LendablePercent, l.BorrowingLimitPercent = new(int32(-1)), new(int32(101)), new(int32(-1))
		}), Refused: []string{
			`spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer`,
			`spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive`,
			`spec.limited.borrowingLimitPercent: Invalid value: -1: if specified, must be a non-negative integer`}},
		{Name: "no response", To: limited(func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) {
			l.LimitResponse = flowcontrolv1.LimitResponse{}
		}), Refused: []string{
			at + `type: Required value`}},
		{Name: "a response", To: limited(func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) {
			l.LimitResponse = flowcontrolv1.LimitResponse{Type: "x"}
		}), Refused: []string{at + `type: Unsupported value: "x": supported values: "Queue", "Reject"`}},
		{Name: "no queues", To: limited(func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) { l.LimitResponse.Queuing = nil }), Refused: []string{at + `queuing: Required value`}},
		{Name: "queues of what is rejected", To: limited(func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) { l.LimitResponse.Type = "Reject" }), Refused: []string{at + `queuing: Forbidden`}},
		{Name: "negative", To: queues(-1, -1, -1), Refused: []string{
			at + `queuing.queueLengthLimit: Invalid value: -1: must be positive`, at + `queuing.queues: Invalid value: -1: must be positive`, at + `queuing.handSize: Invalid value: -1: must be positive`}},
		{Name: "a large hand", To: queues(4, 5, 1), Refused: []string{at + `queuing.handSize: Invalid value: 5: should not be greater than queues (4)`}},
		{Name: "many queues", To: queues(10_000_001, 1, 1), Refused: []string{at + `queuing.queues: Invalid value: 10000001: must not be greater than 10000000`}},
		{Name: "all queues", To: queues(10_000_000, 1, 1)},
		{Name: "60 bits", To: queues(64, 10, 1)},
		{Name: "61 bits", To: queues(65, 10, 1), Refused: []string{
			at + `queuing.handSize: Invalid value: 10: required entropy bits of deckSize 65 and handSize 10 should not be greater than 60`}},
		{Name: "an annotation", To: func(l *flowcontrolv1.PriorityLevelConfiguration) {
			l.Annotations = map[string]string{"flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares": ""}
		}, Refused: []string{`metadata.annotations: Forbidden: annotation 'flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares' is forbidden`}},
	}
	registrytest.Create(t, k, level(), changes)
	registrytest.Update(t, k, "", level(), changes)
	registrytest.Update(t, k, "status", level(), []change{{Name: "conditions", To: func(l *flowcontrolv1.PriorityLevelConfiguration) {
		l.Status.Conditions = []flowcontrolv1.PriorityLevelConfigurationCondition{{Type: "a"}, {Type: "a"}}
	}, Refused: []string{`status.conditions[1].type: Duplicate value: "a"`}}})
}

// TestFixed: the specs of the mandatory objects cannot be changed, but for what is exempt.
func TestFixed(t *testing.T) {
	levels, schemas := registrytest.Find(t, flowcontrol.Kinds(), "prioritylevelconfigurations"), registrytest.Find(t, flowcontrol.Kinds(), "flowschemas")
	mandatory, suggested := apf.DefaultLevels()
	for _, l := range append(mandatory, suggested...) {
		if errs := levels.Rules.Validate(l); len(errs) > 0 {
			t.Errorf("%s: %v", l.Name, errs)
		}
	}
	required, proposed := apf.DefaultSchemas()
	for _, s := range append(required, proposed...) {
		if errs := schemas.Rules.Validate(s); len(errs) > 0 {
			t.Errorf("%s: %v", s.Name, errs)
		}
	}
	required[1].Spec.MatchingPrecedence = 5
	if errs := schemas.Rules.Validate(required[1]); len(errs) != 1 || errs[0].Detail != "spec of 'catch-all' must equal the fixed value" {
		t.Errorf("another schema: %v", errs)
	}
	mandatory[0].Spec.Limited.NominalConcurrencyShares = new(int32(6))
	if errs := levels.Rules.Validate(mandatory[0]); len(errs) != 1 || errs[0].Detail != "spec of 'catch-all' must equal the fixed value" {
		t.Errorf("another level: %v", errs)
	}
	mandatory[1].Spec.Exempt.NominalConcurrencyShares = new(int32(6))
	if errs := levels.Rules.Validate(mandatory[1]); len(errs) > 0 {
		t.Errorf("what is exempt: %v", errs)
	}
	mandatory[1].Spec.Exempt.NominalConcurrencyShares, mandatory[1].Spec.Exempt.LendablePercent = new(int32(-1)), new(int32(-1))
	if errs := levels.Rules.Validate(mandatory[1]); len(errs) != 2 {
		t.Errorf("negative: %v", errs)
	}
	mandatory[1].Spec.Exempt, mandatory[1].Spec.Limited = nil, mandatory[0].Spec.Limited
	if errs := levels.Rules.Validate(mandatory[1]); len(errs) != 2 || errs[0].Detail != "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value" {
		t.Errorf("limited: %v", errs)
	}
}

// TestStatus: an update of a status changes nothing else, not even metadata.
func TestStatus(t *testing.T) {
	for _, k := range flowcontrol.Kinds() {
		obj, old := registry.Object(level()), registry.Object(level())
		if k.Plural == "flowschemas" {
			obj, old = schema(), schema()
		}
		obj.SetLabels(map[string]string{"a": "b"})
		obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "m"}})
		changed := false
		switch obj := obj.(type) {
		case *flowcontrolv1.FlowSchema:
			obj.Spec.MatchingPrecedence, obj.Status.Conditions = 7, make([]flowcontrolv1.FlowSchemaCondition, 1)
			k.Sub.Views["status"].PrepareUpdate(t.Context(), obj, old)
			changed = obj.Spec.MatchingPrecedence == 7 || len(obj.Status.Conditions) != 1
		case *flowcontrolv1.PriorityLevelConfiguration:
			obj.Spec.Limited.LendablePercent, obj.Status.Conditions = new(int32(7)), make([]flowcontrolv1.PriorityLevelConfigurationCondition, 1)
			k.Sub.Views["status"].PrepareUpdate(t.Context(), obj, old)
			changed = *obj.Spec.Limited.LendablePercent == 7 || len(obj.Status.Conditions) != 1
		}
		if changed || len(obj.GetLabels()) > 0 || len(obj.GetManagedFields()) != 1 {
			t.Errorf("%s: %+v", k.Plural, obj)
		}
	}
}

func TestOlder(t *testing.T) {
	k := registrytest.Find(t, flowcontrol.Kinds(), "prioritylevelconfigurations")
	for name, tt := range map[string]struct {
		old  runtime.Object
		want *int32
	}{
		"v1beta3": {&v1beta3.PriorityLevelConfiguration{Spec: v1beta3.PriorityLevelConfigurationSpec{Type: "Limited", Limited: &v1beta3.LimitedPriorityLevelConfiguration{NominalConcurrencyShares: 7}}}, new(int32(7))},
		"v1beta2": {&v1beta2.PriorityLevelConfiguration{Spec: v1beta2.PriorityLevelConfigurationSpec{Type: "Limited", Limited: &v1beta2.LimitedPriorityLevelConfiguration{AssuredConcurrencyShares: 7}}}, new(int32(7))},
		"v1beta1": {&v1beta1.PriorityLevelConfiguration{Spec: v1beta1.PriorityLevelConfigurationSpec{Type: "Limited", Limited: &v1beta1.LimitedPriorityLevelConfiguration{}}}, nil},
	} {
		for _, o := range k.Older {
			if o.GroupVersion.Version != name {
				continue
			}
			got := o.ToStored(tt.old).(*flowcontrolv1.PriorityLevelConfiguration)
			if got.Spec.Type != "Limited" || !equality.Semantic.DeepEqual(got.Spec.Limited.NominalConcurrencyShares, tt.want) {
				t.Errorf("%s: %+v", name, got.Spec)
			}
		}
	}
	few := &v1beta1.PriorityLevelConfiguration{Spec: v1beta1.PriorityLevelConfigurationSpec{Limited: &v1beta1.LimitedPriorityLevelConfiguration{AssuredConcurrencyShares: 3}}}
	if got := k.Older[2].ToStored(few).(*flowcontrolv1.PriorityLevelConfiguration); *got.Spec.Limited.NominalConcurrencyShares != 3 {
		t.Errorf("shares of v1beta1: %+v", got)
	}
	unset := &v1beta3.PriorityLevelConfiguration{Spec: v1beta3.PriorityLevelConfigurationSpec{Limited: &v1beta3.LimitedPriorityLevelConfiguration{}}}
	if got := k.Older[0].ToStored(unset).(*flowcontrolv1.PriorityLevelConfiguration); got.Spec.Limited.NominalConcurrencyShares != nil {
		t.Errorf("the default of v1beta3: %+v", got)
	}
	zero := &v1beta3.PriorityLevelConfiguration{Spec: v1beta3.PriorityLevelConfigurationSpec{Limited: &v1beta3.LimitedPriorityLevelConfiguration{}}}
	zero.Annotations = map[string]string{v1beta3.PriorityLevelPreserveZeroConcurrencySharesKey: ""}
	if got := k.Older[0].ToStored(zero).(*flowcontrolv1.PriorityLevelConfiguration); len(got.Annotations) > 0 || *got.Spec.Limited.NominalConcurrencyShares != 0 {
		t.Errorf("preserved: %+v", got)
	}
}

// TestDefaults: what is not set is upstream's.
func TestDefaults(t *testing.T) {
	s := &flowcontrolv1.FlowSchema{}
	if flowcontrol.DefaultFlowSchema(s); s.Spec.MatchingPrecedence != 1000 {
		t.Errorf("precedence %d", s.Spec.MatchingPrecedence)
	}
	for name, tt := range map[string]struct {
		is, want flowcontrolv1.PriorityLevelConfigurationSpec
	}{
		"exempt": {
			flowcontrolv1.PriorityLevelConfigurationSpec{Exempt: &flowcontrolv1.ExemptPriorityLevelConfiguration{}},
			flowcontrolv1.PriorityLevelConfigurationSpec{Exempt: &flowcontrolv1.ExemptPriorityLevelConfiguration{NominalConcurrencyShares: new(int32(0)), LendablePercent: new(int32(0))}},
		},
		"limited": {
			flowcontrolv1.PriorityLevelConfigurationSpec{Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
				LimitResponse: flowcontrolv1.LimitResponse{Queuing: &flowcontrolv1.QueuingConfiguration{}},
			}},
			flowcontrolv1.PriorityLevelConfigurationSpec{Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
				NominalConcurrencyShares: new(int32(30)), LendablePercent: new(int32(0)),
				LimitResponse: flowcontrolv1.LimitResponse{Queuing: &flowcontrolv1.QueuingConfiguration{HandSize: 8, Queues: 64, QueueLengthLimit: 50}},
			}},
		},
		"rejecting": {
			flowcontrolv1.PriorityLevelConfigurationSpec{Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{NominalConcurrencyShares: new(int32(0)), LendablePercent: new(int32(7))}},
			flowcontrolv1.PriorityLevelConfigurationSpec{Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{NominalConcurrencyShares: new(int32(0)), LendablePercent: new(int32(7))}},
		},
	} {
		l := &flowcontrolv1.PriorityLevelConfiguration{Spec: tt.is}
		if flowcontrol.DefaultPriorityLevel(l); !equality.Semantic.DeepEqual(l.Spec, tt.want) {
			t.Errorf("%s: %+v", name, l.Spec)
		}
	}
}

// TestOlderExempt: older versions of levels without limits.
func TestOlderExempt(t *testing.T) {
	for _, o := range registrytest.Find(t, flowcontrol.Kinds(), "prioritylevelconfigurations").Older {
		if got := o.ToStored(o.New()).(*flowcontrolv1.PriorityLevelConfiguration); got.Spec.Limited != nil {
			t.Errorf("%s: %+v", o.GroupVersion, got.Spec)
		}
	}
}

// The objects that every server keeps are revised when others change them.
func Example() {
	mandatory, _ := apf.DefaultLevels()
	changed := mandatory[0].DeepCopy()
	changed.Spec.Limited.NominalConcurrencyShares = new(int32(99))
	fmt.Println(*flowcontrol.RevisePriorityLevel(changed, mandatory[0], true).Spec.Limited.NominalConcurrencyShares)
	fmt.Println(flowcontrol.RevisePriorityLevel(mandatory[0], mandatory[0], true) == nil)
	// Output:
	// 5
	// true
}
