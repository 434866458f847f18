package alwaysdeny_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/alwaysdeny"
)

func TestPlugin(t *testing.T) {
	p := alwaysdeny.New()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	for _, r := range []*admission.Request{admissiontest.Create(t, pod), admissiontest.Update(t, pod, pod), admissiontest.Delete(t, pod)} {
		admissiontest.Refuses(t, p, r, `pods "p" is forbidden: admission control is denying all modifications`)
		if p.Validate(t.Context(), r) == nil {
			t.Error("a validator admits")
		}
	}
}

func Example() {
	r := &admission.Request{Operation: admission.Create, Resource: corev1.SchemeGroupVersion.WithResource("pods"), Name: "p"}
	fmt.Println(alwaysdeny.New().Admit(context.Background(), r))
	// Output: pods "p" is forbidden: admission control is denying all modifications
}
