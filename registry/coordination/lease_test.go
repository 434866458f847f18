package coordination_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry/coordination"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

func TestLease(t *testing.T) {
	k := registrytest.Find(t, coordination.Kinds(), "leases")
	if !k.Rules.CreateOnUpdate || !k.Rules.ConditionalUpdate {
		t.Errorf("create on update %t, conditional update %t", k.Rules.CreateOnUpdate, k.Rules.ConditionalUpdate)
	}
	good := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "l", Namespace: "ns"},
		Spec:       coordinationv1.LeaseSpec{LeaseDurationSeconds: new(int32(15)), LeaseTransitions: new(int32(0))},
	}
	changes := []registrytest.Change[*coordinationv1.Lease]{
		{Name: "no duration", To: func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = nil }},
		{Name: "zero duration", To: func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = new(int32(0)) }, Refused: []string{
			`spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0`}},
		{Name: "negative transitions", To: func(l *coordinationv1.Lease) { l.Spec.LeaseTransitions = new(int32(-1)) }, Refused: []string{
			`spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0`}},
		{Name: "election fields are dropped", To: func(l *coordinationv1.Lease) {
			l.Spec.Strategy = new(coordinationv1.CoordinatedLeaseStrategy("bad"))
			l.Spec.PreferredHolder = new("x")
		}},
	}
	registrytest.Create(t, k, good, changes)
	registrytest.Update(t, k, "", good, changes)

	elected := good.DeepCopy()
	elected.Spec.Strategy = new(coordinationv1.OldestEmulationVersion)
	elected.Spec.PreferredHolder = new("x")
	registrytest.Update(t, k, "", elected, []registrytest.Change[*coordinationv1.Lease]{
		{Name: "unknown strategy", To: func(l *coordinationv1.Lease) { l.Spec.Strategy = new(coordinationv1.CoordinatedLeaseStrategy("bad")) }, Refused: []string{
			`spec.strategy.strategy: Unsupported value: "bad": supported values: "OldestEmulationVersion"`}},
		{Name: "third-party strategy", To: func(l *coordinationv1.Lease) {
			l.Spec.Strategy = new(coordinationv1.CoordinatedLeaseStrategy("example.com/mine"))
		}},
		{Name: "no strategy", To: func(l *coordinationv1.Lease) { l.Spec.Strategy = nil }, Refused: []string{
			"spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"}},
	})
}

// TestUpdateKeepsElection: fields of coordinated leader election stay if in use; a strategy is Kubernetes' or
// has a domain.
func TestUpdateKeepsElection(t *testing.T) {
	k := registrytest.Find(t, coordination.Kinds(), "leases")
	old := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
		LeaseTransitions: nil, PreferredHolder: new("b"), Strategy: new(coordinationv1.OldestEmulationVersion),
	}}
	strategy := func(s string) func(*coordinationv1.Lease) {
		return func(l *coordinationv1.Lease) { l.Spec.Strategy = new(coordinationv1.CoordinatedLeaseStrategy(s)) }
	}
	registrytest.Update(t, k, "", old, []registrytest.Change[*coordinationv1.Lease]{
		{Name: "a strategy with a domain", To: strategy("example.com/Mine")},
		{Name: "a strategy with a bad domain", To: strategy("/Mine"), Refused: []string{
			`spec.strategy.strategy: Invalid value: "/Mine": prefix part must be non-empty`}},
		{Name: "no strategy", To: strategy(""), Refused: []string{
			`spec.strategy.strategy: Unsupported value: "": supported values: "OldestEmulationVersion"`,
			"spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"}},
		{Name: "an empty holder", To: func(l *coordinationv1.Lease) { l.Spec.PreferredHolder, l.Spec.Strategy = new(""), nil }},
		{Name: "no holder", To: func(l *coordinationv1.Lease) { l.Spec.PreferredHolder, l.Spec.Strategy = nil, nil }},
	})
	bad := old.DeepCopy()
	bad.Spec.Strategy = new(coordinationv1.CoordinatedLeaseStrategy("/Mine"))
	errs := k.Rules.ValidateUpdate(bad, old)
	if len(errs) != 1 || errs[0].BadValue != coordinationv1.CoordinatedLeaseStrategy("/Mine") {
		t.Errorf("refused with %#v", errs)
	}
	for name, stored := range map[string]coordinationv1.LeaseSpec{"strategy": {PreferredHolder: new("b")}, "holder": {Strategy: old.Spec.Strategy}} {
		next := old.DeepCopy()
		registrytest.Replace(k, "", next, &coordinationv1.Lease{Spec: stored})
		if (next.Spec.Strategy == nil) != (stored.Strategy == nil) || (next.Spec.PreferredHolder == nil) != (stored.PreferredHolder == nil) {
			t.Errorf("new %s: stored as %+v", name, next.Spec)
		}
	}
}

func TestNamesAndCells(t *testing.T) {
	k := registrytest.Find(t, coordination.Kinds(), "leases")
	if !k.Namespaced || !k.Rules.AnyFinalizer {
		t.Errorf("namespaced %t, any finalizer %t", k.Namespaced, k.Rules.AnyFinalizer)
	}
	now := time.Now()
	for holder, spec := range map[string]coordinationv1.LeaseSpec{"": {}, "me": {HolderIdentity: new("me")}} {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "l", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}, Spec: spec}
		if got := k.Columns.Cells(l, now); !slices.Equal(got, []any{"l", holder, "60m"}) {
			t.Errorf("holder %q: %q", holder, got)
		}
	}
}

func ExampleKinds() {
	for _, k := range coordination.Kinds() {
		fmt.Println(k.GroupVersion, k.Plural)
	}
	// Output: coordination.k8s.io/v1 leases
}
