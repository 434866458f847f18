package apps_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/apps"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web:1"}}},
	}
}

func selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
}

func deployment() *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", Generation: 4},
		Spec:       appsv1.DeploymentSpec{Selector: selector(), Template: template()},
	}
}

func rolling(unavailable, surge string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{
			MaxUnavailable: new(intstr.Parse(unavailable)), MaxSurge: new(intstr.Parse(surge)),
		}
	}
}

const notPercent = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"

func TestDeployment(t *testing.T) {
	k := registrytest.Find(t, apps.Kinds(), "deployments")
	type change = registrytest.Change[*appsv1.Deployment]
	changes := []change{
		{Name: "negative replicas", To: func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(-1)) }, Refused: []string{
			`spec.replicas: Invalid value: -1: must be greater than or equal to 0`}},
		{Name: "other labels", To: func(d *appsv1.Deployment) { d.Spec.Template.Labels["app"] = "db" }, Refused: []string{
			"spec.template.metadata.labels: Invalid value: {\"app\":\"db\"}: `selector` does not match template `labels`"}},
		{Name: "never restarted", To: func(d *appsv1.Deployment) { d.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever }, Refused: []string{
			`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`}},
		{Name: "deadline for pods", To: func(d *appsv1.Deployment) { d.Spec.Template.Spec.ActiveDeadlineSeconds = new(int64(5)) }, Refused: []string{
			`spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported`}},
		{Name: "no container", To: func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers = nil }, Refused: []string{
			`spec.template.spec.containers: Required value`}},
		{Name: "all at once", To: rolling("100%", "0")},
		{Name: "numbers", To: rolling("0", "1")},
		{Name: "no step", To: rolling("0", "0%"), Refused: []string{
			"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"}},
		{Name: "more than all", To: rolling("101%", "150%"), Refused: []string{
			`spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%`}},
		{Name: "negative", To: rolling("-1", "0"), Refused: []string{
			`spec.strategy.rollingUpdate.maxUnavailable: Invalid value: -1: must be greater than or equal to 0`}},
		{Name: "words", To: rolling("few", "1"), Refused: []string{
			`spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "few": ` + notPercent}},
		{Name: "recreate", To: func(d *appsv1.Deployment) {
			d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		}},
		{Name: "recreate in steps", To: func(d *appsv1.Deployment) {
			rolling("1", "1")(d)
			d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
		}, Refused: []string{"spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"}},
		{Name: "unknown strategy", To: func(d *appsv1.Deployment) {
			rolling("1", "25%")(d)
			d.Spec.Strategy.Type = "Pray"
		}, Refused: []string{
			`spec.strategy: Unsupported value: {"Type":"Pray","RollingUpdate":{"MaxUnavailable":1,"MaxSurge":"25%"}}: supported values: "Recreate", "RollingUpdate"`}},
		{Name: "negative numbers", To: func(d *appsv1.Deployment) {
			d.Spec.MinReadySeconds, d.Spec.RevisionHistoryLimit, d.Spec.ProgressDeadlineSeconds = -3, new(int32(-1)), new(int32(-2))
		}, Refused: []string{
			`spec.minReadySeconds: Invalid value: -3: must be greater than or equal to 0`,
			`spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0`,
			`spec.progressDeadlineSeconds: Invalid value: -2: must be greater than or equal to 0`,
		}},
		{Name: "deadline before ready", To: func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 600 }, Refused: []string{
			`spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds`}},
		{Name: "rollback to nowhere", To: func(d *appsv1.Deployment) { d.Annotations = map[string]string{appsv1.DeprecatedRollbackTo: "-1"} }, Refused: []string{
			`spec.rollback.version: Invalid value: -1: must be greater than or equal to 0`}},
	}
	registrytest.Create(t, k, deployment(), append(changes, []change{
		{Name: "no selector", To: func(d *appsv1.Deployment) { d.Spec.Selector = nil }, Refused: []string{
			`spec.selector: Required value`,
			"spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`"}},
		{Name: "empty selector", To: func(d *appsv1.Deployment) { d.Spec.Selector = &metav1.LabelSelector{} }, Refused: []string{
			`spec.selector: Invalid value: {}: empty selector is invalid for deployment`}},
		{Name: "unreadable selector", To: func(d *appsv1.Deployment) {
			d.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}
		}, Refused: []string{
			`spec.selector.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator`,
			`spec.selector: Invalid value: {"matchLabels":{"app":"web"},"matchExpressions":[{"key":"a","operator":"Like"}]}: invalid label selector`,
		}},
	}...))
	registrytest.Update(t, k, "", deployment(), append(changes, change{Name: "another selector", To: func(d *appsv1.Deployment) {
		d.Spec.Selector.MatchLabels, d.Spec.Template.Labels = map[string]string{"a": "b"}, map[string]string{"a": "b"}
	}, Refused: []string{`spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: field is immutable`}}))
}

