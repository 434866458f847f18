package handler_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/webhook/handler"
)

// names is an admission plugin.
type names struct{}

func (names) Name() string                        { return "Names" }
func (names) Handles(op admission.Operation) bool { return op == admission.Create }

func (names) Validate(_ context.Context, r *admission.Request) error {
	if strings.HasPrefix(r.Name, "test-") {
		return admission.Forbidden(r, "no tests here")
	}
	return nil
}

// A plugin answers reviews as any admission webhook.
func Example() {
	h := handler.Validating(names{}, handler.Options{})
	review := `{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {
		"uid": "1", "operation": "CREATE", "name": "test-1", "resource": {"version": "v1", "resource": "configmaps"}}}`
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(review)))
	fmt.Println(w.Body)
	// Output: {"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"1","allowed":false,"status":{"metadata":{},"status":"Failure","message":"configmaps \"test-1\" is forbidden: no tests here","reason":"Forbidden","details":{"name":"test-1","kind":"configmaps"},"code":403}}}
}
