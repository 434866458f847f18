package static

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/apireference"
)

// CheckReferences is for the comparison with upstream's rule.
func CheckReferences(pod *corev1.Pod) error {
	resource, err := apireference.Of(pod)
	if err == nil && resource != "" {
		err = fmt.Errorf("static pods may not reference %s", resource)
	}
	return err
}
