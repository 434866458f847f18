package cluster_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/cluster"
)

// eventually waits until check says nothing, by watching the clock coarsely: what it waits for
// takes milliseconds.
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

func TestDeployment(t *testing.T) {
	c := start(t, cluster.Options{Nodes: cluster.Nodes{Count: 3}})
	ctx, cs := t.Context(), clientset(t, c.Config())
	if _, err := cs.AppsV1().Deployments("default").Create(ctx, deploymentOf("web", 3), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "rollout", running(ctx, cs, "web", 3))
}
