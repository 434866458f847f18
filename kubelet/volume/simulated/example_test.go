package simulated_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/kubelet/volume/claims"
	"github.com/keelson-dev/keelson/kubelet/volume/simulated"
)

// A server that does not answer keeps a pod waiting.
func Example() {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "1"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "web", VolumeMounts: []corev1.VolumeMount{{Name: "shared", MountPath: "/shared"}}}},
		Volumes: []corev1.Volume{{Name: "shared", VolumeSource: corev1.VolumeSource{
			NFS: &corev1.NFSVolumeSource{Server: "nas", Path: "/"},
		}}},
	}}
	volumes := simulated.New(nil, simulated.Options{Mount: func(_ context.Context, m claims.Mount) error {
		if m.Volume.NFS != nil {
			return errors.New("connection timed out")
		}
		return nil
	}})
	fmt.Println(volumes.Prepare(context.Background(), pod))
	// Output: MountVolume.SetUp failed for volume "shared" : connection timed out
}
