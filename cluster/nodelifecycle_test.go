package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cluster"
)

// inOutage runs three pods on three nodes in a bubble, and silences the node of the first one after 17 s; the test
// continues from there.
func inOutage(t *testing.T, test func(t *testing.T, s *story, victim *cluster.Node, pod corev1.Pod)) {
	synctest.Test(t, func(t *testing.T) {
		seed := uint64(11)
		c, err := cluster.Start(t.Context(), cluster.Options{
			Nodes: cluster.Nodes{Count: 3}, Settle: time.Millisecond, Seed: &seed,
			OnMutation: func(err error) { t.Error(err) },
		})
		if err != nil {
			t.Fatal(err)
		}
		s := &story{t: t, c: c, cs: clientset(t, c.Config()), j: &journal{began: time.Now(), now: map[string]map[string]string{}}}
		stop := s.watch(t.Context())
		if _, err := s.cs.AppsV1().Deployments("default").Create(t.Context(), deploymentOf("web", 3), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(17 * time.Second)
		if err := running(t.Context(), s.cs, "web", 3)(); err != nil {
			t.Fatal(err)
		}
		pods, err := podsOf(t.Context(), s.cs, "web")
		if err != nil {
			t.Fatal(err)
		}
		victim, err := c.Node(pods[0].Spec.NodeName)
		if err != nil {
			t.Fatal(err)
		}
		victim.Stop()
		test(t, s, victim, pods[0])
		stop()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// second returns the virtual second at which an object's condition became as wanted.
func (s *story) second(object, what string) int {
	s.t.Helper()
	for _, tr := range s.j.ordered() {
		if tr.object == object && tr.what == what {
			return tr.second
		}
	}
	s.t.Fatalf("%s never came to be %s", object, what)
	return 0
}

// said returns nil if there is an event of that object, source and text.
func (s *story) said(object, source, reason, message string) error {
	list, err := s.cs.CoreV1().Events("default").List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, e := range list.Items {
		if strings.ToLower(e.InvolvedObject.Kind)+"/"+e.InvolvedObject.Name == object && e.Source.Component == source && e.Reason == reason && e.Message == message {
			return nil
		}
	}
	return fmt.Errorf("no event about %s by %s: %s %s", object, source, reason, message)
}

// TestNodeLost: a node falls silent; its conditions become Unknown after 50 s of grace, its pods
// are deleted after 300 s of toleration, and run elsewhere.
func TestNodeLost(t *testing.T) {
	inOutage(t, func(t *testing.T, s *story, victim *cluster.Node, pod corev1.Pod) {
		time.Sleep(8 * time.Minute)
		node, old := "node/"+victim.Name(), "pod/"+pod.Name

		// The last sign of life was the lease of second 10, seen by second 15 at the latest.
		unknown := s.second(node, "Ready=Unknown NodeStatusUnknown")
		if unknown < 60 || unknown > 70 {
			t.Errorf("unknown at second %d", unknown)
		}
		if unready := s.second(old, "Ready=False "); unready != unknown {
			t.Errorf("pod unready at second %d, node unknown at %d", unready, unknown)
		}
		const unreachable = "node.kubernetes.io/unreachable"
		if at := s.second(node, "taints="+unreachable+":NoSchedule"); at != unknown {
			t.Errorf("NoSchedule at second %d, unknown at %d", at, unknown)
		}
		tainted := s.second(node, "taints="+unreachable+":NoExecute,"+unreachable+":NoSchedule")
		if tainted > unknown+1 {
			t.Errorf("NoExecute at second %d, unknown at %d", tainted, unknown)
		}
		deleted := s.second(old, "deletion=begun")
		if deleted < tainted+300 || deleted > tainted+301 {
			t.Errorf("deleted at second %d, tainted at %d", deleted, tainted)
		}
		if at := s.second(old, "DisruptionTarget=True DeletionByTaintManager"); at != deleted {
			t.Errorf("disruption at second %d, deletion at %d", at, deleted)
		}
		pods, err := podsOf(t.Context(), s.cs, "web")
		if err != nil || len(pods) != 4 {
			t.Fatalf("%d pods, %v", len(pods), err)
		}
		replacement := slices.MaxFunc(pods, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
		if replacement.Spec.NodeName == victim.Name() {
			t.Errorf("the replacement is on %s as well", victim.Name())
		}
		if at := s.second("pod/"+replacement.Name, "phase=Running"); at > deleted+2 {
			t.Errorf("replacement runs at second %d, deletion at %d", at, deleted)
		}
		for _, err := range []error{
			s.said(node, "node-controller", "NodeNotReady", "Node "+victim.Name()+" status is now: NodeNotReady"),
			s.said(node, "node-controller", "RegisteredNode", "Node "+victim.Name()+" event: Registered Node "+victim.Name()+" in Controller"),
			s.said(old, "node-controller", "NodeNotReady", "Node is not ready"),
			s.said(old, "taint-eviction-controller", "TaintManagerEviction", "Marking for deletion Pod default/"+pod.Name),
		} {
			if err != nil {
				t.Error(err)
			}
		}

		// When it is back, the node stops the deleted pods and loses its taints.
		victim.Start()
		time.Sleep(30 * time.Second)
		if err := running(t.Context(), s.cs, "web", 3)(); err != nil {
			t.Error(err)
		}
		if last := s.j.last(node, "taints"); last != "" {
			t.Errorf("the node is left with taints %s", last)
		}
	})
}

// TestNodeComesBack: a node that is back before its pods' tolerations end keeps them.
func TestNodeComesBack(t *testing.T) {
	inOutage(t, func(t *testing.T, s *story, victim *cluster.Node, pod corev1.Pod) {
		time.Sleep(4 * time.Minute)
		victim.Start()
		back := int(time.Since(s.j.began) / time.Second)
		time.Sleep(10 * time.Minute)
		node, old := "node/"+victim.Name(), "pod/"+pod.Name
		if at := s.second(node, "taints="); at > back+6 {
			t.Errorf("back at second %d, without taints at %d", back, at)
		}
		if s.j.now[old]["Ready"] != "True " || s.j.now[old]["deletion"] != "" {
			t.Errorf("the pod is left %v", s.j.now[old])
		}
		if err := s.said(old, "taint-eviction-controller", "TaintManagerEviction", "Cancelling deletion of Pod default/"+pod.Name); err != nil {
			t.Error(err)
		}
		pods, err := podsOf(t.Context(), s.cs, "web")
		if err != nil || len(pods) != 3 || pods[0].UID != pod.UID {
			t.Errorf("%d pods, %v", len(pods), err)
		}
	})
}

// TestNodeDeleted: pods of a node that no longer exists are marked and removed after the quarantine.
func TestNodeDeleted(t *testing.T) {
	inOutage(t, func(t *testing.T, s *story, victim *cluster.Node, pod corev1.Pod) {
		if err := s.cs.CoreV1().Nodes().Delete(t.Context(), victim.Name(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Second)
		old := "pod/" + pod.Name
		gone := s.second(old, "gone")
		if gone < 57 || gone > 81 {
			t.Errorf("gone at second %d", gone)
		}
		if at := s.second(old, "phase=Failed"); at != gone {
			t.Errorf("failed at second %d, gone at %d", at, gone)
		}
		if at := s.second(old, "DisruptionTarget=True DeletionByPodGC"); at != gone {
			t.Errorf("disruption at second %d, gone at %d", at, gone)
		}
		if err := running(t.Context(), s.cs, "web", 3)(); err != nil {
			t.Error(err)
		}
		if err := s.said("node/"+victim.Name(), "node-controller", "RemovingNode", "Node "+victim.Name()+" event: Removing Node "+victim.Name()+" from Controller"); err != nil {
			t.Error(err)
		}
	})
}
