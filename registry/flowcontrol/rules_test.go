package flowcontrol_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apf "github.com/keelson-dev/keelson/flowcontrol"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/flowcontrol"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

// TestSchemaBounds: the last that is accepted, and the first that is refused.
func TestSchemaBounds(t *testing.T) {
	const at = `spec.rules[0].`
	const label = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
	const subdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	account := func(name, namespace string) func(*flowcontrolv1.FlowSchema) {
		return subject(flowcontrolv1.Subject{Kind: "ServiceAccount", ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Name: name, Namespace: namespace}})
	}
	k := registrytest.Find(t, flowcontrol.Kinds(), "flowschemas")
	registrytest.Create(t, k, schema(), []schemaChange{
		{Name: "the second", To: func(s *flowcontrolv1.FlowSchema) { s.Spec.MatchingPrecedence = 2 }},
		{Name: "the last", To: func(s *flowcontrolv1.FlowSchema) { s.Spec.MatchingPrecedence = 10000 }},
		{Name: "a level", To: func(s *flowcontrolv1.FlowSchema) { s.Spec.PriorityLevelConfiguration.Name = "A" }, Refused: []string{
			`spec.priorityLevelConfiguration.name: Invalid value: "A": ` + subdomain}},
		{Name: "an account", To: account("a.b", "ns")},
		{Name: "an account that ends in a dash", To: account("a-", "ns-"), Refused: []string{
			at + `subjects[0].serviceAccount.name: Invalid value: "a-": ` + subdomain, at + `subjects[0].serviceAccount.namespace: Invalid value: "ns-": ` + label}},
		{Name: "no namespaces", To: rules(func(r *flowcontrolv1.PolicyRulesWithSubjects) {
			r.ResourceRules[0].Namespaces, r.ResourceRules[0].ClusterScope = nil, true
		})},
		{Name: "a namespace that ends in a dash", To: rules(func(r *flowcontrolv1.PolicyRulesWithSubjects) { r.ResourceRules[0].Namespaces = []string{"a-"} }), Refused: []string{
			at + `resourceRules[0].namespaces[0]: Invalid value: "a-": each member of this list must be '*' or a DNS-1123 label; ` + label}},
		{Name: "URLs", To: rules(func(r *flowcontrolv1.PolicyRulesWithSubjects) {
			r.NonResourceRules[0].NonResourceURLs = []string{"/", "/a", "/a/*", "/*"}
		})},
	})
	// Neither rule tells of an update anew.
	old := schema()
	old.Spec.MatchingPrecedence = 0
	if errs := k.Rules.Validate(old); len(errs) != 1 || errs[0].Error() != "spec.matchingPrecedence: Invalid value: 0: must be a positive value" {
		t.Errorf("no precedence: %v", errs)
	}
}

type levelChange = registrytest.Change[*flowcontrolv1.PriorityLevelConfiguration]

func limits(to func(*flowcontrolv1.LimitedPriorityLevelConfiguration)) func(*flowcontrolv1.PriorityLevelConfiguration) {
	return func(l *flowcontrolv1.PriorityLevelConfiguration) { to(l.Spec.Limited) }
}

// TestLevelBounds: as TestSchemaBounds.
func TestLevelBounds(t *testing.T) {
	k := registrytest.Find(t, flowcontrol.Kinds(), "prioritylevelconfigurations")
	const queuing = `spec.limited.limitResponse.queuing.`
	registrytest.Create(t, k, level(), []levelChange{
		{Name: "nothing", To: limits(func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) {
			l.NominalConcurrencyShares, l.LendablePercent, l.BorrowingLimitPercent = new(int32(0)), new(int32(0)), new(int32(0))
		})},
		{Name: "everything", To: limits(func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) {
			l.NominalConcurrencyShares, l.LendablePercent, l.BorrowingLimitPercent = new(int32(1<<30)), new(int32(100)), new(int32(1<<30))
		})},
		{Name: "lends less than nothing", To: limits(func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) { l.LendablePercent = new(int32(-1)) }), Refused: []string{
			`spec.limited.lendablePercent: Invalid value: -1: must be between 0 and 100, inclusive`}},
		{Name: "a hand of all queues", To: limits(func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) {
			l.LimitResponse.Queuing = &flowcontrolv1.QueuingConfiguration{Queues: 4, HandSize: 4, QueueLengthLimit: 1}
		})},
	})
	l := level()
	l.Spec.Limited.LimitResponse.Queuing = &flowcontrolv1.QueuingConfiguration{}
	l.Spec.Limited.NominalConcurrencyShares, l.Spec.Limited.LendablePercent = nil, nil
	l.Status.Conditions = make([]flowcontrolv1.PriorityLevelConfigurationCondition, 1)
	var got []string
	for _, e := range k.Rules.Validate(l) {
		got = append(got, e.Error())
	}
	if want := []string{
		queuing + "queueLengthLimit: Invalid value: 0: must be positive", queuing + "queues: Invalid value: 0: must be positive",
		queuing + "handSize: Invalid value: 0: must be positive", "status.conditions[0].type: Required value",
	}; !slices.Equal(got, want) {
		t.Errorf("zeros are refused with %q, want %q", got, want)
	}
}

