package apps_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/apps"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

func TestKinds(t *testing.T) {
	registrytest.Kinds(t, apps.Kinds())
	for _, k := range apps.Kinds() {
		if !k.Namespaced {
			t.Errorf("%s are in no namespace", k.Plural)
		}
	}
}

func replicaSet() *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", Generation: 4},
		Spec:       appsv1.ReplicaSetSpec{Selector: selector(), Template: template()},
	}
}

// TestStatusCounts: each count of a status is validated by itself, and against the count that includes it.
func TestStatusCounts(t *testing.T) {
	const nonnegative = ": must be greater than or equal to 0"
	d := deployment()
	registrytest.Update(t, registrytest.Find(t, apps.Kinds(), "deployments"), "status", d, []registrytest.Change[*appsv1.Deployment]{
		{Name: "all ready", To: func(d *appsv1.Deployment) {
			d.Status = appsv1.DeploymentStatus{
				ObservedGeneration: 1, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2,
				TerminatingReplicas: new(int32(0)), CollisionCount: new(int32(0)),
			}
		}},
		{Name: "negative", To: func(d *appsv1.Deployment) {
			d.Status = appsv1.DeploymentStatus{
				ObservedGeneration: -1, Replicas: -2, UpdatedReplicas: -3, ReadyReplicas: -4, AvailableReplicas: -5, UnavailableReplicas: -6,
				TerminatingReplicas: new(int32(-7)), CollisionCount: new(int32(-8)),
			}
		}, Refused: []string{
			`status.observedGeneration: Invalid value: -1` + nonnegative,
			`status.replicas: Invalid value: -2` + nonnegative,
			`status.updatedReplicas: Invalid value: -3` + nonnegative,
			`status.readyReplicas: Invalid value: -4` + nonnegative,
			`status.availableReplicas: Invalid value: -5` + nonnegative,
			`status.unavailableReplicas: Invalid value: -6` + nonnegative,
			`status.terminatingReplicas: Invalid value: -7` + nonnegative,
			`status.collisionCount: Invalid value: -8` + nonnegative,
		}},
		{Name: "too many", To: func(d *appsv1.Deployment) {
			d.Status = appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 2, ReadyReplicas: 3, AvailableReplicas: 4}
		}, Refused: []string{
			`status.updatedReplicas: Invalid value: 2: cannot be greater than status.replicas`,
			`status.readyReplicas: Invalid value: 3: cannot be greater than status.replicas`,
			`status.availableReplicas: Invalid value: 4: cannot be greater than status.replicas`,
			`status.availableReplicas: Invalid value: 4: cannot be greater than readyReplicas`,
		}},
	})
	registrytest.Update(t, registrytest.Find(t, apps.Kinds(), "replicasets"), "status", replicaSet(), []registrytest.Change[*appsv1.ReplicaSet]{
		{Name: "all ready", To: func(rs *appsv1.ReplicaSet) {
			rs.Status = appsv1.ReplicaSetStatus{
				Replicas: 2, FullyLabeledReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2, TerminatingReplicas: new(int32(0)), ObservedGeneration: 1,
			}
		}},
		{Name: "negative", To: func(rs *appsv1.ReplicaSet) {
			rs.Status = appsv1.ReplicaSetStatus{
				Replicas: -1, FullyLabeledReplicas: -2, ReadyReplicas: -3, AvailableReplicas: -4, TerminatingReplicas: new(int32(-6)), ObservedGeneration: -5,
			}
		}, Refused: []string{
			`status.replicas: Invalid value: -1` + nonnegative,
			`status.fullyLabeledReplicas: Invalid value: -2` + nonnegative,
			`status.readyReplicas: Invalid value: -3` + nonnegative,
			`status.availableReplicas: Invalid value: -4` + nonnegative,
			`status.observedGeneration: Invalid value: -5` + nonnegative,
			`status.terminatingReplicas: Invalid value: -6` + nonnegative,
		}},
	})
}

