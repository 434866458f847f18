package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/keelson-dev/keelson/admission"
)

// dispatcher is what both plugins do: selecting webhooks and calling one.
type dispatcher struct {
	namespaces Namespaces
	caller     Caller
	direct     Direct // the Caller if it is one, or nil
	options    Options
}

func newDispatcher(namespaces Namespaces, caller Caller, o Options) dispatcher {
	direct, _ := caller.(Direct)
	return dispatcher{namespaces: namespaces, caller: caller, direct: direct, options: o.withDefaults()}
}

// selects returns the version in which a webhook gets a request, or false if it does not get it, or on an error.
func (d *dispatcher) selects(ctx context.Context, h *hook, r *admission.Request) (Version, bool, error) {
	v, ok := h.version(r, d.options.Versions(r.Resource, r.Subresource))
	if !ok {
		return v, false, nil
	}
	ok, err := h.selectors.Select(ctx, r, d.namespace)
	return v, ok, err
}

// namespace returns a namespace, also one that the cache does not have yet.
func (d *dispatcher) namespace(ctx context.Context, name string) (*corev1.Namespace, bool, error) {
	ns, ok := d.namespaces.Get("", name)
	if ok || d.options.Live == nil {
		return ns, ok, nil
	}
	return d.options.Live(ctx, name)
}

// passes reports whether a review meets a webhook's match conditions; false on an error.
func (d *dispatcher) passes(ctx context.Context, h *hook, r *admission.Request, v *review) (bool, error) {
	if h.conditions == nil {
		return true, nil
	}
	ok, err := h.conditions(ctx, &v.request)
	if err == nil {
		return ok, nil
	}
	if h.failsOpen() {
		return false, nil
	}
	d.options.Logger.Warn("match conditions failed", "webhook", h.Name, "error", err)
	return false, &admission.Error{Err: admission.ErrForbidden, Resource: r.Requested().Resource.GroupResource(), Name: r.Name, Message: err.Error(), Cause: err}
}

// call asks a webhook. It returns the response, if there is one, also of a webhook that refuses the request. The
// error is a *CallError, a *Denial or an *admission.Error.
func (d *dispatcher) call(ctx context.Context, h *hook, v *review, mutating bool) (*admissionv1.AdmissionResponse, error) {
	failed := func(format string, args ...any) error {
		return &CallError{Webhook: h.Name, Reason: fmt.Errorf(format, args...)}
	}
	if *v.request.DryRun {
		switch {
		case h.SideEffects == nil:
			return nil, failed("Webhook SideEffects is nil")
		case *h.SideEffects != registrationv1.SideEffectClassNone && *h.SideEffects != registrationv1.SideEffectClassNoneOnDryRun:
			return nil, admission.BadRequest("admission webhook %q does not support dry run", h.Name)
		}
	}
	version, err := reviewVersion(h.AdmissionReviewVersions)
	if err != nil {
		return nil, failed("could not create admission objects: %w", err)
	}
	uid := newUID()
	if h.TimeoutSeconds != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(*h.TimeoutSeconds)*time.Second)
		defer cancel()
	}
	answer, err := d.ask(ctx, h, v, version, uid)
	switch {
	case errors.As(err, new(unwritableError)):
		return nil, admission.Internal(err)
	case errors.Is(err, ErrClient):
		return nil, failed("%w", err)
	case err != nil:
		return nil, failed("failed to call webhook: %w", err)
	}
	response, err := verify(answer, version, uid, mutating)
	switch {
	case err != nil:
		return nil, failed("received invalid webhook response: %w", err)
	case !response.Allowed:
		return response, denial(h.Name, response.Result)
	}
	return response, nil
}

// ask brings a review to a webhook, without JSON where the Caller can, and returns the answer.
func (d *dispatcher) ask(ctx context.Context, h *hook, v *review, version string, uid types.UID) (*admissionv1.AdmissionReview, error) {
	if d.direct != nil {
		if reviewer := d.direct.Reviewer(&h.ClientConfig); reviewer != nil {
			q := v.request
			q.UID = uid
			response, err := reviewed(ctx, reviewer, &q)
			return &admissionv1.AdmissionReview{TypeMeta: typeOfReview(version), Response: response}, err
		}
	}
	message, err := v.message(version, uid)
	if err != nil {
		return nil, unwritableError{err}
	}
	body, err := d.caller.Call(ctx, &h.ClientConfig, message)
	if err != nil {
		return nil, err
	}
	return decodeAnswer(body, version)
}

// reviewed asks a webhook in this process. A panic is a failed call, as that of a webhook elsewhere would be.
func reviewed(ctx context.Context, reviewer Reviewer, q *admissionv1.AdmissionRequest) (out *admissionv1.AdmissionResponse, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			out, err = nil, fmt.Errorf("the webhook panicked: %v", reason)
		}
	}()
	return reviewer.Review(ctx, q), ctx.Err()
}

// report passes on a response's annotations and warnings.
func (d *dispatcher) report(ctx context.Context, h *hook, response *admissionv1.AdmissionResponse) {
	if response == nil {
		return
	}
	for _, k := range sortedKeys(response.AuditAnnotations) {
		key := h.Name + "/" + k
		if len(validation.IsQualifiedName(key)) > 0 {
			d.options.Logger.Warn("a webhook's audit annotation has an invalid key", "webhook", h.Name, "key", k)
			continue
		}
		d.options.Annotate(ctx, Annotation{Key: key, Value: response.AuditAnnotations[k]})
	}
	for _, w := range response.Warnings {
		d.options.Warn(ctx, w)
	}
}

// outcome returns what the error of a webhook, if there is one, means for the request: nil if its failure is to be
// ignored, and then whether that is worth an annotation.
func (d *dispatcher) outcome(h *hook, err error) (annotate bool, refusal error) {
	var failure *CallError
	if !errors.As(err, &failure) {
		return false, err
	}
	if !h.failsOpen() {
		d.options.Logger.Warn("failed calling webhook, failing closed", "webhook", h.Name, "error", err)
		return false, admission.Internal(err)
	}
	d.options.Logger.Warn("failed calling webhook, failing open", "webhook", h.Name, "error", err)
	return !errors.Is(err, context.Canceled), nil
}

// errTimeout is the answer to a request whose time ended in the call of a webhook.
func errTimeout() error {
	return apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
}

// failedOpen is the annotation of a webhook that was passed over.
func failedOpen(kind string, round, index int, webhook string) Annotation {
	return Annotation{Key: fmt.Sprintf("failed-open.%s.webhook.admission.k8s.io/round_%d_index_%d", kind, round, index), Value: webhook}
}
