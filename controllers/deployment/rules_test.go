package deployment_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers/deployment"
)

const (
	revision = "deployment.kubernetes.io/revision"
	desired  = "deployment.kubernetes.io/desired-replicas"
)

func TestSetCondition(t *testing.T) {
	then, now := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	had := appsv1.DeploymentCondition{Type: "A", Status: "True", Reason: "R", Message: "M", LastUpdateTime: then, LastTransitionTime: then}
	for name, tt := range map[string]struct {
		set  appsv1.DeploymentCondition
		want string // updated, in transition
	}{
		"same status and reason": {appsv1.DeploymentCondition{Type: "A", Status: "True", Reason: "R", Message: "N", LastUpdateTime: now, LastTransitionTime: now}, "A M 1000 1000, B  0 0"},
		"same status":            {appsv1.DeploymentCondition{Type: "A", Status: "True", Reason: "S", Message: "N", LastUpdateTime: now, LastTransitionTime: now}, "B  0 0, A N 2000 1000"},
		"same reason":            {appsv1.DeploymentCondition{Type: "A", Status: "False", Reason: "R", Message: "N", LastUpdateTime: now, LastTransitionTime: now}, "B  0 0, A N 2000 2000"},
		"another":                {appsv1.DeploymentCondition{Type: "C", Status: "True", Reason: "R", Message: "N", LastUpdateTime: now, LastTransitionTime: now}, "A M 1000 1000, B  0 0, C N 2000 2000"},
	} {
		zero := metav1.NewTime(time.Unix(0, 0))
		status := appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{had, {Type: "B", LastUpdateTime: zero, LastTransitionTime: zero}}}
		deployment.SetCondition(&status, tt.set)
		var got []string
		for _, c := range status.Conditions {
			got = append(got, fmt.Sprintf("%s %s %d %d", c.Type, c.Message, c.LastUpdateTime.Unix(), c.LastTransitionTime.Unix()))
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%s: %v, want %s", name, got, tt.want)
		}
	}
}

