package alwaysadmit_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/alwaysadmit"
)

func TestPlugin(t *testing.T) {
	p := alwaysadmit.New()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	for _, r := range []*admission.Request{admissiontest.Create(t, pod), admissiontest.Update(t, pod, pod), admissiontest.Delete(t, pod)} {
		admissiontest.TestPlugin(t, p, r)
		admissiontest.Admits(t, p, r, r.Object)
	}
}

func Example() {
	fmt.Println(alwaysadmit.New().Admit(context.Background(), &admission.Request{Operation: admission.Delete}))
	// Output: <nil>
}
