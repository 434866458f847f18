package podspec_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec"
)

// TestTolerationsAlone: tolerations that are no pod's own, such as those of a namespace, are validated as a pod's.
func TestTolerationsAlone(t *testing.T) {
	path := field.NewPath("tolerations")
	if errs := podspec.ValidateTolerations([]corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}}, path); len(errs) > 0 {
		t.Error(errs)
	}
	errs := podspec.ValidateTolerations([]corev1.Toleration{{Key: "a", Operator: "Like"}}, path)
	if len(errs) != 1 || errs[0].Field != "tolerations[0].operator" {
		t.Error(errs)
	}
}
