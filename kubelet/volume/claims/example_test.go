package claims_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/kubelet/volume/claims"
)

// pending has one claim, which waits for a volume.
type pending struct{}

func (pending) Claim(_ context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}, nil
}

func (pending) Volume(context.Context, string) (*corev1.PersistentVolume, error) { return nil, nil }

// A pod whose claim waits for a volume has nothing to mount yet.
func ExampleResolve() {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	volume := &corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}
	_, err := claims.Resolve(context.Background(), pending{}, pod, volume)
	fmt.Println(err)
	// Output: error processing PVC default/data: PVC is not bound
}
