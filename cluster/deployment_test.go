package cluster_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/cluster"
)

// eventually waits until check returns nil. It polls rarely, since most checks succeed within milliseconds.
func eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func podsOf(ctx context.Context, cs kubernetes.Interface, app string) ([]corev1.Pod, error) {
	l, err := cs.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: labels.Set{"app": app}.String()})
	if err != nil {
		return nil, err
	}
	return l.Items, nil
}

func running(ctx context.Context, cs kubernetes.Interface, app string, want int) func() error {
	return func() error {
		pods, err := podsOf(ctx, cs, app)
		if err != nil {
			return err
		}
		n := 0
		var states []string
		for _, p := range pods {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil && p.Status.PodIP != "" {
				n++
			}
			states = append(states, fmt.Sprintf("%s on %q %s %v", p.Name, p.Spec.NodeName, p.Status.Phase, p.Status.Conditions))
		}
		if n != want || len(pods) != want {
			return fmt.Errorf("%d of %d pods run, want %d:\n%s", n, len(pods), want, strings.Join(states, "\n"))
		}
		return nil
	}
}

// TestDeployment: three replicas become three Running pods, each on its own node.
func TestDeployment(t *testing.T) {
	c := start(t, cluster.Options{Nodes: cluster.Nodes{Count: 3}})
	ctx, cs := t.Context(), clientset(t, c.Config())
	if err := c.WaitNodes(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := cs.AppsV1().Deployments("default").Create(ctx, deploymentOf("web", 3), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "rollout", running(ctx, cs, "web", 3))
	pods, err := podsOf(ctx, cs, "web")
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	for _, p := range pods {
		at[p.Spec.NodeName]++
	}
	if len(at) != 3 {
		t.Errorf("pods per node: %v", at)
	}
}

// TestDeploymentStatus checks what kubectl rollout status reads.
func TestDeploymentStatus(t *testing.T) {
	inBubble(t, nodes(3), func(t *testing.T, w *world) {
		w.create(deploymentOf("web", 3))
		time.Sleep(time.Second)
		d := w.deployment("web")
		if s := d.Status; s.Replicas != 3 || s.UpdatedReplicas != 3 || s.UnavailableReplicas != 3 || s.AvailableReplicas != 0 {
			t.Errorf("while images are pulled: %+v", s)
		}
		if got := deploymentCondition(d, appsv1.DeploymentAvailable); got != "False MinimumReplicasUnavailable" {
			t.Errorf("Available is %s", got)
		}
		time.Sleep(2 * time.Second)
		d = w.deployment("web")
		if s := d.Status; s.ObservedGeneration != d.Generation || s.ReadyReplicas != 3 || s.AvailableReplicas != 3 || s.UnavailableReplicas != 0 {
			t.Errorf("once they run: %+v", s)
		}
		if a, p := deploymentCondition(d, appsv1.DeploymentAvailable), deploymentCondition(d, appsv1.DeploymentProgressing); a != "True MinimumReplicasAvailable" || p != "True NewReplicaSetAvailable" {
			t.Errorf("conditions are %q and %q", a, p)
		}
	})
}

// TestScale changes the number of pods in every way a user can.
func TestScale(t *testing.T) {
	inBubble(t, nodes(2), func(t *testing.T, w *world) {
		w.create(deploymentOf("web", 2))
		scale := func(n int32) {
			s, err := w.deployments.GetScale(w.ctx, "web", metav1.GetOptions{})
			w.check(err)
			s.Spec.Replicas = n
			_, err = w.deployments.UpdateScale(w.ctx, "web", s, metav1.UpdateOptions{})
			w.check(err)
		}
		for _, step := range []struct {
			what string
			do   func()
			want int
		}{
			{"nothing", func() {}, 2},
			{"the spec, up", func() { w.change("web", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(5)) }) }, 5},
			{"the spec, down", func() { w.change("web", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(1)) }) }, 1},
			{"the scale subresource, up", func() { scale(4) }, 4},
			{"the scale subresource, down", func() { scale(3) }, 3},
			{"a patch of the scale", func() {
				_, err := w.deployments.Patch(w.ctx, "web", types.MergePatchType, []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{}, "scale")
				w.check(err)
			}, 2},
			{"to nothing", func() { scale(0) }, 0},
		} {
			step.do()
			time.Sleep(10 * time.Second)
			t.Log(step.what)
			w.running("web", step.want, "")
			s, err := w.deployments.GetScale(w.ctx, "web", metav1.GetOptions{})
			w.check(err)
			if int(s.Spec.Replicas) != step.want || int(s.Status.Replicas) != step.want || s.Status.Selector != "app=web" {
				t.Errorf("%s: the scale says %+v %+v", step.what, s.Spec, s.Status)
			}
		}
		if sets := w.replicaSets("web"); len(sets) != 1 || w.revision(&sets[0]) != 1 {
			t.Errorf("scaling made %d replica sets", len(sets))
		}
	})
}

// TestReplacement: a deleted pod is replaced by one with another name.
func TestReplacement(t *testing.T) {
	inBubble(t, nodes(2), func(t *testing.T, w *world) {
		w.create(deploymentOf("web", 3))
		time.Sleep(5 * time.Second)
		victim := w.running("web", 3, "")[1].Name
		w.check(w.pods.Delete(w.ctx, victim, metav1.DeleteOptions{}))
		time.Sleep(time.Second / 2)
		if pods := w.listed("web"); len(pods) != 4 {
			t.Errorf("%d pods while one terminates, want it and its replacement", len(pods))
		}
		time.Sleep(5 * time.Second)
		for _, p := range w.running("web", 3, "") {
			if p.Name == victim {
				t.Errorf("%s is still there", victim)
			}
		}
	})
}

// TestAdoption: pods and replica sets without an owner are adopted by controllers that select them, and a pod that
// loses its label is released and replaced.
func TestAdoption(t *testing.T) {
	inBubble(t, nodes(2), func(t *testing.T, w *world) {
		for _, name := range []string{"stray-a", "stray-b"} {
			pod := testPod(name)
			pod.Labels = map[string]string{"app": "web"}
			_, err := w.pods.Create(w.ctx, pod, metav1.CreateOptions{})
			w.check(err)
		}
		d := deploymentOf("web", 3)
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "orphan", Labels: d.Spec.Template.Labels}, Spec: appsv1.ReplicaSetSpec{
			Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template,
		}}
		set, err := w.sets.Create(w.ctx, set, metav1.CreateOptions{})
		w.check(err)
		time.Sleep(5 * time.Second)
		for _, p := range w.running("web", 3, "") {
			if owner := metav1.GetControllerOf(&p); owner == nil || owner.UID != set.UID {
				t.Errorf("%s belongs to %v", p.Name, owner)
			}
		}

		d = w.create(d)
		time.Sleep(5 * time.Second)
		sets := w.replicaSets("web")
		if len(sets) != 1 || sets[0].Name != "orphan" || !metav1.IsControlledBy(&sets[0], d) || w.revision(&sets[0]) != 1 {
			t.Fatalf("the deployment did not adopt the replica set of its template: %+v", sets)
		}

		pods := w.running("web", 3, "")
		released := pods[0]
		released.Labels["app"] = "debug"
		_, err = w.pods.Update(w.ctx, &released, metav1.UpdateOptions{})
		w.check(err)
		time.Sleep(5 * time.Second)
		w.running("web", 3, "")
		if got := w.running("debug", 1, "")[0]; got.Name != released.Name || metav1.GetControllerOf(&got) != nil {
			t.Errorf("%s was not let go: %v", got.Name, got.OwnerReferences)
		}
	})
}
