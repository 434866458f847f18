package initializers_test

import (
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission/initializers"
	clusterinitializers "github.com/keelson-dev/keelson/cluster/initializers"
)

// TestStates checks which annotations hide an object, and what the creator of a rejected one is told.
func TestStates(t *testing.T) {
	hidden := clusterinitializers.Extension().Initialization
	for state, test := range map[string]struct {
		pending bool
		code    int32 // of the rejection
	}{
		`[]`:             {},
		`{"pending":[]}`: {},
		`{"pending":[{"name":"first.example.com"}]}`:                                {pending: true},
		`{"pending":[],"result":{"kind":"Status","status":"Failure"}}`:              {pending: true, code: http.StatusInternalServerError},
		`{"pending":[],"result":{"apiVersion":"v1","status":"Failure","code":403}}`: {pending: true, code: http.StatusForbidden},
	} {
		s := secretOf("x")
		s.Annotations = map[string]string{initializers.Annotation: state}
		if got := hidden.Pending(s); got != test.pending {
			t.Errorf("%s: pending is %v", state, got)
		}
		err := hidden.Failed(s)
		var status *apierrors.StatusError
		switch {
		case (err != nil) != (test.code != 0):
			t.Errorf("%s: %v", state, err)
		case err != nil && (!errors.As(err, &status) || status.ErrStatus.Code != test.code || status.ErrStatus.TypeMeta != metav1.TypeMeta{}):
			t.Errorf("%s: %+v", state, err)
		}
	}
	if s := secretOf("x"); hidden.Pending(s) || hidden.Failed(s) != nil {
		t.Error("an object without a state is not initialized")
	}
}

func TestShow(t *testing.T) {
	for reason, want := range map[string]string{"": clusterinitializers.PodInitializing, "Evicted": "Evicted"} {
		pod := &corev1.Pod{Status: corev1.PodStatus{Reason: reason}}
		if clusterinitializers.Extension().Initialization.Show(pod); pod.Status.Reason != want {
			t.Errorf("%q shows %q, want %q", reason, pod.Status.Reason, want)
		}
	}
}
