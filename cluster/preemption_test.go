package cluster_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/cri/simulated"
)

// preempting is a cluster with classes of priority, of which "polite" preempts nobody.
func preempting(t *testing.T, count int, test func(w *world)) {
	o := nodes(count)
	// Containers that were told to stop take five seconds.
	runtime := o.Nodes.Runtime("")
	runtime.Program = func(simulated.Process) simulated.Program { return simulated.Program{StopAfter: 5 * time.Second} }
	o.Nodes.Runtime = func(string) simulated.Options { return runtime }
	o.Nodes.Capacity = corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("20")}
	inBubble(t, o, func(_ *testing.T, w *world) {
		never := corev1.PreemptNever
		for name, class := range map[string]schedulingv1.PriorityClass{
			"low": {Value: 1}, "mid": {Value: 5}, "high": {Value: 10}, "polite": {Value: 10, PreemptionPolicy: &never},
		} {
			class.Name = name
			_, err := w.cs.SchedulingV1().PriorityClasses().Create(w.ctx, &class, metav1.CreateOptions{})
			w.check(err)
		}
		test(w)
	})
}

// wanting returns a pod of a class that requests CPUs.
func wanting(name, class, cpu string, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := testPod(name)
	p.Labels = map[string]string{"app": name}
	p.Spec.PriorityClassName = class
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(cpu)}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func on(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node} }
}

// put creates pods, one after the other, and lets them start.
func (w *world) put(pods ...*corev1.Pod) {
	w.t.Helper()
	for _, p := range pods {
		_, err := w.pods.Create(w.ctx, p, metav1.CreateOptions{})
		w.check(err)
		time.Sleep(5 * time.Second)
	}
}

func (w *world) pod(name string) *corev1.Pod {
	w.t.Helper()
	p, err := w.pods.Get(w.ctx, name, metav1.GetOptions{})
	w.check(err)
	return p
}

// said returns what the condition PodScheduled says.
func (w *world) said(name string) string {
	w.t.Helper()
	for _, c := range w.pod(name).Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return string(c.Status) + " " + c.Reason + ": " + c.Message
		}
	}
	return ""
}

// TestPreemption: a pod of a high priority gets the room of the cheapest victims, whose termination it awaits. They know
// why they go.
func TestPreemption(t *testing.T) {
	preempting(t, 2, func(w *world) {
		w.put(wanting("m", "mid", "3", on("node-0")), wanting("l1", "low", "2", on("node-1")), wanting("l2", "low", "2", on("node-1")))
		high := wanting("h", "high", "2")
		_, err := w.pods.Create(w.ctx, high, metav1.CreateOptions{})
		w.check(err)
		time.Sleep(2 * time.Second)

		victim := w.pod("l2") // the younger of the two
		if victim.DeletionTimestamp == nil || w.pod("l1").DeletionTimestamp != nil || w.pod("m").DeletionTimestamp != nil {
			t.Error("it is not the cheapest pod that goes")
		}
		disrupted := ""
		for _, c := range victim.Status.Conditions {
			if c.Type == corev1.DisruptionTarget {
				disrupted = string(c.Status) + " " + c.Reason + ": " + c.Message
			}
		}
		if want := "True PreemptionByScheduler: default-scheduler: preempting to accommodate a higher priority pod"; disrupted != want {
			t.Errorf("the victim's condition is %q", disrupted)
		}
		h := w.pod("h")
		if h.Status.NominatedNodeName != "node-1" || h.Spec.NodeName != "" {
			t.Errorf("nominated for %q, on %q", h.Status.NominatedNodeName, h.Spec.NodeName)
		}
		const message = "0/2 nodes are available: 2 Insufficient cpu. preemption: found a potential placement for pod on node node-1, preempting 1 victims"
		if got := w.said("h"); got != "False Unschedulable: "+message {
			t.Errorf("the pod says %q", got)
		}
		events, err := w.cs.EventsV1().Events("default").List(w.ctx, metav1.ListOptions{})
		w.check(err)
		var preempted, failed bool
		for _, e := range events.Items {
			failed = failed || e.Reason == "FailedScheduling" && e.Regarding.Name == "h" && e.Note == message
			preempted = preempted || e.Reason == "Preempted" && e.Regarding.Name == "l2" && e.Related != nil && e.Related.UID == h.UID &&
				e.Action == "Preempting" && e.Note == "Preempted by pod "+string(h.UID)+" on node node-1"
		}
		if !preempted || !failed {
			t.Errorf("events of the preemption: %v, of the failure: %v", preempted, failed)
		}

		time.Sleep(10 * time.Second)
		if h := w.pod("h"); h.Spec.NodeName != "node-1" || h.Status.Phase != corev1.PodRunning {
			t.Errorf("on %q, %s", h.Spec.NodeName, h.Status.Phase)
		}
	})
}

// TestPreemptionAndBudgets: a disruption budget protects its pods as long as there are others, and no longer.
func TestPreemptionAndBudgets(t *testing.T) {
	preempting(t, 2, func(w *world) {
		one := intstr.FromInt32(1)
		_, err := w.cs.PolicyV1().PodDisruptionBudgets("default").Create(w.ctx, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: "budget"},
			Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "protected"}}},
		}, metav1.CreateOptions{})
		w.check(err)
		w.put(wanting("protected", "low", "4", on("node-0")), wanting("dear", "mid", "4", on("node-1")))
		time.Sleep(20 * time.Second)
		w.put(wanting("h1", "high", "3"))
		time.Sleep(20 * time.Second)
		if got := w.pod("h1").Spec.NodeName; got != "node-1" {
			t.Errorf("the first is on %q", got)
		}
		w.put(wanting("h2", "high", "3"))
		time.Sleep(20 * time.Second)
		if got := w.pod("h2").Spec.NodeName; got != "node-0" {
			t.Errorf("the second is on %q", got)
		}
	})
}

// TestPreemptionPolicyNever: such a pod waits, before those of lower priority, until there is room.
func TestPreemptionPolicyNever(t *testing.T) {
	preempting(t, 1, func(w *world) {
		w.put(wanting("l", "low", "3"), wanting("p", "polite", "3"))
		time.Sleep(time.Minute)
		if got := w.said("p"); got != "False Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never." {
			t.Errorf("the pod says %q", got)
		}
		w.put(wanting("l2", "low", "3"))
		if got := w.said("l2"); !strings.HasSuffix(got, "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.") {
			t.Errorf("the other says %q", got)
		}
		w.check(w.pods.Delete(w.ctx, "l", metav1.DeleteOptions{}))
		time.Sleep(20 * time.Second)
		if p, l2 := w.pod("p").Spec.NodeName, w.pod("l2").Spec.NodeName; p != "node-0" || l2 != "" {
			t.Errorf("the pods are on %q and %q", p, l2)
		}
	})
}
