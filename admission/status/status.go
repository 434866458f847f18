// Package status words the refusal of an admission plugin as the metav1.Status that clients get, for whoever answers them: the API
// server, and webhooks that are plugins.
package status

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
)

// Of returns what a plugin's refusal tells the client, or nil if err is none.
func Of(err error) *metav1.Status {
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
