package deployment_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/controllers/deployment"
)

// sized is a rolling Deployment of that size and bounds.
func sized(replicas int32, surge, unavailable int32) *appsv1.Deployment {
	d := web(replicas)
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{
		MaxSurge: ptr(intstr.FromInt32(surge)), MaxUnavailable: ptr(intstr.FromInt32(unavailable)),
	}
	return d
}

// set is a ReplicaSet that is as old as its name says (v1 before v2).
func set(name string, size, available int32) *appsv1.ReplicaSet {
	age, _ := strconv.Atoi(strings.TrimPrefix(name, "v"))
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(int64(age), 0))},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &size},
		Status:     appsv1.ReplicaSetStatus{Replicas: size, AvailableReplicas: available, ObservedGeneration: 1},
	}
}

// cut is a set that was given a smaller size than it has pods.
func cut(s *appsv1.ReplicaSet, to int32) *appsv1.ReplicaSet {
	s.Spec.Replicas = &to
	return s
}

func TestPlanRolling(t *testing.T) {
	for _, tt := range []struct {
		name    string
		d       *appsv1.Deployment
		current *appsv1.ReplicaSet
		old     []*appsv1.ReplicaSet
		want    string
	}{
		{"grows within the surge", sized(10, 2, 0), set("v2", 0, 0), []*appsv1.ReplicaSet{set("v1", 10, 10)}, "[{v2 2}]"},
		{"grows into what is missing", sized(10, 2, 0), set("v2", 0, 0), []*appsv1.ReplicaSet{set("v1", 5, 5)}, "[{v2 7}]"},
		{"no more than asked for", sized(10, 5, 0), set("v2", 8, 8), []*appsv1.ReplicaSet{set("v1", 1, 1)}, "[{v2 10}]"},
		{"is cut to the size", sized(10, 2, 0), set("v2", 11, 11), []*appsv1.ReplicaSet{set("v1", 2, 2)}, "[{v2 10}]"},
		{"waits for new pods", sized(10, 2, 0), set("v2", 2, 0), []*appsv1.ReplicaSet{set("v1", 10, 10)}, "[]"},
		{"shrinks by what is available", sized(10, 2, 0), set("v2", 2, 2), []*appsv1.ReplicaSet{set("v1", 10, 10)}, "[{v1 8}]"},
		{"no bounds at all means one down", sized(10, 0, 0), set("v2", 0, 0), []*appsv1.ReplicaSet{set("v1", 10, 10)}, "[{v1 9}]"},
		{"shrinks within the unavailable", sized(10, 0, 2), set("v2", 0, 0), []*appsv1.ReplicaSet{set("v1", 10, 10)}, "[{v1 8}]"},
		{"unhealthy pods go first", sized(10, 0, 2), set("v2", 0, 0), []*appsv1.ReplicaSet{set("v1", 10, 8)}, "[{v1 8}]"},
		{"then healthy ones", sized(10, 0, 2), set("v2", 0, 0), []*appsv1.ReplicaSet{set("v1", 10, 9)}, "[{v1 9} {v1 8}]"},
		{"a bad template takes no more", sized(10, 0, 2), set("v2", 2, 0), []*appsv1.ReplicaSet{set("v1", 8, 8)}, "[]"},
		{"bad new pods use up the spare", sized(10, 3, 2), set("v3", 5, 0), []*appsv1.ReplicaSet{set("v1", 4, 4), set("v2", 4, 1)}, "[]"},
		{"several unhealthy ones", sized(10, 3, 2), set("v3", 5, 4), []*appsv1.ReplicaSet{set("v1", 4, 3), set("v2", 4, 1)}, "[{v1 3} {v2 1}]"},
		{"empty sets are passed over", sized(4, 1, 0), set("v4", 1, 1), []*appsv1.ReplicaSet{set("v1", 0, 0), set("v2", 1, 1), set("v3", 3, 3)}, "[{v2 0}]"},
		{"a set cut just now is waited for", sized(10, 0, 5), set("v2", 0, 0), []*appsv1.ReplicaSet{set("v1", 8, 10)}, "[{v2 2}]"},
		{"old pods are not deleted yet", sized(10, 2, 0), set("v2", 2, 2), []*appsv1.ReplicaSet{cut(set("v1", 10, 10), 8)}, "[]"},
		{"one of them is", sized(10, 2, 0), set("v2", 2, 2), []*appsv1.ReplicaSet{cut(set("v1", 9, 9), 8)}, "[{v2 3}]"},
		{"done", sized(3, 1, 0), set("v2", 3, 3), []*appsv1.ReplicaSet{set("v1", 0, 0)}, "[]"},
	} {
		if got := fmt.Sprint(deployment.PlanRolling(tt.d, tt.current, tt.old...)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestPlanScale has the figures of upstream's tests.
func TestPlanScale(t *testing.T) {
	for _, tt := range []struct {
		name        string
		from        int32
		d           *appsv1.Deployment
		surgeBefore int32
		current     *appsv1.ReplicaSet
		old         []*appsv1.ReplicaSet
		want        map[string]int32
	}{
		{"10 to 12", 10, sized(12, 0, 0), 0, set("v1", 10, 0), nil, map[string]int32{"v1": 12}},
		{"10 to 5", 10, sized(5, 0, 0), 0, set("v1", 10, 0), nil, map[string]int32{"v1": 5}},
		{"5 to 10", 5, sized(10, 0, 0), 0, set("v2", 2, 0), []*appsv1.ReplicaSet{set("v1", 3, 0)}, map[string]int32{"v2": 4, "v1": 6}},
		{"5 to 3", 5, sized(3, 0, 0), 0, set("v2", 2, 0), []*appsv1.ReplicaSet{set("v1", 3, 0)}, map[string]int32{"v2": 1, "v1": 2}},
		{"9 to 4", 9, sized(4, 0, 0), 0, set("v2", 8, 0), []*appsv1.ReplicaSet{set("v1", 1, 0)}, map[string]int32{"v2": 4, "v1": 0}},
		{"7 to 10", 7, sized(10, 0, 0), 0, set("v3", 2, 0), []*appsv1.ReplicaSet{set("v1", 2, 0), set("v2", 3, 0)}, map[string]int32{"v3": 3, "v2": 4, "v1": 3}},
		{"13 to 8", 13, sized(8, 0, 0), 0, set("v3", 2, 0), []*appsv1.ReplicaSet{set("v1", 3, 0), set("v2", 8, 0)}, map[string]int32{"v3": 1, "v2": 5, "v1": 2}},
		{"leftover 3 to 4", 3, sized(4, 0, 0), 0, set("v3", 1, 0), []*appsv1.ReplicaSet{set("v1", 1, 0), set("v2", 1, 0)}, map[string]int32{"v3": 2, "v2": 1, "v1": 1}},
		{"leftover 3 to 2", 3, sized(2, 0, 0), 0, set("v3", 1, 0), []*appsv1.ReplicaSet{set("v1", 1, 0), set("v2", 1, 0)}, map[string]int32{"v3": 1, "v2": 1, "v1": 0}},
		{"no new set", 4, sized(5, 0, 0), 0, nil, []*appsv1.ReplicaSet{set("v1", 2, 0), set("v2", 2, 0)}, map[string]int32{"v2": 3, "v1": 2}},
		{"6 to 0", 6, sized(0, 0, 0), 0, set("v3", 3, 0), []*appsv1.ReplicaSet{set("v1", 1, 0), set("v2", 2, 0)}, map[string]int32{"v3": 0, "v2": 0, "v1": 0}},
		{"0 to 6", 6, sized(6, 0, 0), 0, set("v3", 0, 0), []*appsv1.ReplicaSet{set("v1", 0, 0), set("v2", 0, 0)}, map[string]int32{"v3": 6}},
		{"with surge", 10, sized(20, 2, 0), 2, set("v2", 6, 0), []*appsv1.ReplicaSet{set("v1", 6, 0)}, map[string]int32{"v2": 11, "v1": 11}},
		{"surge and size", 10, sized(50, 6, 0), 3, set("v2", 5, 0), []*appsv1.ReplicaSet{set("v1", 8, 0)}, map[string]int32{"v2": 22, "v1": 34}},
		{"size and template", 10, sized(14, 0, 0), 0, nil, []*appsv1.ReplicaSet{set("v1", 3, 0), set("v2", 7, 0)}, map[string]int32{"v2": 10, "v1": 4}},
		{"full but broken", 2, sized(2, 1, 1), 1, set("v2", 2, 0), []*appsv1.ReplicaSet{set("v1", 1, 0)}, map[string]int32{"v2": 2, "v1": 1}},
		{"full", 2, sized(2, 1, 1), 1, set("v2", 2, 2), []*appsv1.ReplicaSet{set("v1", 1, 1)}, map[string]int32{"v1": 0}},
		{"6 to 0, with surge", 6, sized(0, 2, 0), 2, set("v3", 3, 0), []*appsv1.ReplicaSet{set("v1", 1, 0), set("v2", 2, 0)}, map[string]int32{"v3": 0, "v2": 0, "v1": 0}},
		{"rounded up", 4, sized(7, 0, 0), 0, set("v2", 2, 0), []*appsv1.ReplicaSet{set("v1", 2, 0)}, map[string]int32{"v2": 4, "v1": 3}},
		{"rounded down", 6, sized(3, 0, 0), 0, set("v2", 3, 0), []*appsv1.ReplicaSet{set("v1", 3, 0)}, map[string]int32{"v2": 2, "v1": 1}},
		{"nothing at all", 2, sized(2, 1, 1), 1, nil, nil, map[string]int32{}},
	} {
		all := slices.Clone(tt.old)
		if tt.current != nil {
			all = append(all, tt.current)
		}
		for _, s := range all {
			s.Annotations = map[string]string{
				"deployment.kubernetes.io/desired-replicas": fmt.Sprint(tt.from),
				"deployment.kubernetes.io/max-replicas":     fmt.Sprint(tt.from + tt.surgeBefore),
			}
		}
		got := map[string]int32{}
		for _, step := range deployment.PlanScale(tt.d, tt.current, tt.old...) {
			got[step.Set] = step.To
		}
		if !maps.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestFenceposts(t *testing.T) {
	for _, tt := range []struct {
		replicas           int32
		surge, unavailable string
		wantSurge, wantUn  int32
	}{
		{2, "0%", "1%", 0, 1},
		{1, "0%", "1%", 0, 1},
		{2, "1%", "25%", 1, 0},
		{1, "1%", "25%", 1, 0},
		{2, "1%", "0%", 1, 0},
		{10, "25%", "25%", 3, 2},
		{10, "3", "4", 3, 4},
		{0, "25%", "25%", 0, 1},
	} {
		d := web(tt.replicas)
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: ptr(intstr.Parse(tt.surge)), MaxUnavailable: ptr(intstr.Parse(tt.unavailable))}
		surge, unavailable, err := deployment.Fenceposts(d)
		if err != nil || surge != tt.wantSurge || unavailable != tt.wantUn {
			t.Errorf("%d with %s and %s: %d, %d, %v; want %d, %d", tt.replicas, tt.surge, tt.unavailable, surge, unavailable, err, tt.wantSurge, tt.wantUn)
		}
	}
	bad := web(1)
	bad.Spec.Strategy.RollingUpdate.MaxSurge = ptr(intstr.FromString("x"))
	if _, _, err := deployment.Fenceposts(bad); err == nil {
		t.Error("nonsense is an error")
	}
	bad.Spec.Strategy.RollingUpdate = nil
	if surge, unavailable, err := deployment.Fenceposts(bad); surge != 0 || unavailable != 1 || err != nil {
		t.Errorf("nothing said: %d, %d, %v", surge, unavailable, err)
	}
}

func TestAnnotate(t *testing.T) {
	const rev, history = "deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history"
	long := strings.Repeat("1234567,", 249) + "1234567" // 1999 characters
	for _, tt := range []struct {
		name    string
		had     map[string]string
		next    int64
		want    map[string]string
		changed bool
	}{
		{"new", nil, 1, map[string]string{rev: "1", "note": "n"}, true},
		{"up to date", map[string]string{rev: "2", "note": "n"}, 2, map[string]string{rev: "2", "note": "n"}, false},
		{"higher already", map[string]string{rev: "5", "note": "n"}, 2, map[string]string{rev: "5", "note": "n"}, false},
		{"rolled back to", map[string]string{rev: "1", "note": "n"}, 3, map[string]string{rev: "3", history: "1", "note": "n"}, true},
		{"and again", map[string]string{rev: "3", history: "1", "note": "n"}, 5, map[string]string{rev: "5", history: "1,3", "note": "n"}, true},
		{"other note", map[string]string{rev: "1", "note": "o", "more": "m"}, 1, map[string]string{rev: "1", "note": "n", "more": "m"}, true},
		{"an empty one", map[string]string{rev: "", "note": "n"}, 3, map[string]string{rev: "3", "note": "n"}, true},
		{"nonsense is left", map[string]string{rev: "x", "note": "n"}, 3, map[string]string{rev: "x", "note": "n"}, false},
		{"long history", map[string]string{rev: "7", history: long, "note": "n"}, 8, map[string]string{rev: "8", history: strings.Repeat("1234567,", 249) + "7", "note": "n"}, true},
	} {
		d := web(1)
		d.Annotations = map[string]string{"note": "n", rev: "77", corev1.LastAppliedConfigAnnotation: "{}", appsv1.DeprecatedRollbackTo: "1"}
		s := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Annotations: tt.had}}
		if changed := deployment.Annotate(d, s, tt.next); changed != tt.changed || !maps.Equal(s.Annotations, tt.want) {
			t.Errorf("%s: %v, %v; want %v, %v", tt.name, s.Annotations, changed, tt.want, tt.changed)
		}
	}
}

func TestSuperfluous(t *testing.T) {
	numbered := func(name string, revision, size, has int32) *appsv1.ReplicaSet {
		s := set(name, size, 0)
		s.Status.Replicas = has
		s.Annotations = map[string]string{"deployment.kubernetes.io/revision": fmt.Sprint(revision)}
		return s
	}
	unseen := numbered("v0", 0, 0, 0)
	unseen.Generation = 2
	deleted := numbered("v9", 0, 0, 0)
	deleted.DeletionTimestamp = ptr(metav1.Now())
	for _, tt := range []struct {
		name  string
		limit *int32
		old   []*appsv1.ReplicaSet
		want  string
	}{
		{"over the limit, by revision", ptr(int32(1)), []*appsv1.ReplicaSet{numbered("v1", 3, 0, 0), numbered("v2", 2, 0, 0), numbered("v3", 1, 0, 0)}, "v3 v2"},
		{"same revision, by age", ptr(int32(1)), []*appsv1.ReplicaSet{numbered("v2", 1, 0, 0), numbered("v1", 1, 0, 0)}, "v1"},
		{"those with pods stay", ptr(int32(0)), []*appsv1.ReplicaSet{numbered("v1", 1, 1, 0), numbered("v2", 2, 0, 1), numbered("v3", 3, 0, 0)}, "v3"},
		{"those not seen stay", ptr(int32(0)), []*appsv1.ReplicaSet{unseen}, ""},
		{"those being deleted do not count", ptr(int32(1)), []*appsv1.ReplicaSet{deleted, numbered("v1", 1, 0, 0)}, ""},
		{"within the limit", ptr(int32(2)), []*appsv1.ReplicaSet{numbered("v1", 1, 0, 0), numbered("v2", 2, 0, 0)}, ""},
		{"no limit", nil, []*appsv1.ReplicaSet{numbered("v1", 1, 0, 0)}, ""},
		{"the largest limit", ptr(int32(1<<31 - 1)), []*appsv1.ReplicaSet{numbered("v1", 1, 0, 0)}, ""},
	} {
		d := web(1)
		d.Spec.RevisionHistoryLimit = tt.limit
		var got []string
		for _, s := range deployment.Superfluous(d, tt.old) {
			got = append(got, s.Name)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, got, tt.want)
		}
	}
}

func TestRolloutStatus(t *testing.T) {
	now := time.Unix(10_000, 0)
	progressing := func(status corev1.ConditionStatus, reason string, ago time.Duration) appsv1.DeploymentCondition {
		return appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: status, Reason: reason, LastUpdateTime: metav1.NewTime(now.Add(-ago))}
	}
	failing := set("v1", 1, 1)
	failing.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: "old"}}
	silent, unseen := set("v1", 1, 1), set("v1", 1, 1)
	unseen.Status.ObservedGeneration = 0
	terminatingSet := set("v1", 1, 1)
	terminatingSet.Status.TerminatingReplicas = ptr(int32(2))
	for _, tt := range []struct {
		name        string
		had         []appsv1.DeploymentCondition
		before      appsv1.DeploymentStatus
		noDeadline  bool
		current     *appsv1.ReplicaSet
		old         []*appsv1.ReplicaSet
		progress    string
		failure     bool
		terminating string
	}{
		{name: "first look", current: set("v2", 3, 0), progress: "True ReplicaSetUpdated", terminating: "nil"},
		{name: "complete", had: []appsv1.DeploymentCondition{progressing("True", "ReplicaSetUpdated", time.Minute)}, current: set("v2", 3, 3), progress: "True NewReplicaSetAvailable", terminating: "nil"},
		{name: "no progress", had: []appsv1.DeploymentCondition{progressing("True", "ReplicaSetUpdated", time.Minute)},
			before: appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 3}, current: set("v2", 3, 0), progress: "True ReplicaSetUpdated", terminating: "nil"},
		{name: "past the deadline", had: []appsv1.DeploymentCondition{progressing("True", "ReplicaSetUpdated", 11*time.Minute)},
			before: appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 3}, current: set("v2", 3, 0), progress: "False ProgressDeadlineExceeded", terminating: "nil"},
		{name: "at the deadline", had: []appsv1.DeploymentCondition{progressing("True", "ReplicaSetUpdated", 10*time.Minute)},
			before: appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 3}, current: set("v2", 3, 0), progress: "True ReplicaSetUpdated", terminating: "nil"},
		{name: "finished before", had: []appsv1.DeploymentCondition{progressing("True", "NewReplicaSetAvailable", time.Hour)},
			current: set("v2", 3, 1), progress: "True NewReplicaSetAvailable", terminating: "nil"},
		{name: "progress after the deadline", had: []appsv1.DeploymentCondition{progressing("False", "ProgressDeadlineExceeded", time.Hour)},
			before: appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 2}, current: set("v2", 3, 0), progress: "True ReplicaSetUpdated", terminating: "nil"},
		{name: "nobody watches progress", noDeadline: true, had: []appsv1.DeploymentCondition{progressing("True", "ReplicaSetUpdated", time.Hour)}, current: set("v2", 3, 0), progress: "none", terminating: "nil"},
		{name: "an old set fails", current: set("v2", 2, 0), old: []*appsv1.ReplicaSet{failing}, progress: "True ReplicaSetUpdated", failure: true, terminating: "nil"},
		{name: "pods are terminating", old: []*appsv1.ReplicaSet{terminatingSet}, progress: "True ReplicaSetUpdated", terminating: "2"},
		{name: "a set was not seen yet", old: []*appsv1.ReplicaSet{terminatingSet, unseen}, progress: "True ReplicaSetUpdated", terminating: "2"},
		{name: "a set does not say", old: []*appsv1.ReplicaSet{terminatingSet, silent}, progress: "True ReplicaSetUpdated", terminating: "nil"},
	} {
		d := web(3)
		d.CreationTimestamp = metav1.NewTime(now)
		d.Status = tt.before
		d.Status.Conditions = tt.had
		if tt.noDeadline {
			d.Spec.ProgressDeadlineSeconds = nil
		}
		got := deployment.RolloutStatus(d, tt.current, tt.old...)()
		progress, failure, terminating := "none", false, "nil"
		for _, c := range got.Conditions {
			switch c.Type {
			case appsv1.DeploymentProgressing:
				progress = fmt.Sprintf("%s %s", c.Status, c.Reason)
			case appsv1.DeploymentReplicaFailure:
				failure = c.Message == "old"
			}
		}
		if got.TerminatingReplicas != nil {
			terminating = fmt.Sprint(*got.TerminatingReplicas)
		}
		if progress != tt.progress || failure != tt.failure || terminating != tt.terminating {
			t.Errorf("%s: %s, failure %t, terminating %s; want %s, %t, %s", tt.name, progress, failure, terminating, tt.progress, tt.failure, tt.terminating)
		}
	}
}

