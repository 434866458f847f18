package security_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/security"
)

// An image that runs as root is not started for a pod that forbids it.
func Example() {
	policy, err := security.New(security.Options{SeccompDefault: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	nonRoot := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &nonRoot},
			Containers:      []corev1.Container{{Name: "nginx"}},
		},
	}
	_, err = policy.Container(pod, &pod.Spec.Containers[0], cri.Image{})
	fmt.Println(err)
	// Output: container has runAsNonRoot and image will run as root (pod: "web_default(1)", container: nginx)
}
