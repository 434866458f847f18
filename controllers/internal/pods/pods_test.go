package pods_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/informer"
)

func TestPhases(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown} {
		ended := phase == corev1.PodSucceeded || phase == corev1.PodFailed
		for _, deleted := range []bool{false, true} {
			pod := &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
			if deleted {
				pod.DeletionTimestamp = &metav1.Time{}
			}
			if pods.Terminal(pod) != ended || pods.Active(pod) != (!ended && !deleted) || pods.Terminating(pod) != (!ended && deleted) {
				t.Errorf("%s, deleted %t: terminal %t, active %t, terminating %t", phase, deleted, pods.Terminal(pod), pods.Active(pod), pods.Terminating(pod))
			}
		}
	}
}

func TestAvailability(t *testing.T) {
	now := time.Unix(1000, 0)
	ready := func(status corev1.ConditionStatus, ago time.Duration) *corev1.Pod {
		c := corev1.PodCondition{Type: corev1.PodReady, Status: status}
		if ago >= 0 {
			c.LastTransitionTime = metav1.NewTime(now.Add(-ago))
		}
		return &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled}, c}}}
	}
	for name, tt := range map[string]struct {
		pod   *corev1.Pod
		least int32
		want  bool
		left  time.Duration
	}{
		"not ready":         {ready(corev1.ConditionFalse, time.Hour), 0, false, 0},
		"no condition":      {&corev1.Pod{}, 0, false, 0},
		"ready":             {ready(corev1.ConditionTrue, 0), 0, true, 0},
		"ready long enough": {ready(corev1.ConditionTrue, 10*time.Second), 10, true, 0},
		"not yet":           {ready(corev1.ConditionTrue, 9*time.Second), 10, false, time.Second},
		"since when?":       {ready(corev1.ConditionTrue, -1), 10, false, 0},
		"since whenever":    {ready(corev1.ConditionTrue, -1), 0, true, 0},
	} {
		if got := pods.Available(tt.pod, tt.least, now); got != tt.want {
			t.Errorf("%s: available %t", name, got)
		}
		if left, ok := pods.UntilAvailable([]*corev1.Pod{tt.pod}, tt.least, now); left != tt.left || ok != (left > 0) {
			t.Errorf("%s: available in %v, %t; want %v", name, left, ok, tt.left)
		}
	}
	all := []*corev1.Pod{
		ready(corev1.ConditionTrue, time.Second), ready(corev1.ConditionTrue, 3*time.Second), ready(corev1.ConditionTrue, 2*time.Second),
		ready(corev1.ConditionTrue, -1), ready(corev1.ConditionFalse, 9*time.Second), ready(corev1.ConditionTrue, 10*time.Second), ready(corev1.ConditionTrue, time.Minute),
	}
	if left, ok := pods.UntilAvailable(all, 10, now); left != 7*time.Second || !ok {
		t.Errorf("the first of several in %v, %t", left, ok)
	}
}

// TestOnNode: the pods of a node are those bound to it; those bound to none are nobody's.
func TestOnNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := controllerstest.Start(t, controllerstest.Options{})
		in := informer.New(controllerstest.Source[*corev1.Pod](api, controllerstest.Pods()), informer.Options{})
		pods.IndexByNode(in)
		pods.IndexByNode(in)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- in.Run(ctx) }()
		for name, node := range map[string]string{"b": "one", "a": "one", "c": "two", "waits": ""} {
			controllerstest.Add(t, api, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.PodSpec{NodeName: node}})
		}
		synctest.Wait()
		for node, want := range map[string]string{"one": "a b", "two": "c", "three": "", "": ""} {
			var got []string
			for _, pod := range pods.OnNode(in, node) {
				got = append(got, pod.Name)
			}
			if strings.Join(got, " ") != want {
				t.Errorf("on node %q are %q, want %q", node, got, want)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
