package registry_test

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
)

func deploymentParts() registry.Parts[*appsv1.Deployment] {
	return registry.Parts[*appsv1.Deployment]{
		Spec:   registry.PartOf(func(d *appsv1.Deployment) *appsv1.DeploymentSpec { return &d.Spec }),
		Status: registry.PartOf(func(d *appsv1.Deployment) *appsv1.DeploymentStatus { return &d.Status }),
	}
}

func deploymentOf(replicas, ready int32, generation int64) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: generation},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1", Env: []corev1.EnvVar{{Name: "A", Value: "b"}}}}},
			},
		},
		Status: appsv1.DeploymentStatus{
			ReadyReplicas: ready, Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable}},
		},
	}
}

func TestParts(t *testing.T) {
	parts := deploymentParts()
	uncounted := parts
	uncounted.Uncounted = true
	var statusless, none registry.Parts[*appsv1.Deployment]
	statusless.Spec = parts.Spec
	update := func(p registry.Parts[*appsv1.Deployment]) func(_, _ *appsv1.Deployment) {
		return func(d, old *appsv1.Deployment) { p.PrepareUpdate(t.Context(), d, old) }
	}
	create := func(p registry.Parts[*appsv1.Deployment]) func(_, _ *appsv1.Deployment) {
		return func(d, _ *appsv1.Deployment) { p.PrepareCreate(t.Context(), d) }
	}
	status := func(p registry.Parts[*appsv1.Deployment]) func(_, _ *appsv1.Deployment) {
		return func(d, old *appsv1.Deployment) { p.PrepareStatus(t.Context(), d, old) }
	}
	old, changed := deploymentOf(1, 1, 7), deploymentOf(2, 2, 7)
	empty := deploymentOf(2, 0, 1)
	empty.Status = appsv1.DeploymentStatus{}
	emptyUncounted := empty.DeepCopy()
	emptyUncounted.Generation = 7
	for name, test := range map[string]struct {
		prepare func(d, old *appsv1.Deployment)
		from    *appsv1.Deployment
		want    *appsv1.Deployment
	}{
		"create":                              {create(parts), changed, empty},
		"create, uncounted":                   {create(uncounted), changed, emptyUncounted},
		"create, no status":                   {create(statusless), changed, deploymentOf(2, 2, 1)},
		"create, no parts":                    {create(none), changed, deploymentOf(2, 2, 1)},
		"update of the spec":                  {update(parts), changed, deploymentOf(2, 1, 8)},
		"update of the status":                {update(parts), deploymentOf(1, 2, 7), deploymentOf(1, 1, 7)},
		"update of a generation":              {update(parts), deploymentOf(1, 1, 9), deploymentOf(1, 1, 7)},
		"update of the spec and a generation": {update(parts), deploymentOf(2, 1, 9), deploymentOf(2, 1, 8)},
		"update, uncounted":                   {update(uncounted), changed, deploymentOf(2, 1, 7)},
		"update, no status":                   {update(statusless), changed, deploymentOf(2, 2, 8)},
		"update, no parts":                    {update(none), changed, changed},
		"status":                              {status(parts), changed, deploymentOf(1, 2, 7)},
		"status of a generation":              {status(parts), deploymentOf(2, 2, 9), deploymentOf(1, 2, 7)},
		"update of a generation, uncounted":   {update(uncounted), deploymentOf(1, 1, 9), deploymentOf(1, 1, 7)},
		"status, no parts":                    {status(none), changed, changed},
	} {
		got, before := test.from.DeepCopy(), old.DeepCopy()
		test.prepare(got, before)
		if !equality.Semantic.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
		// The result shares nothing with the stored object.
		*got.Spec.Replicas = 99
		for i := range got.Status.Conditions {
			got.Status.Conditions[i].Reason = "changed"
		}
		if !equality.Semantic.DeepEqual(before, old) {
			t.Errorf("%s: changed the stored object to %+v", name, before)
		}
	}
}

// TestPartsCost: an update allocates no more than one written by hand for its type.
func TestPartsCost(t *testing.T) {
	parts, old := deploymentParts(), deploymentOf(1, 1, 7)
	for name, updated := range map[string]*appsv1.Deployment{"the same": deploymentOf(1, 1, 7), "another": deploymentOf(2, 1, 7)} {
		byHand := testing.AllocsPerRun(100, func() {
			old.Status.DeepCopyInto(&updated.Status)
			if !equality.Semantic.DeepEqual(updated.Spec, old.Spec) {
				updated.Generation = old.Generation + 1
			}
		})
		if got := testing.AllocsPerRun(100, func() { parts.PrepareUpdate(t.Context(), updated, old) }); got > byHand {
			t.Errorf("%s spec: %v allocations, by hand %v", name, got, byHand)
		}
	}
}

// A kind names its parts once; what its writes may change follows from them.
func ExampleParts() {
	parts := registry.Parts[*appsv1.ReplicaSet]{
		Spec:   registry.PartOf(func(rs *appsv1.ReplicaSet) *appsv1.ReplicaSetSpec { return &rs.Spec }),
		Status: registry.PartOf(func(rs *appsv1.ReplicaSet) *appsv1.ReplicaSetStatus { return &rs.Status }),
	}
	rules := registry.Rules[*appsv1.ReplicaSet]{PrepareCreate: parts.PrepareCreate, PrepareUpdate: parts.PrepareUpdate}
	status := registry.View[*appsv1.ReplicaSet]{PrepareUpdate: parts.PrepareStatus}

	write := func(minReadySeconds, ready int32) *appsv1.ReplicaSet {
		rs := &appsv1.ReplicaSet{}
		rs.Spec.MinReadySeconds, rs.Status.ReadyReplicas = minReadySeconds, ready
		return rs
	}
	show := func(rs *appsv1.ReplicaSet) {
		fmt.Println("generation", rs.Generation, "spec", rs.Spec.MinReadySeconds, "status", rs.Status.ReadyReplicas)
	}
	created := write(1, 1)
	rules.PrepareCreate(context.Background(), created)
	show(created)
	updated := write(2, 2)
	rules.PrepareUpdate(context.Background(), updated, created)
	show(updated)
	reported := write(3, 3)
	status.PrepareUpdate(context.Background(), reported, updated)
	show(reported)
	// Output:
	// generation 1 spec 1 status 0
	// generation 2 spec 2 status 0
	// generation 2 spec 2 status 3
}
