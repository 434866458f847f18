package localvolumes_test

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/kubelet/volume/claims"
)

// schedule places pods as a scheduler does that knows about volumes: claims that are not bound learn the node, and pods
// are placed when all their claims are bound.
func schedule(ctx context.Context, cs kubernetes.Interface) {
	for ctx.Err() == nil {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return
		}
		pods, err := cs.CoreV1().Pods("default").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
		if err != nil {
			continue
		}
		for i := range pods.Items {
			place(ctx, cs, &pods.Items[i])
		}
	}
}

func place(ctx context.Context, cs kubernetes.Interface, pod *corev1.Pod) {
	node, bound := "node-"+pod.Name[len(pod.Name)-1:], true
	for i := range pod.Spec.Volumes {
		name := claims.ClaimName(pod, &pod.Spec.Volumes[i])
		if name == "" {
			continue
		}
		claim, err := cs.CoreV1().PersistentVolumeClaims("default").Get(ctx, name, metav1.GetOptions{})
		switch {
		case err != nil:
			bound = false
		case claim.Status.Phase == corev1.ClaimBound:
			pv, err := cs.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
			if err != nil || !slices.Contains(pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values, node) {
				return
			}
		default:
			bound = false
			patch := []byte(`{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":"` + node + `"}}}`)
			_, _ = cs.CoreV1().PersistentVolumeClaims("default").Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
	}
	if bound && pod.DeletionTimestamp == nil {
		_ = cs.CoreV1().Pods("default").Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
		}, metav1.CreateOptions{})
	}
}