func TestDeploymentStatus(t *testing.T) {
	k := registrytest.Find(t, apps.Kinds(), "deployments")
	stored := deployment()
	stored.Status = appsv1.DeploymentStatus{Replicas: 3, ReadyReplicas: 2, AvailableReplicas: 1, CollisionCount: new(int32(2))}
	registrytest.Update(t, k, "status", stored, []registrytest.Change[*appsv1.Deployment]{
		{Name: "the spec stays", To: func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(-1)) }},
		{Name: "too many", To: func(d *appsv1.Deployment) { d.Status.Replicas, d.Status.UpdatedReplicas = 1, 2 }, Refused: []string{
			`status.updatedReplicas: Invalid value: 2: cannot be greater than status.replicas`,
			`status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas`}},
		{Name: "available but not ready", To: func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 3 }, Refused: []string{
			`status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas`}},
		{Name: "fewer collisions", To: func(d *appsv1.Deployment) { d.Status.CollisionCount = new(int32(1)) }, Refused: []string{
			`status.collisionCount: Invalid value: 1: cannot be decremented`}},
		{Name: "no collisions", To: func(d *appsv1.Deployment) { d.Status.CollisionCount = nil }, Refused: []string{
			`status.collisionCount: Invalid value: 0: cannot be decremented`}},
		{Name: "negative", To: func(d *appsv1.Deployment) {
			d.Status.TerminatingReplicas, d.Status.ObservedGeneration = new(int32(-1)), -2
		}, Refused: []string{
			`status.observedGeneration: Invalid value: -2: must be greater than or equal to 0`,
			`status.terminatingReplicas: Invalid value: -1: must be greater than or equal to 0`}},
	})
	labelled := stored.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	registrytest.Replace(k, "status", labelled, stored)
	if len(labelled.Labels) != 0 {
		t.Errorf("the status view set labels: %v", labelled.Labels)
	}
}

func TestDefaultsAndGeneration(t *testing.T) {
	k := registrytest.Find(t, apps.Kinds(), "deployments")
	d := deployment()
	d.Status.Replicas = 9
	registrytest.Prepare(k, d)
	s := d.Spec
	if *s.Replicas != 1 || *s.RevisionHistoryLimit != 10 || *s.ProgressDeadlineSeconds != 600 || s.Strategy.Type != "RollingUpdate" ||
		s.Strategy.RollingUpdate.MaxSurge.String() != "25%" || s.Strategy.RollingUpdate.MaxUnavailable.String() != "25%" ||
		s.Template.Spec.RestartPolicy != corev1.RestartPolicyAlways || s.Template.Spec.Containers[0].ImagePullPolicy != corev1.PullIfNotPresent {
		t.Errorf("defaults: %+v", s)
	}
	if d.Status.Replicas != 0 || d.Generation != 1 {
		t.Errorf("created with status %+v, generation %d", d.Status, d.Generation)
	}
	generation := func(change func(*appsv1.Deployment)) int64 {
		next := d.DeepCopy()
		change(next)
		registrytest.Replace(k, "", next, d)
		return next.Generation
	}
	for name, c := range map[string]struct {
		change func(*appsv1.Deployment)
		want   int64
	}{
		"nothing":    {func(*appsv1.Deployment) {}, 1},
		"status":     {func(d *appsv1.Deployment) { d.Status.Replicas = 5 }, 1},
		"label":      {func(d *appsv1.Deployment) { d.Labels = map[string]string{"a": "b"} }, 1},
		"annotation": {func(d *appsv1.Deployment) { d.Annotations = map[string]string{"a": "b"} }, 2},
		"replicas":   {func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(5)) }, 2},
	} {
		if got := generation(c.change); got != c.want {
			t.Errorf("%s: generation %d, want %d", name, got, c.want)
		}
	}
}

