package volume_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/volume"
)

func Example() {
	dir, err := os.MkdirTemp("", "kubelet")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	objects := newServer(&corev1.ConfigMap{ // in a program, a *objects.Cache
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "page"}, Data: map[string]string{"index.html": "<h1>Hello</h1>"},
	})
	volumes, err := volume.New(dir, volume.Sources{Objects: objects}, volume.Options{Rootless: true})
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
	page, _ := os.ReadFile(filepath.Join(mounts[0].HostPath, "index.html"))
	fmt.Println(string(page))
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
