// Scheduler adds custom plugins to the default ones, in a control plane with three simulated nodes, and shows the
// decisions and their reasons.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/component/kubescheduler"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/signature"
)

// Rooms is a plugin in two roles: it refuses nodes with a noisy pod to pods that want quiet, and prefers cheap nodes.
type Rooms struct{}

// Name is "Rooms".
func (Rooms) Name() string { return "Rooms" }

// Check looks for noisy pods.
func (Rooms) Check(pod *corev1.Pod, node *scheduler.NodeInfo) *scheduler.Refusal {
	if pod.Labels["wants"] != "quiet" {
		return nil
	}
	for _, other := range node.Pods {
		if other.Pod.Labels["is"] == "noisy" {
			return scheduler.Refuse("node(s) had noisy pods")
		}
	}
	return nil
}

// Score reads the node's label.
func (Rooms) Score(_ *corev1.Pod, node *scheduler.NodeInfo) int64 {
	if node.Node.Labels["price"] == "low" {
		return scheduler.MaxScore
	}
	return 0
}

// Signature is all that Rooms reads of a pod: scheduling is faster for pods that share it.
func (Rooms) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) {
	return signature.String(b, pod.Labels["wants"]), true
}

// told returns a plugin in another role: it is called with pods that have been bound.
func told(bound chan<- string) scheduler.Plugin {
	return scheduler.PostBinderFunc("Told", func(_ context.Context, pod *corev1.Pod, node string) {
		bound <- pod.Name + " is bound to " + node
	})
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	err := run(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	decisions, bound := make(chan scheduler.Decision, 16), make(chan string, 16)
	profile := kubescheduler.Profile()
	profile.Plugins = append(profile.Plugins, scheduler.Enabled{Plugin: Rooms{}, Weight: 5}, scheduler.Enabled{Plugin: told(bound)})
	seed := uint64(1)
	c, err := cluster.Start(ctx, cluster.Options{
		Seed: &seed,
		Nodes: cluster.Nodes{Count: 3, Prepare: func(node *corev1.Node) {
			node.Labels = map[string]string{"price": map[string]string{"node-0": "low"}[node.Name]}
		}},
		Components: component.With(cluster.DefaultComponents(), kubescheduler.Component(kubescheduler.Options{
			Profile:    profile,
			OnDecision: func(d scheduler.Decision) { decisions <- d },
		})),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.WaitNodes(ctx); err != nil {
		return err
	}
	pods, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	for _, p := range []struct {
		name   string
		labels map[string]string
	}{{"drums", map[string]string{"is": "noisy"}}, {"reader", map[string]string{"wants": "quiet"}}} {
		_, err := pods.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: p.name, Labels: p.labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx:1.27"}}},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		select {
		case d := <-decisions:
			fmt.Print(d, <-bound, "\n\n")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