func TestReplicaSet(t *testing.T) {
	k := registrytest.Find(t, apps.Kinds(), "replicasets")
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns"},
		Spec:       appsv1.ReplicaSetSpec{Selector: selector(), Template: template()},
	}
	changes := []registrytest.Change[*appsv1.ReplicaSet]{
		{Name: "negative", To: func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas, rs.Spec.MinReadySeconds = new(int32(-1)), -1 }, Refused: []string{
			`spec.replicas: Invalid value: -1: must be greater than or equal to 0`,
			`spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0`}},
		{Name: "other labels", To: func(rs *appsv1.ReplicaSet) { rs.Spec.Template.Labels = nil }, Refused: []string{
			"spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`"}},
	}
	registrytest.Create(t, k, rs, changes)
	registrytest.Update(t, k, "", rs, changes)
	registrytest.Update(t, k, "", rs, []registrytest.Change[*appsv1.ReplicaSet]{{Name: "selector", To: func(rs *appsv1.ReplicaSet) {
		rs.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Exists"}}}
	}, Refused: []string{
		`spec.selector: Invalid value: {"matchExpressions":[{"key":"app","operator":"Exists"}]}: field is immutable`}}})
	registrytest.Update(t, k, "status", rs, []registrytest.Change[*appsv1.ReplicaSet]{
		{Name: "counts", To: func(rs *appsv1.ReplicaSet) {
			rs.Status = appsv1.ReplicaSetStatus{Replicas: 1, FullyLabeledReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 3}
		}, Refused: []string{
			`status.fullyLabeledReplicas: Invalid value: 2: cannot be greater than status.replicas`,
			`status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas`,
			`status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas`,
			`status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas`}},
	})
}

func TestScale(t *testing.T) {
	for _, plural := range []string{"deployments", "replicasets", "statefulsets"} {
		k := registrytest.Find(t, apps.Kinds(), plural)
		obj := k.New()
		switch o := obj.(type) {
		case *appsv1.Deployment:
			o.Spec.Selector, o.Status.Replicas = selector(), 2
		case *appsv1.ReplicaSet:
			o.Spec.Selector, o.Status.Replicas = selector(), 2
		case *appsv1.StatefulSet:
			o.Spec.Selector, o.Status.Replicas = selector(), 2
		}
		k.Sub.Scale.Set(obj, 5)
		scale := registry.NewScale(*k.Sub.Scale, obj)
		if scale.Spec.Replicas != 5 || scale.Status.Replicas != 2 || scale.Status.Selector != "app=web" {
			t.Errorf("%s: %+v", plural, scale)
		}
	}
}

func TestControllerRevision(t *testing.T) {
	k := registrytest.Find(t, apps.Kinds(), "controllerrevisions")
	good := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "ns"}, Revision: 1, Data: runtime.RawExtension{Raw: []byte(`{"a":1}`)},
	}
	type change = registrytest.Change[*appsv1.ControllerRevision]
	data := func(raw string) func(*appsv1.ControllerRevision) {
		return func(r *appsv1.ControllerRevision) { r.Data.Raw = []byte(raw) }
	}
	registrytest.Create(t, k, good, []change{
		{Name: "negative", To: func(r *appsv1.ControllerRevision) { r.Revision = -1 }, Refused: []string{
			`revision: Invalid value: -1: must be greater than or equal to 0`}},
		{Name: "no data", To: func(r *appsv1.ControllerRevision) { r.Data.Raw = nil }, Refused: []string{
			`data: Required value: data is mandatory`}},
		{Name: "null", To: data("null"), Refused: []string{`data: Required value: data is mandatory`}},
		{Name: "a list", To: data("[]"), Refused: []string{`data: Required value: data must be a valid JSON object`}},
		{Name: "not JSON", To: data("{"), Refused: []string{
			`data: Invalid value: "<value omitted>": error parsing data: unexpected end of JSON input`}},
	})
	registrytest.Update(t, k, "", good, []change{
		{Name: "revision", To: func(r *appsv1.ControllerRevision) { r.Revision = 2 }},
		{Name: "data", To: data(`{"a":2}`), Refused: []string{`data: Invalid value: {"a":2}: field is immutable`}},
	})
}

func ExampleKinds() {
	for _, k := range apps.Kinds() {
		fmt.Println(k.Plural, k.Short, k.Sub.Scale != nil)
	}
	// Output:
	// controllerrevisions [] false
	// daemonsets [ds] false
	// deployments [deploy] true
	// replicasets [rs] true
	// statefulsets [sts] true
}
