// Admission is a custom admission plugin: it refuses images without a fixed tag. The program starts a control plane
// with it and creates two pods; plugin_test.go tests it without one.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/cluster"
)

// FixedTags refuses pods whose images may change without notice.
func FixedTags() admission.Validator {
	return admission.ValidatorFunc("FixedTags", func(_ context.Context, r *admission.Request) error {
		pod, ok := r.Object.(*corev1.Pod)
		if !ok || r.Subresource != "" {
			return nil
		}
		for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
			name := c.Image[strings.LastIndex(c.Image, "/")+1:]
			if !strings.Contains(name, ":") || strings.HasSuffix(name, ":latest") {
				return admission.Forbidden(r, "image %q has no fixed tag", c.Image)
			}
		}
		return nil
	}, admission.Create, admission.Update)
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	c, err := cluster.Start(ctx, cluster.Options{
		Admission: append(cluster.DefaultAdmission(), cluster.Plugins(FixedTags())...),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	pods, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	for i, image := range []string{"nginx:1.27", "nginx"} {
		_, err := pods.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%d", i)},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: image}}},
		}, metav1.CreateOptions{})
		fmt.Printf("%-12s %v\n", image, verdict(err))
	}
	return nil
}

func verdict(err error) string {
	if err == nil {
		return "admitted"
	}
	return err.Error()
}
