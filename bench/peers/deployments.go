package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/keelson-dev/keelson/internal/evidence"
)

// deployments measures controllers: the time from the creation of a deployment until the last of its pods exists.
func (m *measurement) deployments(ctx context.Context) error {
	for i := range m.sides {
		if err := m.sides[i].namespace(ctx, "rollout"); err != nil {
			return fmt.Errorf("%s: %w", m.sides[i].name, err)
		}
	}
	var took [2][]float64
	err := m.inTurn(m.rounds, func(_, i int, s *side) error {
		d, err := m.rollout(ctx, s)
		took[i] = append(took[i], milliseconds(d))
		return err
	})
	if err != nil {
		return err
	}
	m.row(evidence.Peer{Name: "deployment", What: fmt.Sprintf("deployment created to %d pods created", m.replicas), Unit: "ms", Of: "median", Runs: m.rounds},
		[2]float64{median(took[0]), median(took[1])})
	return nil
}

// rollout creates a deployment, waits for its pods, and deletes them.
func (m *measurement) rollout(ctx context.Context, s *side) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	w, err := s.api.CoreV1().Pods("rollout").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	defer w.Stop()
	labels, replicas := map[string]string{"app": "rollout"}, int32(m.replicas)
	template := pod("", "").Spec
	began := time.Now()
	_, err = s.api.AppsV1().Deployments("rollout").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "rollout"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: template},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return 0, err
	}
	if err := count(ctx, w, watch.Added, m.replicas); err != nil {
		return 0, err
	}
	took := time.Since(began)
	background := metav1.DeletePropagationBackground
	if err := s.api.AppsV1().Deployments("rollout").Delete(ctx, "rollout", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		return 0, err
	}
	return took, count(ctx, w, watch.Deleted, m.replicas)
}

// count waits for a number of events of a type.
func count(ctx context.Context, w watch.Interface, of watch.EventType, want int) error {
	for got := 0; got < want; {
		select {
		case e, open := <-w.ResultChan():
			if !open || e.Type == watch.Error {
				return fmt.Errorf("the watch ended after %d of %d pods: %v", got, want, e.Object)
			}
			if e.Type == of {
				got++
			}
		case <-ctx.Done():
			return fmt.Errorf("%d of %d pods %s: %w", got, want, of, ctx.Err())
		}
	}
	return nil
}
