package cluster_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedappsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cri/simulated"
)

// world is a cluster in a bubble, with helpers for its namespace default.
type world struct {
	t           *testing.T
	ctx         context.Context
	c           *cluster.Cluster
	cs          kubernetes.Interface
	pods        typedcorev1.PodInterface
	deployments typedappsv1.DeploymentInterface
	sets        typedappsv1.ReplicaSetInterface
}

// inBubble runs a test in virtual time against a cluster whose nodes are ready.
func inBubble(t *testing.T, o cluster.Options, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := start(t, o)
		if err := c.WaitNodes(t.Context()); err != nil {
			t.Fatal(err)
		}
		cs := clientset(t, c.Config())
		test(t, &world{
			t: t, ctx: t.Context(), c: c, cs: cs, pods: cs.CoreV1().Pods("default"),
			deployments: cs.AppsV1().Deployments("default"), sets: cs.AppsV1().ReplicaSets("default"),
		})
	})
}

// nodes returns options for simulated nodes that take two seconds to pull an image and one to stop a container.
func nodes(count int) cluster.Options {
	return cluster.Options{Nodes: cluster.Nodes{Count: count, Runtime: func(string) simulated.Options {
		return simulated.Options{
			Behave: func(op simulated.Operation) simulated.Outcome {
				if op.Verb == simulated.PullImage {
					return simulated.Outcome{Delay: 2 * time.Second}
				}
				return simulated.Outcome{}
			},
			Program: func(simulated.Process) simulated.Program { return simulated.Program{StopAfter: time.Second} },
		}
	}}}
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) create(d *appsv1.Deployment) *appsv1.Deployment {
	w.t.Helper()
	made, err := w.deployments.Create(w.ctx, d, metav1.CreateOptions{})
	w.check(err)
	return made
}

func (w *world) deployment(name string) *appsv1.Deployment {
	w.t.Helper()
	d, err := w.deployments.Get(w.ctx, name, metav1.GetOptions{})
	w.check(err)
	return d
}

// change updates the newest state of a Deployment, and retries after a conflict.
func (w *world) change(name string, change func(d *appsv1.Deployment)) {
	w.t.Helper()
	d := w.deployment(name)
	change(d)
	_, err := w.deployments.Update(w.ctx, d, metav1.UpdateOptions{})
	w.check(err)
}

func image(name string) func(d *appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = name }
}

// listed returns the pods of an app, ordered by name.
func (w *world) listed(app string) []corev1.Pod {
	w.t.Helper()
	pods, err := podsOf(w.ctx, w.cs, app)
	w.check(err)
	return pods
}

// running fails unless the app has exactly want pods, all Running, Ready and of the image (unless empty).
func (w *world) running(app string, want int, image string) []corev1.Pod {
	w.t.Helper()
	pods := w.listed(app)
	var wrong []string
	for _, p := range pods {
		if !available(&p) || (image != "" && p.Spec.Containers[0].Image != image) {
			wrong = append(wrong, fmt.Sprintf("%s %s %s deletion %v", p.Name, p.Status.Phase, p.Spec.Containers[0].Image, p.DeletionTimestamp))
		}
	}
	if len(pods) != want || len(wrong) > 0 {
		w.t.Fatalf("%d pods, want %d; of these are not Running or not of %q: %s", len(pods), want, image, strings.Join(wrong, "; "))
	}
	return pods
}

// replicaSets returns the replica sets of an app, ordered by revision.
func (w *world) replicaSets(app string) []appsv1.ReplicaSet {
	w.t.Helper()
	l, err := w.sets.List(w.ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	w.check(err)
	slices.SortFunc(l.Items, func(a, b appsv1.ReplicaSet) int { return cmp.Compare(w.revision(&a), w.revision(&b)) })
	return l.Items
}

func (w *world) revision(o metav1.Object) int {
	w.t.Helper()
	n, err := strconv.Atoi(o.GetAnnotations()["deployment.kubernetes.io/revision"])
	w.check(err)
	return n
}

// available reports whether a pod serves and is not terminating.
func available(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning && condition(p, corev1.PodReady) == corev1.ConditionTrue
}

func condition(p *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

func deploymentCondition(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) string {
	for _, c := range d.Status.Conditions {
		if c.Type == kind {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}
