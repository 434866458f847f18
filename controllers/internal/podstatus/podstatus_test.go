package podstatus_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/podstatus"
)

func TestSetCondition(t *testing.T) {
	then := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	now := then.Add(time.Hour + 7*time.Second + time.Millisecond)
	had := corev1.PodCondition{
		Type: corev1.PodReady, Status: corev1.ConditionTrue, Reason: "R", Message: "M", ObservedGeneration: 1,
		LastTransitionTime: metav1.NewTime(then),
	}
	for name, tt := range map[string]struct {
		change  func(*corev1.PodCondition)
		changed bool
		at      time.Time // of the transition
	}{
		"same":       {func(*corev1.PodCondition) {}, false, then},
		"generation": {func(c *corev1.PodCondition) { c.ObservedGeneration = 2 }, false, then},
		"reason":     {func(c *corev1.PodCondition) { c.Reason = "S" }, true, then},
		"message":    {func(c *corev1.PodCondition) { c.Message = "N" }, true, then},
		"probe":      {func(c *corev1.PodCondition) { c.LastProbeTime = metav1.NewTime(then) }, true, then},
		"status":     {func(c *corev1.PodCondition) { c.Status = corev1.ConditionFalse }, true, then.Add(time.Hour + 7*time.Second)},
		"other type": {func(c *corev1.PodCondition) { c.Type = "Other" }, true, then.Add(time.Hour + 7*time.Second)},
	} {
		status := corev1.PodStatus{Conditions: []corev1.PodCondition{had}}
		c := had
		tt.change(&c)
		changed := podstatus.SetCondition(&status, c, now)
		got := status.Conditions[len(status.Conditions)-1]
		c.LastTransitionTime = metav1.NewTime(tt.at)
		if changed != tt.changed || got != c {
			t.Errorf("%s: changed %v, %+v", name, changed, got)
		}
		if want := 1; c.Type == had.Type && len(status.Conditions) != want {
			t.Errorf("%s: %d conditions", name, len(status.Conditions))
		}
	}
}

func TestPatch(t *testing.T) {
	api := controllerstest.Start(t, controllerstest.Options{})
	pod := controllerstest.Add(t, api, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Message: "kept", Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		}},
	})
	if err := podstatus.Patch(t.Context(), api, pod, pod.Status.DeepCopy()); err != nil || len(api.Writes()) != 0 {
		t.Errorf("nothing to change: %v, %v", api.Writes(), err)
	}

	want := pod.Status.DeepCopy()
	want.Phase, want.ObservedGeneration = corev1.PodFailed, 1
	if !podstatus.Disrupt(pod, want, "Reason", "message") {
		t.Error("the first disruption changes nothing")
	}
	if podstatus.Disrupt(pod, want, "Reason", "message") {
		t.Error("the second one does")
	}
	if err := podstatus.Patch(t.Context(), api, pod, want); err != nil {
		t.Fatal(err)
	}
	if patch := string(api.Writes()[0].Patch); strings.Contains(patch, "Ready") || !strings.Contains(patch, "DisruptionTarget") {
		t.Errorf("patched more than what changed: %s", patch)
	}
	obj, err := api.Get(t.Context(), client.Target{Resource: controllerstest.Pods(), Namespace: "ns", Name: "p"})
	if err != nil {
		t.Fatal(err)
	}
	got := obj.(*corev1.Pod).Status
	if got.Phase != corev1.PodFailed || got.ObservedGeneration != 1 || got.Message != "kept" || len(got.Conditions) != 2 {
		t.Errorf("status %+v", got)
	}
	pod.UID = "another"
	if err := podstatus.Patch(t.Context(), api, pod, want); !apierrors.IsInvalid(err) {
		t.Errorf("a pod of the same name was patched: %v", err)
	}
}
