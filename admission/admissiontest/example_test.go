package admissiontest_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
)

// The test of a plugin, whose t it uses, checks what the plugin admits and changes, and what it refuses with
// which message.
func Example() {
	unowned := admission.ValidatorFunc("Owned", func(_ context.Context, r *admission.Request) error {
		if r.Object.(*corev1.Pod).Labels["owner"] == "" {
			return admission.Forbidden(r, "nobody owns it")
		}
		return nil
	}, admission.Create)
	test := func(t *testing.T) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: map[string]string{"owner": "ann"}}}
		admissiontest.Admits(t, unowned, admissiontest.Create(t, pod), pod)

		stray := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
		admissiontest.Refuses(t, unowned, admissiontest.Create(t, stray, admissiontest.By("bob")), `pods "p" is forbidden: nobody owns it`)
	}
	_ = test
}