func TestComplete(t *testing.T) {
	d := web(3)
	d.Generation = 2
	full := appsv1.DeploymentStatus{UpdatedReplicas: 3, Replicas: 3, AvailableReplicas: 3, ReadyReplicas: 3, ObservedGeneration: 2}
	for name, tt := range map[string]struct {
		change func(*appsv1.DeploymentStatus)
		want   bool
	}{
		"complete":                {func(*appsv1.DeploymentStatus) {}, true},
		"of a later generation":   {func(s *appsv1.DeploymentStatus) { s.ObservedGeneration = 3 }, true},
		"of an older generation":  {func(s *appsv1.DeploymentStatus) { s.ObservedGeneration = 1 }, false},
		"some are old":            {func(s *appsv1.DeploymentStatus) { s.UpdatedReplicas = 2 }, false},
		"old ones are still here": {func(s *appsv1.DeploymentStatus) { s.Replicas = 4 }, false},
		"one is not available":    {func(s *appsv1.DeploymentStatus) { s.AvailableReplicas = 2 }, false},
	} {
		status := full
		tt.change(&status)
		if got := deployment.Complete(d, &status); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	d.Spec.Replicas = nil // is 1
	if status := (appsv1.DeploymentStatus{UpdatedReplicas: 1, Replicas: 1, AvailableReplicas: 1, ObservedGeneration: 2}); !deployment.Complete(d, &status) {
		t.Error("one of one that was not asked for")
	}
}

func TestProgressed(t *testing.T) {
	had := appsv1.DeploymentStatus{Replicas: 5, UpdatedReplicas: 3, ReadyReplicas: 2, AvailableReplicas: 1}
	for name, tt := range map[string]struct {
		now  appsv1.DeploymentStatus
		want bool
	}{
		"no change":        {had, false},
		"one more updated": {appsv1.DeploymentStatus{Replicas: 6, UpdatedReplicas: 4, ReadyReplicas: 2, AvailableReplicas: 1}, true},
		"one less old":     {appsv1.DeploymentStatus{Replicas: 4, UpdatedReplicas: 3, ReadyReplicas: 2, AvailableReplicas: 1}, true},
		"one less of each": {appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 1}, true},
		"one more ready":   {appsv1.DeploymentStatus{Replicas: 5, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 1}, true},
		"one more there":   {appsv1.DeploymentStatus{Replicas: 5, UpdatedReplicas: 3, ReadyReplicas: 2, AvailableReplicas: 2}, true},
		"one less updated": {appsv1.DeploymentStatus{Replicas: 4, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 1}, false},
		"one more old":     {appsv1.DeploymentStatus{Replicas: 6, UpdatedReplicas: 3, ReadyReplicas: 2, AvailableReplicas: 1}, false},
		"less of it ready": {appsv1.DeploymentStatus{Replicas: 5, UpdatedReplicas: 3, ReadyReplicas: 1, AvailableReplicas: 0}, false},
	} {
		if got := deployment.Progressed(&had, &tt.now); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestTime: what the reason of Progressing and the time since its update mean for the deadline of 600 s.
func TestTime(t *testing.T) {
	now := time.Unix(10_000, 0)
	for _, tt := range []struct {
		reason   string // "" is no condition
		ago      time.Duration
		timedOut bool
		check    time.Duration
		paused   string // what a paused Deployment's condition becomes
		resumed  string // what another's does
	}{
		{"", 0, false, 0, "DeploymentPaused", ""},
		{"ReplicaSetUpdated", time.Second, false, 600 * time.Second, "DeploymentPaused", ""},
		{"ReplicaSetUpdated", 599 * time.Second, false, 2 * time.Second, "DeploymentPaused", ""},
		{"ReplicaSetUpdated", 599*time.Second + time.Millisecond, false, 5 * time.Millisecond, "DeploymentPaused", ""},
		{"ReplicaSetUpdated", 595 * time.Second, false, 6 * time.Second, "DeploymentPaused", ""},
		{"ReplicaSetUpdated", 600 * time.Second, false, 5 * time.Millisecond, "DeploymentPaused", ""},
		{"ReplicaSetUpdated", 601 * time.Second, true, 5 * time.Millisecond, "DeploymentPaused", ""},
		{"NewReplicaSetAvailable", time.Hour, false, 0, "DeploymentPaused", ""},
		{"ProgressDeadlineExceeded", time.Second, true, 0, "", ""},
		{"DeploymentPaused", time.Second, false, 600 * time.Second, "", "DeploymentResumed"},
	} {
		d := web(3)
		d.Generation, d.Status.ObservedGeneration = 1, 1
		if tt.reason != "" {
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Reason: tt.reason, LastUpdateTime: metav1.NewTime(now.Add(-tt.ago))}}
		}
		name := fmt.Sprintf("%s %v ago", tt.reason, tt.ago)
		if got := deployment.TimedOut(d, &d.Status, now); got != tt.timedOut {
			t.Errorf("%s: timed out %t", name, got)
		}
		if got := deployment.ProgressCheck(d, &d.Status, now); got != tt.check {
			t.Errorf("%s: looks again after %v, want %v", name, got, tt.check)
		}
		for paused, want := range map[bool]string{true: tt.paused, false: tt.resumed} {
			d.Spec.Paused = paused
			c, ok := deployment.PauseCondition(d, now)
			if c.Reason != want || ok != (want != "") || ok && c.Status != corev1.ConditionUnknown {
				t.Errorf("%s: paused %t becomes %+v, %t; want %s", name, paused, c, ok, want)
			}
		}
		full := appsv1.DeploymentStatus{UpdatedReplicas: 3, Replicas: 3, AvailableReplicas: 3, ObservedGeneration: 1}
		if got := deployment.ProgressCheck(d, &full, now); got != 0 {
			t.Errorf("%s: complete, looks again after %v", name, got)
		}
		for _, none := range []*int32{nil, ptr(int32(1<<31 - 1))} {
			d.Spec.ProgressDeadlineSeconds, d.Spec.Paused = none, true
			if got := deployment.ProgressCheck(d, &d.Status, now); got != 0 {
				t.Errorf("%s: no deadline, looks again after %v", name, got)
			}
			if _, ok := deployment.PauseCondition(d, now); ok {
				t.Errorf("%s: no deadline, and a pause is told", name)
			}
		}
	}
}

func TestCountAnnotation(t *testing.T) {
	for value, want := range map[string]int32{"0": 0, "7": 7, "2147483647": 2147483647, "2147483648": -1, "4294967296": -1, "-1": -1, "x": -1, "": -1} {
		s := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{desired: value}}}
		if got, ok := deployment.CountAnnotation(s, desired); ok != (want >= 0) || ok && got != want || !ok && got != 0 {
			t.Errorf("%q: %d, %t", value, got, ok)
		}
	}
}

func TestTakeTemplate(t *testing.T) {
	s := set("v1", 1, 1)
	s.Spec.Template = *web(1).Spec.Template.DeepCopy()
	s.Spec.Template.Labels["pod-template-hash"] = "h"
	s.Annotations = map[string]string{"note": "old", "more": "m", revision: "1", desired: "3"}
	for name, tt := range map[string]struct{ had, want map[string]string }{
		"others go, its own stay": {map[string]string{"note": "new", "gone": "x", revision: "2"}, map[string]string{"note": "old", "more": "m", revision: "2"}},
		"none":                    {nil, map[string]string{"note": "old", "more": "m"}},
	} {
		d := web(1)
		d.Spec.Template.Spec.Containers[0].Image = "v2"
		d.Annotations = tt.had
		deployment.TakeTemplate(d, s)
		if !maps.Equal(d.Annotations, tt.want) || d.Spec.Template.Spec.Containers[0].Image != "v1" || len(d.Spec.Template.Labels) != 1 {
			t.Errorf("%s: %v, %+v", name, d.Annotations, d.Spec.Template)
		}
	}
}

