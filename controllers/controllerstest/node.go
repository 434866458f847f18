package controllerstest

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/informer"
)

// Node simulates scheduler and kubelet for an API: every pod is bound to it, becomes Running and ready, and terminates
// when it is deleted. It is a lifecycle.Runnable.
type Node struct {
	API *API
	// Name is the name of the node; "" means "node".
	Name string
	// Start is how long a pod takes to become ready, Stop how long it takes to terminate.
	Start, Stop time.Duration
	// Broken, when set, reports which pods never become ready.
	Broken func(*corev1.Pod) bool
	// Bind, when set, names the node of each pod instead of Name: it simulates many nodes, and the choice between them.
	Bind func(*corev1.Pod) string
}

// Run works until the context ends and waits for the goroutines it started.
func (n *Node) Run(ctx context.Context) error {
	feed := Source[*corev1.Pod](n.API, Pods())
	there, version, err := feed.List(ctx)
	if err != nil {
		return err
	}
	watch, err := feed.Watch(ctx, version)
	if err != nil {
		return err
	}
	defer watch.Close()
	var pods sync.WaitGroup
	defer pods.Wait()
	starting, stopping := map[string]bool{}, map[string]bool{}
	look := func(pod *corev1.Pod) {
		uid := string(pod.UID)
		switch {
		case pod.DeletionTimestamp != nil && !stopping[uid]:
			stopping[uid] = true
			pods.Go(func() { n.stop(ctx, pod) })
		case pod.DeletionTimestamp == nil && !starting[uid]:
			starting[uid] = true
			pods.Go(func() { n.start(ctx, pod) })
		}
	}
	for _, pod := range there {
		look(pod)
	}
	for {
		events, err := watch.Next(ctx)
		if err != nil {
			return nil // the context has ended: these watches have no other errors
		}
		for _, e := range events {
			if e.Type != informer.Deleted {
				look(e.Object)
			}
		}
	}
}

func (n *Node) start(ctx context.Context, pod *corev1.Pod) {
	name := n.Name
	if name == "" {
		name = "node"
	}
	if n.Bind != nil {
		name = n.Bind(pod)
	}
	if pod.Spec.NodeName == "" {
		t := client.Target{Resource: Pods(), Namespace: pod.Namespace, Name: pod.Name, Subresource: "binding"}
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: name}}
		if _, err := n.API.Others.Create(ctx, t, binding, metav1.CreateOptions{}); err != nil {
			return // it is gone
		}
	}
	if n.Broken != nil && n.Broken(pod) || !wait(ctx, n.Start) {
		return
	}
	t := client.Target{Resource: Pods(), Namespace: pod.Namespace, Name: pod.Name}
	got, err := n.API.Others.Get(ctx, t)
	if err != nil || got.(*corev1.Pod).UID != pod.UID || got.(*corev1.Pod).DeletionTimestamp != nil {
		return
	}
	running := got.(*corev1.Pod)
	running.Status.Phase = corev1.PodRunning
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now())}
	running.Status.Conditions = append(slices.DeleteFunc(running.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady
	}), ready)
	t.Subresource = "status"
	running.ResourceVersion = ""
	_, _ = n.API.Others.Update(ctx, t, running, metav1.UpdateOptions{}) // fails only when it is gone
}

func (n *Node) stop(ctx context.Context, pod *corev1.Pod) {
	if !wait(ctx, n.Stop) {
		return
	}
	now := int64(0)
	_ = n.API.Others.Delete(ctx, client.Target{Resource: Pods(), Namespace: pod.Namespace, Name: pod.Name}, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID},
	}) // fails only when it is gone
}

func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
