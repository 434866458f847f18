package status_test

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/status"
)

// TestOthers: only refusals are worded.
func TestOthers(t *testing.T) {
	if s := status.Of(errors.New("broken")); s != nil {
		t.Errorf("got %+v", s)
	}
}

func Example() {
	r := &admission.Request{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Name: "web"}
	s := status.Of(fmt.Errorf("on the way: %w", admission.Forbidden(r, "not today")))
	fmt.Println(s.Code, s.Reason, s.Message)
	// Output: 403 Forbidden pods "web" is forbidden: not today
}
