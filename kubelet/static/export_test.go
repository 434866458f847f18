package static

import (
	"fmt"
	"time"

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

// Period is how often the directory is looked at without a sign of change.
func (d *Directory) Period() time.Duration { return d.options.Period }
