package core_test

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

func replicationController() *corev1.ReplicationController {
	return &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", Generation: 4},
		Spec: corev1.ReplicationControllerSpec{Template: &corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a:1"}, {Name: "b", Image: "b:1"}}},
		}},
	}
}

func replicationControllers(t *testing.T) registry.Kind {
	t.Helper()
	return registrytest.Find(t, core.Kinds(core.Options{}), "replicationcontrollers")
}

func TestReplicationController(t *testing.T) {
	k := replicationControllers(t)
	type change = registrytest.Change[*corev1.ReplicationController]
	changes := []change{
		{Name: "another selector", To: func(rc *corev1.ReplicationController) {
			rc.Spec.Selector, rc.Spec.Template.Labels = map[string]string{"a": "b"}, map[string]string{"a": "b", "c": "d"}
		}},
		{Name: "other labels", To: func(rc *corev1.ReplicationController) {
			rc.Spec.Selector, rc.Spec.Template.Labels = map[string]string{"app": "web"}, map[string]string{"app": "db"}
		}, Refused: []string{
			"spec.template.metadata.labels: Invalid value: {\"app\":\"db\"}: `selector` does not match template `labels`"}},
		{Name: "never restarted", To: func(rc *corev1.ReplicationController) {
			rc.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		}, Refused: []string{
			`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`}},
		{Name: "deadline for pods", To: func(rc *corev1.ReplicationController) { rc.Spec.Template.Spec.ActiveDeadlineSeconds = new(int64(5)) }, Refused: []string{
			`spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicationController is not Supported`}},
		{Name: "no template", To: func(rc *corev1.ReplicationController) {
			rc.Spec.Selector, rc.Spec.Template = map[string]string{"app": "web"}, nil
		}, Refused: []string{`spec.template: Required value`}},
		{Name: "negative numbers, and no image", To: func(rc *corev1.ReplicationController) {
			rc.Spec.Replicas, rc.Spec.MinReadySeconds, rc.Spec.Template.Spec.Containers[1].Image = new(int32(-1)), -2, ""
		}, Refused: []string{
			`spec.template.spec.containers[1].image: Required value`,
			`spec.replicas: Invalid value: -1: must be greater than or equal to 0`,
			`spec.minReadySeconds: Invalid value: -2: must be greater than or equal to 0`}},
	}
	registrytest.Create(t, k, replicationController(), append(changes, change{Name: "nothing to select", To: func(rc *corev1.ReplicationController) {
		rc.Spec.Template.Labels = nil
	}, Refused: []string{`spec.selector: Required value`}}))
	registrytest.Update(t, k, "", replicationController(), changes)
	registrytest.Update(t, k, "status", replicationController(), []registrytest.Change[*corev1.ReplicationController]{
		{Name: "all ready", To: func(rc *corev1.ReplicationController) {
			rc.Spec.Replicas = new(int32(-1)) // stays as it was
			rc.Status = corev1.ReplicationControllerStatus{Replicas: 2, FullyLabeledReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2, ObservedGeneration: 1}
		}},
		{Name: "too many", To: func(rc *corev1.ReplicationController) {
			rc.Status = corev1.ReplicationControllerStatus{Replicas: 1, FullyLabeledReplicas: 2, ReadyReplicas: 3, AvailableReplicas: 4}
		}, Refused: []string{
			`status.fullyLabeledReplicas: Invalid value: 2: cannot be greater than status.replicas`,
			`status.readyReplicas: Invalid value: 3: cannot be greater than status.replicas`,
			`status.availableReplicas: Invalid value: 4: cannot be greater than status.replicas`,
			`status.availableReplicas: Invalid value: 4: cannot be greater than readyReplicas`}},
		{Name: "negative", To: func(rc *corev1.ReplicationController) {
			rc.Status = corev1.ReplicationControllerStatus{Replicas: -1, FullyLabeledReplicas: -2, ReadyReplicas: -3, AvailableReplicas: -4, ObservedGeneration: -5}
		}, Refused: []string{
			`status.replicas: Invalid value: -1: must be greater than or equal to 0`,
			`status.fullyLabeledReplicas: Invalid value: -2: must be greater than or equal to 0`,
			`status.readyReplicas: Invalid value: -3: must be greater than or equal to 0`,
			`status.availableReplicas: Invalid value: -4: must be greater than or equal to 0`,
			`status.observedGeneration: Invalid value: -5: must be greater than or equal to 0`}},
	})
	bare := replicationController()
	bare.Spec.Selector = map[string]string{"app": "web"}
	errs := k.Rules.Validate(bare)
	if got := errs[len(errs)-1].Error(); got != "spec.replicas: Required value" {
		t.Error(got)
	}
}

// TestUnconverted: what a former version could not say must not change.
func TestUnconverted(t *testing.T) {
	k := replicationControllers(t)
	annotated := func(key string) *corev1.ReplicationController {
		rc := replicationController()
		rc.Annotations = map[string]string{key: "x"}
		return rc
	}
	type change = registrytest.Change[*corev1.ReplicationController]
	reselect := func(rc *corev1.ReplicationController) {
		rc.Spec.Selector, rc.Spec.Template.Labels = map[string]string{"a": "b"}, map[string]string{"a": "b"}
	}
	registrytest.Update(t, k, "", annotated("non-convertible.kubernetes.io/selector"), []change{
		{Name: "selector", To: reselect, Refused: []string{`spec.selector: Invalid value: {"a":"b"}: cannot update non-convertible selector`}},
		{Name: "scale", To: func(rc *corev1.ReplicationController) { rc.Spec.Replicas = new(int32(3)) }},
	})
	registrytest.Update(t, k, "", annotated("non-convertible.kubernetes.io/a/b"), []change{{Name: "not a field", To: reselect}})
	registrytest.Update(t, k, "", annotated("non-convertible.kubernetes.io"), []change{{Name: "no field", To: reselect}})
	rc := annotated("non-convertible.kubernetes.io/other")
	k.Rules.Default(rc)
	if errs := k.Rules.ValidateUpdate(rc.DeepCopy(), rc); len(errs) != 1 || errs[0].Error() != `other: Not found: "x": unknown non-convertible field` {
		t.Error(errs)
	}
}