func TestRevisions(t *testing.T) {
	for _, tt := range []struct {
		revisions  string
		next, last int64
	}{
		{"", 1, 0}, {"1", 2, 0}, {"1 2", 3, 1}, {"2 1", 3, 1}, {"1 3 2", 4, 2}, {"3 x 2", 4, 2}, {"3 -", 4, 0}, {"5 5", 6, 5}, {"1 2 3 3", 4, 3},
	} {
		var all []*appsv1.ReplicaSet
		for _, r := range strings.Fields(tt.revisions) {
			s := set("v1", 1, 1)
			if r != "-" {
				s.Annotations = map[string]string{revision: r}
			}
			all = append(all, s)
		}
		if next, last := deployment.NextRevision(all), deployment.LastRevision(all); next != tt.next || last != tt.last {
			t.Errorf("%q: next %d, last %d; want %d, %d", tt.revisions, next, last, tt.next, tt.last)
		}
	}
}

// TestHistoryByAge: sets whose revision is no number, and all beside them, go by age.
func TestHistoryByAge(t *testing.T) {
	d := web(1)
	d.Spec.RevisionHistoryLimit = ptr(int32(1))
	for _, tt := range []struct{ first, second, want string }{{"9", "1", "v2"}, {"x", "1", "v1"}, {"9", "x", "v1"}, {"1", "1", "v1"}, {"1", "-", "v2"}} {
		a, b := set("v1", 0, 0), set("v2", 0, 0)
		a.Annotations, b.Annotations = map[string]string{revision: tt.first}, map[string]string{revision: tt.second}
		if tt.second == "-" {
			b.Annotations = nil // is 0
		}
		for _, order := range [][]*appsv1.ReplicaSet{{a, b}, {b, a}} {
			if got := deployment.Superfluous(d, order); len(got) != 1 || got[0].Name != tt.want {
				t.Errorf("%s and %s: %v", tt.first, tt.second, got)
			}
		}
	}
}

// TestBounds: other strategies than rolling updates have none, and neither has a Deployment of size 0.
func TestBounds(t *testing.T) {
	d := web(4)
	d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	if surge, unavailable, err := deployment.Fenceposts(d); surge != 0 || unavailable != 0 || err != nil {
		t.Errorf("%d, %d, %v", surge, unavailable, err)
	}
	for size, want := range map[int32]int32{0: 0, 1: 1, 10: 3} {
		if got := deployment.MaxUnavailable(sized(size, 0, 3)); got != want {
			t.Errorf("of %d: %d, want %d", size, got, want)
		}
	}
	bad := sized(4, 0, 3)
	bad.Spec.Strategy.RollingUpdate.MaxUnavailable.Type, bad.Spec.Strategy.RollingUpdate.MaxUnavailable.StrVal = 1, "x"
	if _, _, err := deployment.Fenceposts(bad); err == nil {
		t.Error("nonsense is an error")
	}
	if got := deployment.MaxUnavailable(bad); got != 0 {
		t.Errorf("of nonsense: %d", got)
	}
	if got := deployment.SetName(strings.Repeat("x", 249), "abc"); got != strings.Repeat("x", 249)+"-abc" {
		t.Errorf("as long as may be: %s", got)
	}
}

// TestPlanEdges: sizes that are just reached, or passed.
func TestPlanEdges(t *testing.T) {
	unsized := set("v2", 0, 0)
	unsized.Spec.Replicas = nil // is 1
	for _, tt := range []struct {
		name    string
		d       *appsv1.Deployment
		current *appsv1.ReplicaSet
		old     []*appsv1.ReplicaSet
		want    string
	}{
		{"nothing to spare", sized(4, 1, 1), set("v2", 1, 0), []*appsv1.ReplicaSet{set("v1", 3, 3)}, "[{v2 2}]"},
		{"unhealthy ones use up the spare", sized(4, 0, 2), set("v3", 0, 0), []*appsv1.ReplicaSet{set("v1", 2, 0), set("v2", 4, 4)}, "[{v1 0} {v2 2}]"},
		{"in several sets", sized(4, 0, 1), set("v3", 0, 0), []*appsv1.ReplicaSet{set("v1", 2, 0), set("v2", 3, 0)}, "[{v1 0}]"},
		{"and what is left of it", sized(4, 0, 1), set("v3", 0, 0), []*appsv1.ReplicaSet{set("v1", 1, 0), set("v2", 4, 0)}, "[{v1 0} {v2 3}]"},
		{"a set without a size", sized(2, 1, 0), unsized, []*appsv1.ReplicaSet{set("v1", 1, 1)}, "[{v2 2}]"},
		{"over its room", sized(4, 0, 1), set("v2", 2, 2), []*appsv1.ReplicaSet{set("v1", 9, 9)}, "[{v1 1}]"},
	} {
		if got := fmt.Sprint(deployment.PlanRolling(tt.d, tt.current, tt.old...)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