// TestLevelsStay: what upstream declares is not said of what stays as it was, but what it has written out is.
func TestLevelsStay(t *testing.T) {
	k := registrytest.Find(t, flowcontrol.Kinds(), "prioritylevelconfigurations")
	nothing := func(*flowcontrolv1.PriorityLevelConfiguration) {}
	lends := limits(func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) { l.LendablePercent = new(int32(7)) })
	longer := limits(func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) { l.LimitResponse.Queuing.QueueLengthLimit++ })
	free := func(l *flowcontrolv1.PriorityLevelConfiguration) {
		l.Spec.Exempt = &flowcontrolv1.ExemptPriorityLevelConfiguration{}
	}
	rejects := limits(func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) { l.LimitResponse.Type = "Reject" })
	unqueued := limits(func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) { l.LimitResponse.Queuing = nil })
	untyped := func(l *flowcontrolv1.PriorityLevelConfiguration) { l.Spec.Type = "" }
	unanswered := limits(func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) {
		l.LimitResponse = flowcontrolv1.LimitResponse{}
	})
	unlimited := func(l *flowcontrolv1.PriorityLevelConfiguration) { l.Spec.Limited = nil }
	const (
		notFree      = "spec.exempt: Forbidden: must be nil if the type is Limited"
		notQueued    = "spec.limited.limitResponse.queuing: Forbidden: must be nil if limited.limitResponse.type is not Limited"
		queued       = "spec.limited.limitResponse.queuing: Required value: must not be empty if limited.limitResponse.type is Limited"
		limit        = "spec.limited: Required value: must not be empty when type is Limited"
		typeOf       = "spec.type: Required value"
		typeOfAnswer = "spec.limited.limitResponse.type: Required value"
	)
	for name, tt := range map[string]struct {
		old, to func(*flowcontrolv1.PriorityLevelConfiguration)
		want    []string
	}{
		"limited and exempt":                 {free, nothing, []string{notFree}},
		"limited and exempt, lends":          {free, lends, []string{notFree}},
		"limited and exempt, changed":        {free, func(l *flowcontrolv1.PriorityLevelConfiguration) { l.Spec.Exempt.LendablePercent = new(int32(7)) }, []string{"spec.exempt: Forbidden"}},
		"limited, exempt from now on":        {nothing, free, []string{"spec.exempt: Forbidden"}},
		"not limited":                        {unlimited, nothing, []string{limit}},
		"not limited any more":               {nothing, unlimited, []string{"spec.limited: Required value"}},
		"queues of what is rejected":         {rejects, nothing, []string{notQueued}},
		"queues of what is rejected, lends":  {rejects, lends, []string{notQueued}},
		"queues of what is rejected, longer": {rejects, longer, []string{"spec.limited.limitResponse.queuing: Forbidden"}},
		"rejects, lends":                     {func(l *flowcontrolv1.PriorityLevelConfiguration) { rejects(l); unqueued(l) }, lends, nil},
		"rejects from now on":                {nothing, rejects, []string{"spec.limited.limitResponse.queuing: Forbidden"}},
		"no queues":                          {unqueued, nothing, []string{queued}},
		"no queues, lends":                   {unqueued, lends, []string{queued}},
		"no queues any more":                 {nothing, unqueued, []string{"spec.limited.limitResponse.queuing: Required value"}},
		"no type":                            {untyped, nothing, []string{typeOf}},
		"no type, lends":                     {untyped, lends, []string{typeOf, "spec.limited: Forbidden"}}, // what is declared comes last
		"no type any more":                   {nothing, untyped, []string{"spec.limited: Forbidden", typeOf}},
		"no answer":                          {unanswered, nothing, []string{typeOfAnswer}},
		"no answer, and shares":              {unanswered, limits(func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) { l.LendablePercent = new(int32(101)) }), []string{typeOfAnswer, "spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive"}},
		"no answer any more, and shares": {nothing, limits(func(l *flowcontrolv1.LimitedPriorityLevelConfiguration) {
			l.LimitResponse, l.LendablePercent = flowcontrolv1.LimitResponse{}, new(int32(101))
		}), []string{"spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive", typeOfAnswer}},
		"limited from now on": {unlimited, func(l *flowcontrolv1.PriorityLevelConfiguration) { l.Spec.Limited = level().Spec.Limited; rejects(l) }, []string{
			"spec.limited.limitResponse.queuing: Forbidden"}},
	} {
		old := level()
		tt.old(old)
		k.Rules.Default(old)
		now := old.DeepCopy()
		now.Labels = map[string]string{"a": "b"}
		tt.to(now)
		var got []string
		for _, e := range registrytest.Replace(k, "", now, old) {
			got = append(got, e.Error())
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: refused with\n\t%s\nwant\n\t%s", name, strings.Join(got, "\n\t"), strings.Join(tt.want, "\n\t"))
		}
	}
}

