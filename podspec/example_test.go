package podspec_test

import (
	"fmt"

	"github.com/keelson-dev/keelson/podspec/qos"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/podspec"
)

// A pod is validated as by the API server, without one.
func ExampleValidateCreate() {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "web", Image: "nginx:1.29",
			VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
		}}},
	}
	podspec.DefaultPod(pod)
	fmt.Println(pod.Spec.RestartPolicy, qos.Class(pod))
	for _, err := range podspec.ValidateCreate(pod) {
		fmt.Println(err)
	}
	// Output:
	// Always BestEffort
	// spec.containers[0].volumeMounts[0].name: Not found: "data"
}
