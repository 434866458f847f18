package webhook

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrClient is what errors of Callers wrap if a configuration does not make sense to them, before anything is sent.
var ErrClient = errors.New("could not get REST client")

// Denial is the refusal of a request by a webhook.
type Denial struct {
	// Webhook is its name.
	Webhook string
	// Result is what the client is told: what the webhook said, with a message that names the webhook.
	Result metav1.Status
}

var _ apierrors.APIStatus = (*Denial)(nil)

// Error returns the client's message.
func (d *Denial) Error() string { return d.Result.Message }

// Status returns what the client is told.
func (d *Denial) Status() metav1.Status { return d.Result }

// denial makes a refusal of what a webhook answered, if it said anything.
func denial(webhook string, said *metav1.Status) *Denial {
	var s metav1.Status
	if said != nil {
		s = *said
	}
	s.Code = max(s.Code, http.StatusBadRequest)
	if s.Status == "" || s.Status == metav1.StatusSuccess {
		s.Status = metav1.StatusFailure
	}
	by := fmt.Sprintf("admission webhook %q denied the request", webhook)
	switch {
	case s.Message != "":
		s.Message = by + ": " + s.Message
	case s.Reason != "":
		s.Message = by + ": " + string(s.Reason)
	default:
		s.Message = by + " without explanation"
	}
	return &Denial{Webhook: webhook, Result: s}
}

// CallError means that a webhook could not be asked, or gave no answer that can be used. Its failure policy says what
// becomes of the request.
type CallError struct {
	Webhook string // its name
	Reason  error  // why
}

// Error returns upstream's message.
func (e *CallError) Error() string {
	return fmt.Sprintf("failed calling webhook %q: %v", e.Webhook, e.Reason)
}

// Status returns what the client is told if that fails its request: that the server has an internal error, whatever
// Status is among the reasons.
func (e *CallError) Status() metav1.Status { return apierrors.NewInternalError(e).ErrStatus }

// Unwrap returns the reason.
func (e *CallError) Unwrap() error { return e.Reason }

// unwritableError means that a request has no JSON, which is not the webhook's fault.
type unwritableError struct{ error }