func TestColumns(t *testing.T) {
	dangling, plain := schema(), schema()
	dangling.Status.Conditions = []flowcontrolv1.FlowSchemaCondition{{Type: "Other", Status: "Unknown"}, {Type: "Dangling", Status: "True"}, {Type: "Dangling", Status: "False"}}
	plain.Spec.DistinguisherMethod = nil
	rejecting, bare, exempt := level(), level(), level()
	rejecting.Spec.Limited.LimitResponse.Queuing = nil
	bare.Spec.Limited.NominalConcurrencyShares = nil
	exempt.Spec.Limited = nil
	for _, tt := range []struct {
		plural string
		obj    registry.Object
		want   string
	}{
		{"flowschemas", schema(), "[s workload-low 500 ByUser <unknown> ?]"},
		{"flowschemas", dangling, "[s workload-low 500 ByUser <unknown> True]"},
		{"flowschemas", plain, "[s workload-low 500 <none> <unknown> ?]"},
		{"prioritylevelconfigurations", level(), "[l Limited 5 64 6 50 <unknown>]"},
		{"prioritylevelconfigurations", rejecting, "[l Limited 5 <none> <none> <none> <unknown>]"},
		{"prioritylevelconfigurations", bare, "[l Limited 0 64 6 50 <unknown>]"},
		{"prioritylevelconfigurations", exempt, "[l Limited <none> <none> <none> <none> <unknown>]"},
	} {
		if got := fmt.Sprint(registrytest.Find(t, flowcontrol.Kinds(), tt.plural).Columns.Cells(tt.obj, time.Unix(0, 0))); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.plural, got, tt.want)
		}
	}
}

// TestSetDangling: the condition changes, and has a new time, when it says something else.
func TestSetDangling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := schema()
		s.Status.Conditions = []flowcontrolv1.FlowSchemaCondition{{Type: "Other"}}
		set := func(missing, changes bool, want string) {
			t.Helper()
			time.Sleep(time.Second)
			before := time.Now()
			if got := flowcontrol.SetDangling(s, missing); got != changes {
				t.Errorf("changed: %t", got)
			}
			c := s.Status.Conditions[1]
			if got := fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message); got != want || len(s.Status.Conditions) != 2 || s.Status.Conditions[0].Type != "Other" {
				t.Errorf("conditions %+v", s.Status.Conditions)
			}
			if (c.LastTransitionTime == metav1.NewTime(before)) != changes {
				t.Errorf("since %v", c.LastTransitionTime)
			}
		}
		const names = "This FlowSchema references the PriorityLevelConfiguration object named "
		there, gone := "Dangling False Found: "+names+`"workload-low" and it exists`, "Dangling True NotFound: "+names+`"workload-low" but there is no such object`
		set(false, true, there)
		set(false, false, there)
		set(true, true, gone)
		set(true, false, gone)
		s.Status.Conditions[1].Reason = "x"
		set(true, true, gone)
		s.Status.Conditions[1].Status = "False"
		set(true, true, gone)
		s.Spec.PriorityLevelConfiguration.Name = "other"
		set(true, true, "Dangling True NotFound: "+names+`"other" but there is no such object`)
	})
}

// TestKeptUnchanged: what is wanted is not changed when an object is revised.
func TestKeptUnchanged(t *testing.T) {
	mandatory, _ := apf.DefaultLevels()
	free := mandatory[1].DeepCopy()
	free.Spec.Exempt.LendablePercent = new(int32(50))
	flowcontrol.RevisePriorityLevel(free, mandatory[1], true)
	if *mandatory[1].Spec.Exempt.LendablePercent != 0 {
		t.Errorf("wanted is now %+v", mandatory[1].Spec.Exempt)
	}
	// Other levels are not exempt, whatever somebody has made of them.
	limited := mandatory[0].DeepCopy()
	limited.Spec.Exempt = &flowcontrolv1.ExemptPriorityLevelConfiguration{}
	if got := flowcontrol.RevisePriorityLevel(limited, mandatory[0], true); got == nil || got.Spec.Exempt != nil {
		t.Errorf("revised to %+v", got)
	}
}

// TestOlderSchemas: schemas of all older versions are those of v1.
func TestOlderSchemas(t *testing.T) {
	var versions []string
	for _, o := range registrytest.Find(t, flowcontrol.Kinds(), "flowschemas").Older {
		versions = append(versions, o.GroupVersion.String())
		if got := o.ToStored(schema()).(*flowcontrolv1.FlowSchema); got.Spec.MatchingPrecedence != 500 || o.New().(*flowcontrolv1.FlowSchema) == nil {
			t.Errorf("%s: %+v", o.GroupVersion, got.Spec)
		}
	}
	if got := fmt.Sprint(versions); got != "[flowcontrol.apiserver.k8s.io/v1beta3 flowcontrol.apiserver.k8s.io/v1beta2 flowcontrol.apiserver.k8s.io/v1beta1]" {
		t.Errorf("older versions %s", got)
	}
}
