package ephemeral

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
)

// Sources are what the controller reads.
type Sources struct {
	Pods   *informer.Informer[*corev1.Pod]
	Claims *informer.Informer[*corev1.PersistentVolumeClaim]
}

// Controller is the ephemeral-volume-controller. Make one with New.
type Controller struct {
	in       Sources
	client   client.Creator
	recorder events.Recorder
}

var _ controllers.Controller = (*Controller)(nil)

// byClaim indexes pods by the claims of their ephemeral volumes, as namespace/name.
const byClaim = "ephemeral-claim"

// New makes the controller. It adds an index of pods, so that the informer must not run yet.
func New(in Sources, c client.Creator, r events.Recorder) *Controller {
	in.Pods.AddIndex(byClaim, func(pod *corev1.Pod) []string {
		var keys []string
		for i := range pod.Spec.Volumes {
			if v := &pod.Spec.Volumes[i]; v.Ephemeral != nil {
				keys = append(keys, controllers.Key{Namespace: pod.Namespace, Name: claimName(pod, v)}.String())
			}
		}
		return keys
	})
	return &Controller{in: in, client: c, recorder: r}
}

// Name is "ephemeral-volume-controller".
func (*Controller) Name() string { return "ephemeral-volume-controller" }

// Watch enqueues new pods with ephemeral volumes, and those that lose a claim. Volumes of a pod never change.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	c.in.Pods.AddHandler(informer.Handler[*corev1.Pod]{Added: func(pod *corev1.Pod) {
		if wanting(pod) {
			q.Add(controllers.KeyOf(pod))
		}
	}})
	c.in.Claims.AddHandler(informer.Handler[*corev1.PersistentVolumeClaim]{Deleted: func(claim *corev1.PersistentVolumeClaim) {
		for _, pod := range c.in.Pods.ByIndex(byClaim, controllers.KeyOf(claim).String()) {
			if wanting(pod) {
				q.Add(controllers.KeyOf(pod))
			}
		}
	}})
	return []controllers.Synced{c.in.Pods, c.in.Claims}
}

// wanting reports whether a pod that is not being deleted has an ephemeral volume.
func wanting(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Ephemeral != nil {
			return true
		}
	}
	return false
}

// Reconcile creates the claims that a pod lacks. It stops at the first volume that cannot have one.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	pod, ok := c.in.Pods.Get(key.Namespace, key.Name)
	if !ok || pod.DeletionTimestamp != nil {
		return controllers.Result{}, nil
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Ephemeral == nil {
			continue
		}
		if err := c.provide(ctx, pod, v); err != nil {
			c.recorder.Record(events.Event{
				Regarding: events.About(corev1.SchemeGroupVersion.WithKind("Pod"), pod), Type: corev1.EventTypeWarning,
				Reason: "FailedBinding", Message: fmt.Sprintf("ephemeral volume %s: %v", v.Name, err),
			})
			return controllers.Result{}, fmt.Errorf("pod %s, ephemeral volume %s: %w", key, v.Name, err)
		}
	}
	return controllers.Result{}, nil
}

// provide ensures that a volume has its claim.
func (c *Controller) provide(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) error {
	name := claimName(pod, v)
	if claim, ok := c.in.Claims.Get(pod.Namespace, name); ok {
		if !metav1.IsControlledBy(claim, pod) {
			return fmt.Errorf("PVC %s/%s was not created for pod %s/%s (pod is not owner)", claim.Namespace, claim.Name, pod.Namespace, pod.Name)
		}
		return nil
	}
	at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), Namespace: pod.Namespace}
	if _, err := c.client.Create(ctx, at, claimFor(pod, v), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create PVC %s: %w", name, err)
	}
	return nil
}

func claimName(pod *corev1.Pod, v *corev1.Volume) string { return pod.Name + "-" + v.Name }

// claimFor returns the claim of a volume, which shares memory with the pod.
func claimFor(pod *corev1.Pod, v *corev1.Volume) *corev1.PersistentVolumeClaim {
	template := v.Ephemeral.VolumeClaimTemplate
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: claimName(pod, v), Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))},
		},
		Spec: template.Spec,
	}
}
