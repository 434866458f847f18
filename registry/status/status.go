package status

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

	"github.com/keelson-dev/keelson/registry"
)

// Of returns the Status of an error for clients. An error that carries a Status of its own keeps it. An error
// that is neither such nor the registry's is passed to others in order; the first non-nil result wins. Any
// other error is an internal error with the error's text.
func Of(err error, others ...func(error) *metav1.Status) *metav1.Status {
	var carried apierrors.APIStatus
	if errors.As(err, &carried) {
		s := carried.Status()
		return &s
	}
	var refused *registry.Error
	if errors.As(err, &refused) {
		return ofRegistry(refused)
	}
	for _, other := range others {
		if s := other(err); s != nil {
			return s
		}
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

func ofRegistry(e *registry.Error) *metav1.Status {
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
		s := apierrors.NewAlreadyExists(gr, e.Name).ErrStatus
		if e.Message != "" {
			s.Message = e.Message + ": " + s.Message
		}
		return &s
	case registry.ErrConflict:
		s := apierrors.NewConflict(gr, e.Name, detail).ErrStatus
		s.Details.Causes = e.Causes
		return &s
	case registry.ErrInvalid:
		return Invalid(schema.GroupKind{Group: gr.Group, Kind: e.Kind}, e.Name, e.Fields)
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
	case registry.ErrTimeout:
		return &apierrors.NewTimeoutError(e.Message, 0).ErrStatus
	case registry.ErrInternal:
		return &apierrors.NewInternalError(detail).ErrStatus
	case registry.ErrNameExhausted:
		return &apierrors.NewGenerateNameConflict(gr, e.Name, 1).ErrStatus
	}
	return &apierrors.NewInternalError(e).ErrStatus
}

// Limits of the details about an invalid object: the number of errors, and the bytes of each and of all.
const (
	maxCauses    = 1000
	maxCause     = 16 << 10
	maxAllCauses = 512 << 10
)

// causeLeftOut is the type of a cause that stands for omitted ones.
const causeLeftOut metav1.CauseType = "FieldErrorsLeftOut"

// Invalid returns the Status of an invalid object, with upstream's messages. Of a list of a million errors,
// which upstream returns in full, twice, it returns the first and the number of the others.
func Invalid(kind schema.GroupKind, name string, errs field.ErrorList) *metav1.Status {
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

// cut truncates a long text and says how much it omits.
func cut(text string) string {
	if len(text) <= maxCause {
		return text
	}
	return fmt.Sprintf("%s... (%d more bytes are left out)", strings.ToValidUTF8(text[:maxCause], ""), len(text)-maxCause)
}

// NoRoute returns the error for a request whose path, method or media type is not served. The code is that of
// HTTP.
func NoRoute(code int, message string) error {
	return apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", message, 0, false)
}
