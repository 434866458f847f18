package status_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/status"
)

// TestOthers: only refusals are worded.
func TestOthers(t *testing.T) {
	if s := status.Of(errors.New("broken")); s != nil {
		t.Errorf("got %+v", s)
	}
}

// TestOf: each kind of refusal has its own code and reason, and all say what the plugin says.
func TestOf(t *testing.T) {
	r := &admission.Request{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Name: "web"}
	causes := []metav1.StatusCause{{Type: "x", Message: "y"}}
	forbidden := admission.Forbidden(r, "no")
	forbidden.Causes = causes
	with := func(e *admission.Error, code int) *admission.Error {
		e.Code = code
		return e
	}
	for _, tt := range []struct {
		err  *admission.Error
		want metav1.Status
	}{
		{forbidden, metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden, Message: `pods "web" is forbidden: no`, Details: &metav1.StatusDetails{Name: "web", Kind: "pods", Causes: causes}}},
		{admission.NotFound(schema.GroupResource{Resource: "namespaces"}, "ns"), metav1.Status{Code: 404, Reason: metav1.StatusReasonNotFound, Message: `namespaces "ns" not found`, Details: &metav1.StatusDetails{Name: "ns", Kind: "namespaces"}}},
		{admission.Invalid(r, field.ErrorList{field.Required(field.NewPath("spec"), "")}), metav1.Status{
			Code: 422, Reason: metav1.StatusReasonInvalid, Message: `Pod "web" is invalid: spec: Required value`,
			Details: &metav1.StatusDetails{Name: "web", Kind: "Pod", Causes: []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueRequired, Message: "Required value", Field: "spec"}}},
		}},
		{admission.BadRequest("odd"), metav1.Status{Code: 400, Reason: metav1.StatusReasonBadRequest, Message: "odd"}},
		{admission.Internal(errors.New("broken")), metav1.Status{
			Code: 500, Reason: metav1.StatusReasonInternalError, Message: "Internal error occurred: broken", Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: "broken"}}},
		}},
		{&admission.Error{Err: errors.New("other"), Message: "odd"}, metav1.Status{
			Code: 500, Reason: metav1.StatusReasonInternalError, Message: "odd", Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: "odd"}}},
		}},
		{with(admission.BadRequest("odd"), 429), metav1.Status{Code: 429, Reason: metav1.StatusReasonBadRequest, Message: "odd"}},
	} {
		tt.want.Status = metav1.StatusFailure
		if got := status.Of(tt.err); got == nil || !reflect.DeepEqual(*got, tt.want) {
			t.Errorf("got %+v %+v, want %+v %+v", got, got.Details, tt.want, tt.want.Details)
		}
	}
}

func Example() {
	r := &admission.Request{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Name: "web"}
	s := status.Of(fmt.Errorf("on the way: %w", admission.Forbidden(r, "not today")))
	fmt.Println(s.Code, s.Reason, s.Message)
	// Output: 403 Forbidden pods "web" is forbidden: not today
}
