package coordination_test

import (
	"fmt"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/depcheck"
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
		{Name: "strategy of somebody else", To: func(l *coordinationv1.Lease) {
			l.Spec.Strategy = new(coordinationv1.CoordinatedLeaseStrategy("example.com/mine"))
		}},
		{Name: "no strategy", To: func(l *coordinationv1.Lease) { l.Spec.Strategy = nil }, Refused: []string{
			"spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"}},
	})
}

func TestClosure(t *testing.T) {
	depcheck.AtMost(t, "registry/coordination", 110)
	depcheck.Siblings(t, "registry/coordination", "informer", "registry", "registry/codec", "registry/internal/check", "registry/internal/ordered", "storage")
}

func ExampleKinds() {
	for _, k := range coordination.Kinds() {
		fmt.Println(k.GroupVersion, k.Plural)
	}
	// Output: coordination.k8s.io/v1 leases
}
