package deployment_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/controllers/deployment"
)

// TestCleanUpWhenComplete: old sets beyond the limit are kept until the rollout that made them so is over.
func TestCleanUpWhenComplete(t *testing.T) {
	run(t, &bench{broken: "v3"}, func(b *bench) {
		d := web(1)
		d.Spec.RevisionHistoryLimit = ptr(int32(1))
		create(b, d)
		b.after(time.Minute)
		b.image("v2")
		b.after(time.Minute)
		b.wantSizes("v1=0/0 v2=1/1")
		b.image("v3")
		b.after(time.Hour)
		b.wantSizes("v1=0/0 v2=1/1 v3=1/0")
		b.image("v4")
		b.after(time.Hour)
		b.wantSizes("v3=0/0 v4=1/1")
	})
}

// TestPausedInTheMiddle: a rollout that is paused keeps its sizes, and nothing is written as long as nothing changes.
func TestPausedInTheMiddle(t *testing.T) {
	run(t, &bench{broken: "v2"}, func(b *bench) {
		create(b, web(4))
		b.after(time.Minute)
		b.image("v2")
		b.after(time.Minute)
		b.wantSizes("v1=3/3 v2=2/0")
		b.change(func(d *appsv1.Deployment) { d.Spec.Paused = true })
		b.after(time.Minute)
		b.api.Reset()
		b.change(func(d *appsv1.Deployment) { d.Labels = map[string]string{"a": "b"} })
		b.after(time.Minute)
		if all := b.api.Writes(); len(all) != 0 {
			b.Errorf("wrote %v", all)
		}
		b.change(func(d *appsv1.Deployment) { d.Spec.Replicas = ptr(int32(8)) })
		b.after(time.Minute)
		b.wantSizes("v1=6/6 v2=4/0")
	})
}

// TestMinReadySeconds: the current set follows the Deployment in how long its pods have to be ready; old sets do not.
func TestMinReadySeconds(t *testing.T) {
	inBubble(t, func(b *bench) {
		create(b, web(1))
		b.after(time.Minute)
		b.image("v2")
		b.after(time.Minute)
		b.change(func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 5 })
		b.after(time.Minute)
		if sets := b.sets(); sets["v1"].Spec.MinReadySeconds != 0 || sets["v2"].Spec.MinReadySeconds != 5 {
			b.Errorf("%d and %d", sets["v1"].Spec.MinReadySeconds, sets["v2"].Spec.MinReadySeconds)
		}
	})
}

// TestHashOfAnother: a template that was copied from a set together with its hash label gets a hash of its own.
func TestHashOfAnother(t *testing.T) {
	d := web(1)
	d.Spec.Template.Labels = map[string]string{"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: "other"}
	made := deployment.MakeSet(d)
	hash := strings.TrimPrefix(made.Name, "web-")
	for what, labels := range map[string]map[string]string{"set": made.Labels, "selector": made.Spec.Selector.MatchLabels, "template": made.Spec.Template.Labels} {
		if got := labels[appsv1.DefaultDeploymentUniqueLabelKey]; got != hash || labels["app"] != "web" {
			t.Errorf("%s: %v, want %s", what, labels, hash)
		}
	}
}

// TestNonsense: bounds that cannot be parsed allow no step.
func TestNonsense(t *testing.T) {
	d, none := sized(10, 0, 0), intstr.FromString("some")
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &none, MaxUnavailable: &none}
	if got := deployment.PlanRolling(d, set("v2", 0, 0), set("v1", 10, 10)); len(got) > 0 {
		t.Errorf("plan %v", got)
	}
}