func TestReplicationControllerDefaults(t *testing.T) {
	k := replicationControllers(t)
	rc := replicationController()
	rc.Status.Replicas = 5
	registrytest.Prepare(k, rc)
	web := map[string]string{"app": "web"}
	if *rc.Spec.Replicas != 1 || !maps.Equal(rc.Spec.Selector, web) || !maps.Equal(rc.Labels, web) ||
		rc.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyAlways || rc.Generation != 1 || rc.Status.Replicas != 0 {
		t.Errorf("prepared as %+v", rc)
	}
	rc.Labels["app"], rc.Spec.Selector["app"] = "a", "b"
	if rc.Spec.Template.Labels["app"] != "web" {
		t.Error("labels are shared")
	}
	kept := replicationController()
	kept.Labels, kept.Spec.Selector, kept.Spec.Replicas = map[string]string{"l": ""}, map[string]string{"s": ""}, new(int32(0))
	if k.Rules.Default(kept); len(kept.Labels) != 1 || kept.Labels["app"] != "" || len(kept.Spec.Selector) != 1 || *kept.Spec.Replicas != 0 {
		t.Errorf("defaults overwrote: %+v", kept)
	}
	for name, c := range map[string]struct {
		to   func(*corev1.ReplicationController)
		want int64
	}{
		"labels":   {func(rc *corev1.ReplicationController) { rc.Labels = map[string]string{"a": "b"} }, 1},
		"status":   {func(rc *corev1.ReplicationController) { rc.Status.Replicas = 3 }, 1},
		"replicas": {func(rc *corev1.ReplicationController) { rc.Spec.Replicas = new(int32(3)) }, 2},
	} {
		old := replicationController()
		registrytest.Prepare(k, old)
		changed := old.DeepCopy()
		c.to(changed)
		if errs := registrytest.Replace(k, "", changed, old); len(errs) > 0 || changed.Generation != c.want || changed.Status.Replicas != 0 {
			t.Errorf("%s: generation %d, want %d; %v", name, changed.Generation, c.want, errs)
		}
	}
	if !k.Rules.Deletion.Orphans {
		t.Error("pods are deleted with it")
	}
}

// TestReplicationControllerDrops: fields of disabled features are dropped unless the stored template uses them.
func TestReplicationControllerDrops(t *testing.T) {
	k := replicationControllers(t)
	with := replicationController()
	with.Spec.Template.Spec.EvictionResponders = []corev1.EvictionResponder{{Name: "example.com/x"}}
	created, kept, updated := with.DeepCopy(), with.DeepCopy(), with.DeepCopy()
	registrytest.Prepare(k, created)
	registrytest.Replace(k, "", kept, with)
	registrytest.Replace(k, "", updated, replicationController())
	for name, tt := range map[string]struct {
		rc   *corev1.ReplicationController
		want int
	}{"created": {created, 0}, "kept": {kept, 1}, "updated": {updated, 0}} {
		if got := len(tt.rc.Spec.Template.Spec.EvictionResponders); got != tt.want {
			t.Errorf("%s with %d", name, got)
		}
	}
}

func TestReplicationControllerNameWarning(t *testing.T) {
	k := replicationControllers(t)
	for name, want := range map[string]string{
		"web":   "",
		"web.1": "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]",
	} {
		var warned []string
		rc := replicationController()
		rc.Name = name
		k.Rules.PrepareCreate(registry.WithWarnings(context.Background(), func(text string) { warned = append(warned, text) }), rc)
		if got := strings.Join(warned, "\n"); got != want {
			t.Errorf("%s: warned %q, want %q", name, got, want)
		}
	}
}

func TestReplicationControllerFieldsAndScale(t *testing.T) {
	k := replicationControllers(t)
	rc := replicationController()
	k.Rules.Default(rc)
	rc.Status.Replicas, rc.Status.ReadyReplicas, rc.CreationTimestamp = 2, 1, ago(60*60*1e9)
	if got := k.Fields(rc); len(got) != 1 || got["status.replicas"] != "2" {
		t.Errorf("fields %v", got)
	}
	k.Sub.Scale.Set(rc, 5)
	scale := registry.NewScale(*k.Sub.Scale, registry.Object(rc))
	if scale.Spec.Replicas != 5 || scale.Status.Replicas != 2 || scale.Status.Selector != "app=web" {
		t.Errorf("scale %+v", scale)
	}
	for _, tt := range []struct {
		change func()
		want   []any
	}{
		{func() {}, []any{"web", int64(5), int64(2), int64(1), "60m", "a,b", "a:1,b:1", "app=web"}},
		{func() { rc.Spec = corev1.ReplicationControllerSpec{} }, []any{"web", int64(0), int64(2), int64(1), "60m", "", "", "<none>"}},
	} {
		tt.change()
		if got := cellsOf(t, "replicationcontrollers", rc); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
	if !slices.Equal(k.Short, []string{"rc"}) || k.Prefix != "controllers" {
		t.Errorf("short names %v, stored below %s", k.Short, k.Prefix)
	}
}