func TestProgressCheck(t *testing.T) {
	now := time.Unix(10_000, 0)
	for ago, want := range map[time.Duration]time.Duration{
		3 * time.Minute: 7*time.Minute + time.Second, 10 * time.Minute: 5 * time.Millisecond, time.Hour: 5 * time.Millisecond,
	} {
		d := web(3)
		d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, LastUpdateTime: metav1.NewTime(now.Add(-ago))}}
		if got := deployment.ProgressCheck(d, &d.Status, now); got != want {
			t.Errorf("updated %v ago: %v, want %v", ago, got, want)
		}
		d.Status.Conditions[0].Reason = "ProgressDeadlineExceeded"
		if got := deployment.ProgressCheck(d, &d.Status, now); got != 0 {
			t.Errorf("timed out already: %v", got)
		}
	}
}

func TestNamesAndHashes(t *testing.T) {
	if got := deployment.SetName("web", "abc"); got != "web-abc" {
		t.Error(got)
	}
	if got := deployment.SetName(strings.Repeat("x", 253), "abc"); got != strings.Repeat("x", 249)+"-abc" {
		t.Error(got)
	}
	template := web(1).Spec.Template
	hash := deployment.TemplateHash(&template, nil)
	if again := deployment.TemplateHash(template.DeepCopy(), nil); again != hash {
		t.Errorf("hash %s, then %s", hash, again)
	}
	other := template.DeepCopy()
	other.Spec.Containers[0].Image = "v2"
	zero, one := int32(0), int32(1)
	all := []string{hash, deployment.TemplateHash(other, nil), deployment.TemplateHash(&template, &zero), deployment.TemplateHash(&template, &one)}
	slices.Sort(all)
	if len(slices.Compact(all)) != 4 {
		t.Errorf("hashes collide: %v", all)
	}
	if strings.Trim(hash, "bcdfghjklmnpqrstvwxz2456789") != "" {
		t.Errorf("hash %q has unsafe characters", hash)
	}
	if got := deployment.LastRevision([]*appsv1.ReplicaSet{
		{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"deployment.kubernetes.io/revision": "4"}}},
		{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"deployment.kubernetes.io/revision": "2"}}},
		{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"deployment.kubernetes.io/revision": "x"}}},
	}); got != 2 {
		t.Errorf("last revision %d", got)
	}
}
