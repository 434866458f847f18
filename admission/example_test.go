package admission_test

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
)

func Example() {
	noLatest := admission.ValidatorFunc("NoLatest", func(_ context.Context, r *admission.Request) error {
		pod, ok := r.Object.(*corev1.Pod)
		if !ok {
			return nil
		}
		for _, c := range pod.Spec.Containers {
			if strings.HasSuffix(c.Image, ":latest") {
				return admission.Forbidden(r, "container %s: say which version you mean", c.Name)
			}
		}
		return nil
	}, admission.Create, admission.Update)

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx:latest"}}},
	}
	r := &admission.Request{Operation: admission.Create, Name: "web", Object: pod}
	r.Resource.Resource = "pods"
	fmt.Println(admission.Ordered(noLatest).Validate(context.Background(), r))
	// Output: pods "web" is forbidden: container c: say which version you mean
}
