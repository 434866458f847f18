package podspec_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec"
)

// TestResourceNames: one of no domain must be known to the API, and one that is no name is told once.
func TestResourceNames(t *testing.T) {
	for name, want := range map[corev1.ResourceName]string{
		"cpu": "", "example.com/gpu": "", "requests.cpu": "",
		"gpu": `x: Invalid value: "gpu": must be a standard resource type or fully qualified`,
		"g!":  `x: Invalid value: "g!": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
	} {
		errs := podspec.ValidateResourceName(name, field.NewPath("x"))
		if want == "" && len(errs) > 0 || want != "" && (len(errs) != 1 || errs[0].Error() != want) {
			t.Errorf("%s: %v", name, errs)
		}
	}
}
