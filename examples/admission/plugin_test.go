package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission/admissiontest"
)

func pod(image string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: image}}},
	}
}

func TestFixedTags(t *testing.T) {
	for _, image := range []string{"nginx:1.27", "registry.example.com:5000/nginx:1.27"} {
		admissiontest.Admits(t, FixedTags(), admissiontest.Create(t, pod(image)), pod(image))
	}
	for _, image := range []string{"nginx", "nginx:latest", "registry.example.com:5000/nginx"} {
		admissiontest.Refuses(t, FixedTags(), admissiontest.Create(t, pod(image)),
			`pods "web" is forbidden: image "`+image+`" has no fixed tag`)
	}
}

// Example runs the program.
func Example() {
	main()
	// Output:
	// nginx:1.27   admitted
	// nginx        pods "web-1" is forbidden: image "nginx" has no fixed tag
}
