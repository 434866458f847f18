package disruption

import (
	"context"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/client"
)

// expectation is how many pods a budget expects, and how many of them should be healthy.
type expectation struct {
	pods, healthy int32
	// unmanaged means that some of the pods have no controller and are therefore not counted.
	unmanaged bool
}

// expect returns what a budget over these pods expects. Only an absolute minAvailable can be computed without knowing
// the pods' controllers.
func (c *Controller) expect(ctx context.Context, spec *policyv1.PodDisruptionBudgetSpec, selected []*corev1.Pod) (expectation, error) {
	amount := spec.MaxUnavailable
	if amount == nil {
		amount = spec.MinAvailable
	}
	switch {
	case amount == nil:
		return expectation{}, nil
	case spec.MaxUnavailable == nil && amount.Type == intstr.Int:
		return expectation{pods: int32(len(selected)), healthy: amount.IntVal}, nil
	}
	want, err := c.expectedScale(ctx, selected)
	if err != nil {
		return want, err
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(amount, int(want.pods), true)
	if err != nil {
		return want, err
	}
	want.healthy = int32(n)
	if spec.MaxUnavailable != nil {
		want.healthy = max(want.pods-int32(n), 0)
	}
	return want, nil
}

// expectedScale is the sum of the scales of all controllers of the pods.
func (c *Controller) expectedScale(ctx context.Context, selected []*corev1.Pod) (expectation, error) {
	var want expectation
	known := map[types.UID]bool{}
	for _, pod := range selected {
		ref := metav1.GetControllerOfNoCopy(pod)
		if ref == nil {
			want.unmanaged = true
			continue
		}
		if known[ref.UID] {
			continue
		}
		found, err := c.scaleOf(ctx, ref, pod.Namespace)
		if err != nil {
			return want, err
		}
		if found == nil {
			return want, fmt.Errorf("found no controllers for pod %q", pod.Name)
		}
		if !known[found.uid] {
			known[found.uid] = true
			want.pods += found.replicas
		}
	}
	return want, nil
}

// scale is how many pods a controller wants.
type scale struct {
	uid      types.UID
	replicas int32
}

// scaleOf finds the scale of the controller that a reference names, or of that controller's own controller; nil if
// there is none.
func (c *Controller) scaleOf(ctx context.Context, ref *metav1.OwnerReference, namespace string) (*scale, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, err
	}
	if ref.Kind == "ReplicaSet" && workload(gv.Group) {
		found, err := c.replicaSetScale(ref, namespace)
		if found != nil || err != nil {
			return found, err
		}
	}
	return c.servedScale(ctx, gv.WithKind(ref.Kind), ref, namespace)
}

func workload(group string) bool { return group == "apps" || group == "extensions" }

// replicaSetScale returns the scale of the Deployment that controls the ReplicaSet, or of the ReplicaSet itself if no
// Deployment does. It is nil if the caches do not have it.
func (c *Controller) replicaSetScale(ref *metav1.OwnerReference, namespace string) (*scale, error) {
	set, ok := c.in.ReplicaSets.Get(namespace, ref.Name)
	if !ok || set.UID != ref.UID {
		return nil, nil
	}
	above := metav1.GetControllerOfNoCopy(set)
	if above == nil {
		return &scale{set.UID, replicas(set.Spec.Replicas)}, nil
	}
	gv, err := schema.ParseGroupVersion(above.APIVersion)
	switch {
	case err != nil:
		return nil, err
	case above.Kind != "Deployment":
		return &scale{set.UID, replicas(set.Spec.Replicas)}, nil
	case !workload(gv.Group):
		return nil, nil
	}
	deployment, ok := c.in.Deployments.Get(namespace, above.Name)
	if !ok || deployment.UID != above.UID {
		return nil, nil
	}
	return &scale{deployment.UID, replicas(deployment.Spec.Replicas)}, nil
}

// replicas reads a field whose default is 1.
func replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

// servedScale asks the server for the scale subresource of the controller.
func (c *Controller) servedScale(ctx context.Context, kind schema.GroupVersionKind, ref *metav1.OwnerReference, namespace string) (*scale, error) {
	served, ok := c.served(ctx, kind)
	if !ok {
		return nil, &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
	}
	if !served.Scalable {
		return nil, fmt.Errorf("%s does not implement the scale subresource", served.Resource.GroupResource())
	}
	got, err := client.As[*autoscalingv1.Scale](c.client.Get(ctx, client.Target{
		Resource: served.Resource, Namespace: namespace, Name: ref.Name, Subresource: "scale",
	}))
	if apierrors.IsNotFound(err) || err == nil && got.UID != ref.UID {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &scale{got.UID, got.Spec.Replicas}, nil
}
