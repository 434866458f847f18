package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/registry"
)

// statusOf is the one place where errors become what a client is told. Errors that carry a
// Status of their own keep it.
func statusOf(err error) *metav1.Status {
	var carried apierrors.APIStatus
	if errors.As(err, &carried) {
		s := carried.Status()
		return &s
	}
	var refused *registry.Error
	if errors.As(err, &refused) {
		return registryStatus(refused)
	}
	if s := admissionStatus(err); s != nil {
		return s
	}
	switch {
	case registry.FutureRevision(err):
		s := apierrors.NewTimeoutError(err.Error(), 1).ErrStatus
		s.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
		return &s
	case errors.Is(err, context.DeadlineExceeded):
		return &apierrors.NewTimeoutError("request did not complete within requested timeout - "+context.DeadlineExceeded.Error(), 0).ErrStatus
	}
	return &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Reason: metav1.StatusReasonUnknown, Message: err.Error(),
	}
}

func registryStatus(e *registry.Error) *metav1.Status {
	gr := e.Resource
	detail := errors.New(e.Message)
	switch e.Err {
	case registry.ErrNotFound:
		s := apierrors.NewNotFound(gr, e.Name).ErrStatus
		if e.Message != "" {
			s.Message = e.Message
		}
		return &s
	case registry.ErrExists:
		return &apierrors.NewAlreadyExists(gr, e.Name).ErrStatus
	case registry.ErrConflict:
		s := apierrors.NewConflict(gr, e.Name, detail).ErrStatus
		s.Details.Causes = e.Causes
		return &s
	case registry.ErrInvalid:
		return invalid(schema.GroupKind{Group: gr.Group, Kind: e.Kind}, e.Name, e.Fields)
	case registry.ErrExpired:
		s := apierrors.NewResourceExpired(e.Message).ErrStatus
		s.Continue = e.Continue
		return &s
	case registry.ErrForbidden:
		s := apierrors.NewForbidden(gr, e.Name, detail).ErrStatus
		s.Details.Causes = e.Causes
		return &s
	case registry.ErrBadRequest:
		return &apierrors.NewBadRequest(e.Message).ErrStatus
	case registry.ErrTooManyRequests:
		s := apierrors.NewTooManyRequests(e.Message, e.RetryAfter).ErrStatus
		s.Details.Causes = e.Causes
		return &s
	case registry.ErrInternal:
		return &apierrors.NewInternalError(detail).ErrStatus
	case registry.ErrNameExhausted:
		return &apierrors.NewGenerateNameConflict(gr, e.Name, 1).ErrStatus
	}
	return &apierrors.NewInternalError(e).ErrStatus
}

// Limits of what an answer tells of an invalid object: how many errors, and bytes of each and of all.
const (
	maxCauses    = 1000
	maxCause     = 16 << 10
	maxAllCauses = 512 << 10
)

// causeLeftOut is the type of a cause that stands for those that are left out.
const causeLeftOut metav1.CauseType = "FieldErrorsLeftOut"

// invalid is the answer to an object that is not valid, in upstream's words. Of a list with a million errors,
// which upstream tells in full, twice, it tells the first and how many more there are.
func invalid(kind schema.GroupKind, name string, errs field.ErrorList) *metav1.Status {
	s := &apierrors.NewInvalid(kind, name, nil).ErrStatus
	var told []error
	size := 0
	for _, err := range errs[:min(len(errs), maxCauses)] {
		body := cut(err.ErrorBody())
		if size += len(body) + len(err.Field); size > maxAllCauses {
			break
		}
		told = append(told, errors.New(err.Field+": "+body))
		s.Details.Causes = append(s.Details.Causes, metav1.StatusCause{Type: metav1.CauseType(err.Type), Message: body, Field: err.Field})
	}
	if len(told) > 0 {
		s.Message += ": " + utilerrors.NewAggregate(told).Error()
	}
	if more := len(errs) - len(told); more > 0 {
		mark := fmt.Sprintf("%d more errors are left out", more)
		s.Message += "; " + mark
		s.Details.Causes = append(s.Details.Causes, metav1.StatusCause{Type: causeLeftOut, Message: mark})
	}
	return s
}

// cut keeps the beginning of a long text and says how much it leaves out.
func cut(text string) string {
	if len(text) <= maxCause {
		return text
	}
	return fmt.Sprintf("%s... (%d more bytes are left out)", strings.ToValidUTF8(text[:maxCause], ""), len(text)-maxCause)
}

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

// escape makes a text safe where it is taken for HTML.
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

// noRoute is the answer to a request that no endpoint takes: its path, method or media type.
func noRoute(code int, message string) error {
	return apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", message, 0, false)
}

func notAcceptable(accepted []string) error {
	return failure(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"only the following media types are accepted: %s", strings.Join(accepted, ", "))
}

func unsupportedMedia(accepted []string) error {
	return failure(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
		"the body of the request was in an unknown format - accepted media types include: %s", strings.Join(accepted, ", "))
}

// admissionStatus is what a plugin's refusal tells the client, or nil if err is none.
func admissionStatus(err error) *metav1.Status {
	var e *admission.Error
	if !errors.As(err, &e) {
		return nil
	}
	detail := errors.New(e.Message)
	var s *apierrors.StatusError
	switch {
	case errors.Is(e.Err, admission.ErrForbidden):
		s = apierrors.NewForbidden(e.Resource, e.Name, detail)
		s.ErrStatus.Details.Causes = e.Causes
	case errors.Is(e.Err, admission.ErrNotFound):
		s = apierrors.NewNotFound(e.Resource, e.Name)
	case errors.Is(e.Err, admission.ErrInvalid):
		s = apierrors.NewInvalid(e.Kind, e.Name, e.Fields)
	case errors.Is(e.Err, admission.ErrBadRequest):
		s = apierrors.NewBadRequest(e.Message)
	default:
		s = apierrors.NewInternalError(detail)
	}
	s.ErrStatus.Message = e.Error()
	if e.Code != 0 {
		s.ErrStatus.Code = int32(e.Code)
	}
	return &s.ErrStatus
}