// TestUndefaulted: an object that bypassed the defaults is refused.
func TestUndefaulted(t *testing.T) {
	d := deployment()
	d.Spec.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
	var got []string
	for _, err := range registrytest.Find(t, apps.Kinds(), "deployments").Rules.Validate(d) {
		if e := err.Error(); !strings.HasPrefix(e, "spec.template.") {
			got = append(got, e)
		}
	}
	if want := []string{`spec.strategy.rollingUpdate: Required value: this should be defaulted and never be nil`}; !reflect.DeepEqual(got, want) {
		t.Errorf("refused with %q, want %q", got, want)
	}
}

func TestSurge(t *testing.T) {
	k := registrytest.Find(t, apps.Kinds(), "deployments")
	registrytest.Create(t, k, deployment(), []registrytest.Change[*appsv1.Deployment]{
		{Name: "negative", To: rolling("1", "-1"), Refused: []string{
			`spec.strategy.rollingUpdate.maxSurge: Invalid value: -1: must be greater than or equal to 0`}},
		{Name: "words", To: rolling("1", "few"), Refused: []string{
			`spec.strategy.rollingUpdate.maxSurge: Invalid value: "few": ` + notPercent}},
		{Name: "as long as it takes to be ready", To: func(d *appsv1.Deployment) {
			d.Spec.MinReadySeconds, d.Spec.ProgressDeadlineSeconds = 599, new(int32(600))
		}},
		{Name: "rollback", To: func(d *appsv1.Deployment) { d.Annotations = map[string]string{appsv1.DeprecatedRollbackTo: "0"} }},
		{Name: "rollback to a word", To: func(d *appsv1.Deployment) { d.Annotations = map[string]string{appsv1.DeprecatedRollbackTo: "-x"} }},
	})
}

// TestDefaultsKeep: defaults fill only missing fields.
func TestDefaultsKeep(t *testing.T) {
	k := registrytest.Find(t, apps.Kinds(), "deployments")
	d := deployment()
	d.Spec.Replicas, d.Spec.RevisionHistoryLimit, d.Spec.ProgressDeadlineSeconds = new(int32(0)), new(int32(0)), new(int32(7))
	rolling("1", "2%")(d)
	d.Annotations = map[string]string{appsv1.DeprecatedRollbackTo: "", "a": "b"}
	k.Rules.Default(d)
	s := d.Spec
	if *s.Replicas != 0 || *s.RevisionHistoryLimit != 0 || *s.ProgressDeadlineSeconds != 7 ||
		s.Strategy.RollingUpdate.MaxSurge.String() != "2%" || s.Strategy.RollingUpdate.MaxUnavailable.String() != "1" {
		t.Errorf("defaults overwrote: %+v", s)
	}
	if !reflect.DeepEqual(d.Annotations, map[string]string{"a": "b"}) {
		t.Errorf("annotations %v: an empty rollback annotation means none", d.Annotations)
	}
	d.Annotations = map[string]string{appsv1.DeprecatedRollbackTo: "3"}
	if k.Rules.Default(d); d.Annotations[appsv1.DeprecatedRollbackTo] != "3" {
		t.Errorf("a rollback was dropped: %v", d.Annotations)
	}
	recreate := deployment()
	recreate.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	if k.Rules.Default(recreate); recreate.Spec.Strategy.RollingUpdate != nil {
		t.Errorf("rolling update parameters with Recreate: %+v", recreate.Spec.Strategy)
	}

	k = registrytest.Find(t, apps.Kinds(), "replicasets")
	one, none := replicaSet(), replicaSet()
	none.Spec.Replicas = new(int32(0))
	k.Rules.Default(one)
	k.Rules.Default(none)
	if *one.Spec.Replicas != 1 || *none.Spec.Replicas != 0 || one.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		t.Errorf("defaults: %+v, %+v", one.Spec, none.Spec)
	}
}

