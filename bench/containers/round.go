// Package containers measures deployments of real containers on a cluster, for the programs below bench: the time from
// creation until all pods are ready, and from deletion until all are gone, as seen by a client-go client.
package containers

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

const (
	namespace = "default"
	name      = "nginx"
	patience  = 3 * time.Minute
)

// Round creates a deployment of nginx in the namespace default, waits until its pods are ready, deletes it and waits
// until they are gone. It gives up after three minutes. The image must already be on the node.
func Round(ctx context.Context, api kubernetes.Interface, replicas int32) (ready, gone time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pods, err := api.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		return 0, 0, err
	}
	defer pods.Stop()
	began := time.Now()
	if _, err := api.AppsV1().Deployments(namespace).Create(ctx, deployment(replicas), metav1.CreateOptions{}); err != nil {
		return 0, 0, err
	}
	isReady := map[types.UID]bool{}
	err = follow(ctx, pods, func(e watch.EventType, pod *corev1.Pod) bool {
		isReady[pod.UID] = slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		count := 0
		for _, is := range isReady {
			if is {
				count++
			}
		}
		return count == int(replicas)
	})
	if err != nil {
		return 0, 0, fmt.Errorf("waiting for %d ready pods: %w", replicas, err)
	}
	ready = time.Since(began)
	began = time.Now()
	background := metav1.DeletePropagationBackground
	if err := api.AppsV1().Deployments(namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		return 0, 0, err
	}
	err = follow(ctx, pods, func(e watch.EventType, pod *corev1.Pod) bool {
		if e == watch.Deleted {
			delete(isReady, pod.UID)
		}
		return len(isReady) == 0
	})
	if err != nil {
		return 0, 0, fmt.Errorf("waiting for the pods to go: %w", err)
	}
	return ready, time.Since(began), nil
}

// follow reads events until done returns true.
func follow(ctx context.Context, w watch.Interface, done func(watch.EventType, *corev1.Pod) bool) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, open := <-w.ResultChan():
			if !open {
				return fmt.Errorf("the watch ended")
			}
			pod, ok := e.Object.(*corev1.Pod)
			if !ok {
				return fmt.Errorf("the watch says %v", e.Object)
			}
			if done(e.Type, pod) {
				return nil
			}
		}
	}
}

func deployment(replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: name, Image: "nginx", ImagePullPolicy: corev1.PullIfNotPresent,
				}}},
			},
		},
	}
}
