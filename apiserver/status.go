package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	refusal "github.com/keelson-dev/keelson/admission/status"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/registry/status"
)

// statusOf is what a client is told of an error: of what the registry says, and of what plugins refuse.
func statusOf(err error) *metav1.Status { return status.Of(err, refusal.Of) }

// forbidden is the answer to a request that no authorizer allows.
func forbidden(a authz.Attributes, reason string) error {
	user := ""
	if a.User != nil {
		user = a.User.Name
	}
	message := fmt.Sprintf("User %q cannot %s path %q", user, a.Verb, a.Path)
	if a.ResourceRequest {
		resource := a.Resource
		if a.Subresource != "" {
			resource += "/" + a.Subresource
		}
		message = fmt.Sprintf("User %q cannot %s resource %q in API group %q at the cluster scope", user, a.Verb, resource, a.Group)
		if a.Namespace != "" {
			message = fmt.Sprintf("User %q cannot %s resource %q in API group %q in the namespace %q", user, a.Verb, resource, a.Group, a.Namespace)
		}
	}
	message = escape(message)
	if reason != "" {
		message += ": " + reason
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: a.Group, Resource: a.Resource}, a.Name, errors.New(message))
}

// escape makes a text safe in case a client takes it for HTML.
func escape(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}

// statusError is an error that is exactly one Status.
type statusError struct{ status metav1.Status }

func (e statusError) Error() string         { return e.status.Message }
func (e statusError) Status() metav1.Status { return e.status }

func failure(code int32, reason metav1.StatusReason, format string, args ...any) error {
	return statusError{metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: fmt.Sprintf(format, args...),
	}}
}

// statusGVK is the type of a Status on the wire, where it belongs to no group.
func statusGVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Version: "v1", Kind: "Status"}
}

func notAcceptable(accepted []string) error {
	return failure(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"only the following media types are accepted: %s", strings.Join(accepted, ", "))
}

func unsupportedMedia(accepted []string) error {
	return failure(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
		"the body of the request was in an unknown format - accepted media types include: %s", strings.Join(accepted, ", "))
}

// errTimeout is the answer to a request that timed out.
func errTimeout() error {
	return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
}

// pastDeadline tells whether a request has timed out.
func pastDeadline(ctx context.Context) bool { return errors.Is(ctx.Err(), context.DeadlineExceeded) }

// errBodyTimeout is the answer to a request whose body did not arrive in time.
func errBodyTimeout(timeout time.Duration) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusRequestTimeout, Reason: metav1.StatusReasonTimeout,
		Message: fmt.Sprintf("the request body was not received within %v", timeout),
	}}
}
