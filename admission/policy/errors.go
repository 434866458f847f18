package policy

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
)

// Denial is the refusal of a request by policies.
type Denial struct {
	// Policy and Binding are the names of the first that refused the request. Binding is empty if the policy itself
	// could not be used.
	Policy, Binding string
	// Result is what the client is told.
	Result metav1.Status
}

var _ apierrors.APIStatus = (*Denial)(nil)

// Error returns the client's message.
func (d *Denial) Error() string { return d.Result.Message }

// Status returns what the client is told.
func (d *Denial) Status() metav1.Status { return d.Result }

// forbidden is the Status of a refused request, which names the object as the client did.
func forbidden(c *call, message string) metav1.Status {
	as := *c.request
	as.Resource = c.requested.Resource
	e := admission.Forbidden(&as, "%s", message)
	return apierrors.NewForbidden(e.Resource, e.Name, errors.New(message)).ErrStatus
}

// refusal is a reason to refuse a request.
type refusal struct {
	policy, binding string
	message         string
	reason          metav1.StatusReason
}

// misconfigured returns the message of a policy, or of a binding, that cannot be used.
func misconfigured(binding string, err error) string {
	if binding == "" {
		return fmt.Sprintf("failed to configure policy: %v", err)
	}
	return fmt.Sprintf("failed to configure binding: %v", err)
}

// invalid is the refusal by validating policies, in the words of the first.
func (c *call) invalid(first *refusal) error {
	by := fmt.Sprintf("ValidatingAdmissionPolicy '%s'", first.policy)
	if first.binding != "" {
		by += fmt.Sprintf(" with binding '%s'", first.binding)
	}
	message := by + " denied request: " + first.message
	status := forbidden(c, message)
	status.Reason = first.reason
	if status.Reason == "" {
		status.Reason = metav1.StatusReasonInvalid
	}
	status.Code = codeOf(status.Reason)
	status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{Message: message})
	return &Denial{Policy: first.policy, Binding: first.binding, Result: status}
}

// codeOf returns the HTTP status of a reason that policies may give.
func codeOf(reason metav1.StatusReason) int32 {
	switch reason {
	case metav1.StatusReasonForbidden:
		return http.StatusForbidden
	case metav1.StatusReasonUnauthorized:
		return http.StatusUnauthorized
	case metav1.StatusReasonRequestEntityTooLarge:
		return http.StatusRequestEntityTooLarge
	default:
		return http.StatusUnprocessableEntity
	}
}

// unchangeable is the refusal by mutating policies that failed: the message of the first, and all as causes.
func (c *call) unchangeable(all []refusal) error {
	status := forbidden(c, "")
	for i := range all {
		f := &all[i]
		message := fmt.Sprintf("policy %q denied request: %s", f.policy, f.message)
		if f.binding != "" {
			message = fmt.Sprintf("policy '%s' with binding '%s' denied request: %s", f.policy, f.binding, f.message)
		}
		if i == 0 {
			status.Message = message
			if f.reason != "" {
				status.Reason = f.reason
			}
		}
		status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{Message: message})
	}
	return &Denial{Policy: all[0].policy, Binding: all[0].binding, Result: status}
}

// noSchema is upstream's error for a kind whose schema it does not know.
func noSchema(kind schema.GroupVersionKind) error {
	return apierrors.NewServiceUnavailable(fmt.Sprintf(
		"Resource kind %s not found. There can be a delay between when CustomResourceDefinitions are created and when they are available.", kind))
}

// notDecoded is the error of an object that a patch has made unreadable.
func notDecoded(strict []error) error {
	return admission.Internal(runtime.NewStrictDecodingError(strict))
}
