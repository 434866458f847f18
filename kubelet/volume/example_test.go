package volume_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/volume"
)

// page is the one ConfigMap that there is; in a program, an *objects.Cache.
type page struct{}

func (page) ConfigMap(_ context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"index.html": "<h1>Hello</h1>"},
	}, nil
}

func (page) Secret(_ context.Context, _, name string) (*corev1.Secret, error) {
	return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
}

func Example() {
	dir, err := os.MkdirTemp("", "kubelet")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	volumes, err := volume.New(dir, volume.Sources{Objects: page{}}, volume.Options{Rootless: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"},
		Spec: corev1.PodSpec{
			Volumes: []corev1.Volume{{Name: "page", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "page"}},
			}}},
			Containers: []corev1.Container{{Name: "nginx", VolumeMounts: []corev1.VolumeMount{{Name: "page", MountPath: "/usr/share/nginx/html"}}}},
		},
	}
	ctx := context.Background()
	if err := volumes.Prepare(ctx, pod); err != nil {
		fmt.Println(err)
		return
	}
	mounts, err := volumes.Mounts(ctx, kubelet.MountRequest{Pod: pod, Container: &pod.Spec.Containers[0], IPs: []string{"10.0.0.7"}, Hostname: "web"})
	if err != nil {
		fmt.Println(err)
		return
	}
	index, _ := os.ReadFile(filepath.Join(mounts[0].HostPath, "index.html"))
	fmt.Println(string(index))
	for _, m := range mounts {
		fmt.Println(m.ContainerPath, m.ReadOnly)
	}
	fmt.Println(volumes.Release(ctx, pod.UID))
	// Output:
	// <h1>Hello</h1>
	// /usr/share/nginx/html true
	// /etc/hosts false
	// /dev/termination-log false
	// <nil>
}