// TestDisabledFeatures: template fields of disabled features are dropped unless the stored template uses
// them.
func TestDisabledFeatures(t *testing.T) {
	responders := []corev1.EvictionResponder{{Name: "example.com/x"}}
	d, rs, ds := deployment(), replicaSet(), daemonSet()
	d.Spec.Template.Spec.EvictionResponders, rs.Spec.Template.Spec.EvictionResponders = responders, responders
	ds.Spec.Template.Spec.EvictionResponders = responders
	for _, tt := range []struct {
		plural   string
		with     registry.Object
		template func(registry.Object) *corev1.PodTemplateSpec
	}{
		{"deployments", d, func(obj registry.Object) *corev1.PodTemplateSpec { return &obj.(*appsv1.Deployment).Spec.Template }},
		{"replicasets", rs, func(obj registry.Object) *corev1.PodTemplateSpec { return &obj.(*appsv1.ReplicaSet).Spec.Template }},
		{"daemonsets", ds, func(obj registry.Object) *corev1.PodTemplateSpec { return &obj.(*appsv1.DaemonSet).Spec.Template }},
	} {
		k := registrytest.Find(t, apps.Kinds(), tt.plural)
		clone := func() registry.Object { return tt.with.DeepCopyObject().(registry.Object) }
		created, old, updated, kept := clone(), clone(), clone(), clone()
		registrytest.Prepare(k, created)
		if left := tt.template(created).Spec.EvictionResponders; left != nil {
			t.Errorf("%s: created with %v", tt.plural, left)
		}
		registrytest.Replace(k, "", kept, old)
		if left := tt.template(kept).Spec.EvictionResponders; len(left) != 1 {
			t.Errorf("%s: an update dropped stored fields", tt.plural)
		}
		tt.template(old).Spec.EvictionResponders = nil
		registrytest.Replace(k, "", updated, old)
		if left := tt.template(updated).Spec.EvictionResponders; left != nil {
			t.Errorf("%s: updated with %v", tt.plural, left)
		}
	}
}

// TestStatusAndSpecApart: an update changes all but the status, an update of the status nothing else.
func TestStatusAndSpecApart(t *testing.T) {
	k := registrytest.Find(t, apps.Kinds(), "deployments")
	old := deployment()
	old.Status.Replicas = 3
	next := old.DeepCopy()
	next.Spec.Replicas, next.Status.Replicas = new(int32(9)), 5
	if registrytest.Replace(k, "", next, old); next.Status.Replicas != 3 || *next.Spec.Replicas != 9 || next.Generation != 5 {
		t.Errorf("updated to %+v", next)
	}
	next = old.DeepCopy()
	next.Spec.Replicas, next.Status.Replicas = new(int32(9)), 5
	if registrytest.Replace(k, "status", next, old); next.Status.Replicas != 5 || next.Spec.Replicas != nil || next.Generation != 4 {
		t.Errorf("the view of the status wrote %+v", next)
	}
	for name, tt := range map[string]struct{ stored, written, want map[string]string }{
		"a new rollback":     {nil, map[string]string{appsv1.DeprecatedRollbackTo: "1", "a": "b"}, map[string]string{"a": "b"}},
		"a changed rollback": {map[string]string{appsv1.DeprecatedRollbackTo: "2"}, map[string]string{appsv1.DeprecatedRollbackTo: "1"}, map[string]string{appsv1.DeprecatedRollbackTo: "2"}},
		"a removed rollback": {map[string]string{appsv1.DeprecatedRollbackTo: "2"}, nil, map[string]string{appsv1.DeprecatedRollbackTo: "2"}},
		"an empty one":       {map[string]string{appsv1.DeprecatedRollbackTo: ""}, nil, nil},
		"none":               {map[string]string{"a": "b"}, map[string]string{"c": "d"}, map[string]string{"c": "d"}},
	} {
		old, next := deployment(), deployment()
		old.Annotations, next.Annotations = tt.stored, tt.written
		if registrytest.Replace(k, "status", next, old); !reflect.DeepEqual(next.Annotations, tt.want) {
			t.Errorf("%s: annotations %v, want %v", name, next.Annotations, tt.want)
		}
	}

	k = registrytest.Find(t, apps.Kinds(), "replicasets")
	created := replicaSet()
	created.Status.Replicas = 3
	if registrytest.Prepare(k, created); created.Status.Replicas != 0 || created.Generation != 1 {
		t.Errorf("created as %+v", created)
	}
	stored := replicaSet()
	stored.Status.Replicas = 3
	set := stored.DeepCopy()
	set.Labels, set.Status.Replicas = map[string]string{"a": "b"}, 5
	k.Rules.Default(stored)
	if registrytest.Replace(k, "", set, stored); set.Status.Replicas != 3 || set.Generation != 4 {
		t.Errorf("a label: updated to %+v", set)
	}
	set.Spec.Replicas = new(int32(9))
	if registrytest.Replace(k, "", set, stored); *set.Spec.Replicas != 9 || set.Generation != 5 {
		t.Errorf("a spec: updated to %+v", set)
	}
	set.Status.Replicas = 5
	if registrytest.Replace(k, "status", set, stored); set.Status.Replicas != 5 || *set.Spec.Replicas != 1 || set.Generation != 4 {
		t.Errorf("the view of the status wrote %+v", set)
	}
}

