package message_test

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/client/message"
)

// The words are those of kubectl; conformance/client holds them to it.
func TestOf(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	kind := schema.GroupKind{Kind: "Pod"}
	name := field.Invalid(field.NewPath("metadata", "name"), "A", "too big")
	for want, err := range map[string]error{
		"":               nil,
		"error: EOF":     io.EOF,
		"error: already": errors.New("error: already"),
		`Error from server (NotFound): pods "p" not found`:                                                   apierrors.NewNotFound(pods, "p"),
		`Error from server (AlreadyExists): create: pods "p" already exists`:                                 fmt.Errorf("create: %w", apierrors.NewAlreadyExists(pods, "p")),
		"error: You must be logged in to the server (Unauthorized)":                                          apierrors.NewUnauthorized("Unauthorized"),
		"Error from server: odd":                                                                             &apierrors.StatusError{ErrStatus: metav1.Status{Message: "odd"}},
		`The Pod "p" is invalid: metadata.name: Invalid value: "A": too big`:                                 apierrors.NewInvalid(kind, "p", field.ErrorList{name, name}),
		"The Pod \"p\" is invalid: \n* metadata.name: Invalid value: \"A\": too big\n* spec: Required value": apierrors.NewInvalid(kind, "p", field.ErrorList{name, field.Required(field.NewPath("spec"), "")}),
		"The request is invalid: no":                                                                         &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Message: "no", Details: &metav1.StatusDetails{}}},
		"The request is invalid: bare":                                                                       &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Message: "bare"}},
		`the server doesn't have a resource type "foos"`:                                                     &meta.NoResourceMatchError{PartialResource: schema.GroupVersionResource{Resource: "foos"}},
		`the server doesn't have a resource type "foos" in group "g"`:                                        &meta.NoResourceMatchError{PartialResource: schema.GroupVersionResource{Group: "g", Resource: "foos"}},
		`the server doesn't have a resource type "foos" in version "v"`:                                      &meta.NoResourceMatchError{PartialResource: schema.GroupVersionResource{Version: "v", Resource: "foos"}},
		`the server doesn't have a resource type "foos" in group "g" and version "v"`:                        &meta.NoResourceMatchError{PartialResource: schema.GroupVersionResource{Group: "g", Version: "v", Resource: "foos"}},
		"The connection to the server host:1 was refused - did you specify the right host or port?":          &url.Error{Op: "Get", URL: "https://host:1/api", Err: errors.New("dial: connection refused")},
		"Unable to connect to the server: x509: unknown authority":                                           &url.Error{Op: "Get", URL: "https://host:1/api", Err: errors.New("x509: unknown authority")},
		"error: one": errors.Join(errors.New("one")),
		"one\nError from server (NotFound): pods \"p\" not found": errors.Join(errors.New("one"), apierrors.NewNotFound(pods, "p")),
		"error: around: one": fmt.Errorf("around: %w%w", errors.New("one"), errors.New("")),
		"two\nthree":         utilerrors.NewAggregate([]error{errors.New("two"), errors.New("three")}),
	} {
		if got := message.Of(err); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

func ExampleOf() {
	err := apierrors.NewNotFound(schema.GroupResource{Group: "apps", Resource: "deployments"}, "web")
	fmt.Println(message.Of(err))
	// Output: Error from server (NotFound): deployments.apps "web" not found
}
