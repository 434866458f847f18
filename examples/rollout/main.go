// Rollout shows a rollout in the terminal: it starts a control plane with three simulated nodes in this process,
// creates, updates and deletes a Deployment of three replicas, and prints every step of every component as it happens.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// story prints what happens, with the time since its start.
type story struct {
	out    io.Writer
	began  time.Time
	client kubernetes.Interface
}

func (s *story) tell(format string, args ...any) {
	fmt.Fprintf(s.out, "%7.1f ms  %s\n", float64(time.Since(s.began).Microseconds())/1000, fmt.Sprintf(format, args...))
}

func run(ctx context.Context, out io.Writer) (err error) {
	s := &story{out: out, began: time.Now()}
	c, err := cluster.Start(ctx, cluster.Options{Nodes: cluster.Nodes{Count: 3}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	s.tell("the control plane is ready")
	if err := c.WaitNodes(ctx); err != nil {
		return err
	}
	s.tell("three nodes are ready")
	if s.client, err = kubernetes.NewForConfig(c.Config()); err != nil {
		return err
	}
	events, err := s.client.CoreV1().Events("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	told := make(chan struct{})
	go func() {
		defer close(told)
		s.events(events)
	}()
	defer func() { events.Stop(); <-told }()
	return s.chapters(ctx)
}

// chapters are the user's actions.
func (s *story) chapters(ctx context.Context) error {
	deployments := s.client.AppsV1().Deployments("default")
	replicas, labels := int32(3), map[string]string{"app": "nginx"}
	s.tell("$ kubectl create deployment nginx --image=nginx:1.27 --replicas=3")
	if _, err := deployments.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "nginx", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx:1.27"}}},
			},
		},
	}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := s.rolledOut(ctx); err != nil {
		return err
	}
	s.tell("$ kubectl set image deployment/nginx nginx=nginx:1.28")
	patch := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":"nginx:1.28"}]}}}}`)
	if _, err := deployments.Patch(ctx, "nginx", types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	if err := s.rolledOut(ctx); err != nil {
		return err
	}
	s.tell("$ kubectl delete deployment nginx")
	if err := deployments.Delete(ctx, "nginx", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return s.gone(ctx)
}

// rolledOut waits like kubectl rollout status.
func (s *story) rolledOut(ctx context.Context) error {
	w, err := s.client.AppsV1().Deployments("default").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=nginx"})
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		d, ok := e.Object.(*appsv1.Deployment)
		if !ok {
			return fmt.Errorf("watching the deployment: %v", e.Object)
		}
		want := *d.Spec.Replicas
		if d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas == want && d.Status.Replicas == want && d.Status.AvailableReplicas == want {
			s.tell("rolled out: %d of %d pods available", d.Status.AvailableReplicas, want)
			return nil
		}
	}
	return errors.Join(errors.New("the watch ended before the rollout did"), ctx.Err())
}

// gone waits until no pod is left.
func (s *story) gone(ctx context.Context) error {
	w, err := s.client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer w.Stop()
	left := map[string]bool{}
	for e := range w.ResultChan() {
		pod, ok := e.Object.(*corev1.Pod)
		if !ok {
			return fmt.Errorf("watching the pods: %v", e.Object)
		}
		left[pod.Name] = true
		if e.Type == watch.Deleted {
			delete(left, pod.Name)
		}
		if len(left) == 0 {
			s.tell("no pod is left")
			return nil
		}
	}
	return errors.Join(errors.New("the watch ended before the pods did"), ctx.Err())
}

// events prints the events that components record.
func (s *story) events(w watch.Interface) {
	for e := range w.ResultChan() {
		if event, ok := e.Object.(*corev1.Event); ok && e.Type == watch.Added && event.InvolvedObject.Kind != "Node" {
			who := event.Source.Component
			if who == "" {
				who = event.ReportingController
			}
			s.tell("%-22s %-18s %s: %s", who, event.Reason, event.InvolvedObject.Name, event.Message)
		}
	}
}