func TestScaleOfUnreadableSelector(t *testing.T) {
	d := deployment()
	d.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}
	scale := registry.NewScale(*registrytest.Find(t, apps.Kinds(), "deployments").Sub.Scale, registry.Object(d))
	if scale.Status.Selector != "" || scale.Spec.Replicas != 0 {
		t.Errorf("scale %+v", scale)
	}
}

func TestCells(t *testing.T) {
	now := time.Now()
	made := metav1.NewTime(now.Add(-time.Hour))
	d, rs := deployment(), replicaSet()
	d.CreationTimestamp, rs.CreationTimestamp = made, made
	d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "s", Image: "side:2"})
	rs.Spec.Template = d.Spec.Template
	d.Spec.Replicas, d.Status = new(int32(3)), appsv1.DeploymentStatus{ReadyReplicas: 2, UpdatedReplicas: 4, AvailableReplicas: 1}
	rs.Spec.Replicas, rs.Status = new(int32(3)), appsv1.ReplicaSetStatus{Replicas: 4, ReadyReplicas: 2}
	sts := statefulSet()
	sts.CreationTimestamp, sts.Spec.Template = made, d.Spec.Template
	sts.Spec.Replicas, sts.Status = new(int32(3)), appsv1.StatefulSetStatus{ReadyReplicas: 2, Replicas: 4}
	bare, odd, empty := d.DeepCopy(), d.DeepCopy(), rs.DeepCopy()
	bare.Spec.Replicas, bare.Spec.Selector = nil, nil
	odd.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}
	empty.Spec.Replicas, empty.Spec.Selector = nil, &metav1.LabelSelector{}
	revision := func(owners ...metav1.OwnerReference) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "r", CreationTimestamp: made, OwnerReferences: owners}, Revision: 7}
	}
	for _, tt := range []struct {
		plural string
		obj    registry.Object
		want   []any
	}{
		{"deployments", d, []any{"web", "2/3", int64(4), int64(1), "60m", "c,s", "web:1,side:2", "app=web"}},
		{"deployments", bare, []any{"web", "2/0", int64(4), int64(1), "60m", "c,s", "web:1,side:2", ""}},
		{"deployments", odd, []any{"web", "2/3", int64(4), int64(1), "60m", "c,s", "web:1,side:2", "<invalid>"}},
		{"replicasets", rs, []any{"web", int64(3), int64(4), int64(2), "60m", "c,s", "web:1,side:2", "app=web"}},
		{"replicasets", empty, []any{"web", int64(0), int64(4), int64(2), "60m", "c,s", "web:1,side:2", "<none>"}},
		{"statefulsets", sts, []any{"web", "2/3", "60m", "c,s", "web:1,side:2"}},
		{"controllerrevisions", revision(), []any{"r", "<none>", int64(7), "60m"}},
		{"controllerrevisions", revision(metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "p"}), []any{"r", "<none>", int64(7), "60m"}},
		{"controllerrevisions", revision(metav1.OwnerReference{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", Controller: new(true)}), []any{"r", "daemonset.apps/d", int64(7), "60m"}},
		{"controllerrevisions", revision(metav1.OwnerReference{Name: "d", Controller: new(true)}), []any{"r", "d", int64(7), "60m"}},
	} {
		if got := registrytest.Find(t, apps.Kinds(), tt.plural).Columns.Cells(tt.obj, now); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.plural, got, tt.want)
		}
	}
}
