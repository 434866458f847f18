package webhook

import (
	"context"
	"fmt"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
)

// Validating is the plugin ValidatingAdmissionWebhook. Make one with NewValidating.
type Validating struct {
	dispatcher
	hooks *hooks[*registrationv1.ValidatingWebhookConfiguration]
}

var _ admission.Validator = (*Validating)(nil)

// NewValidating returns the plugin.
func NewValidating(configurations Configurations[*registrationv1.ValidatingWebhookConfiguration], namespaces Namespaces, caller Caller, o Options) *Validating {
	return &Validating{
		dispatcher: newDispatcher(namespaces, caller, o),
		hooks:      newHooks(configurations, o, hooksOfValidating),
	}
}

// Name implements admission.Plugin.
func (*Validating) Name() string { return ValidatingName }

// Handles implements admission.Plugin.
func (*Validating) Handles(admission.Operation) bool { return true }

// Validate implements admission.Validator. It asks all webhooks that the request concerns, in parallel.
func (p *Validating) Validate(ctx context.Context, r *admission.Request) error {
	if exempt(r) {
		return nil
	}
	calls, err := p.selected(ctx, r)
	if len(calls) == 0 {
		return err
	}
	if ctx.Err() != nil {
		return errTimeout()
	}
	var others sync.WaitGroup
	for i := range calls[1:] {
		others.Go(func() { p.ask(ctx, &calls[1+i]) })
	}
	p.ask(ctx, &calls[0])
	others.Wait()
	var refusal error
	for i := range calls {
		c := &calls[i]
		p.report(ctx, c.hook, c.response)
		ignored, err := p.outcome(c.hook, c.err)
		if ignored {
			p.options.Annotate(ctx, failedOpen("validating", 0, i, c.hook.Name))
		}
		if refusal == nil {
			refusal = err
		}
	}
	return refusal
}

// asked is a webhook, the review it gets, and its answer.
type asked struct {
	hook     *hook
	review   *review
	response *admissionv1.AdmissionResponse
	err      error
}

// selected returns the webhooks that a request concerns, in order, with their reviews.
func (p *Validating) selected(ctx context.Context, r *admission.Request) ([]asked, error) {
	var calls []asked
	reviews := map[schema.GroupVersionResource]*review{}
	for _, h := range p.hooks.list() {
		version, ok, err := p.selects(ctx, h, r)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		v, err := reviewOf(r, version, reviews)
		if err != nil {
			return nil, admission.Internal(err)
		}
		if ok, err = p.passes(ctx, h, r, v); err != nil {
			return nil, err
		}
		if ok {
			calls = append(calls, asked{hook: h, review: v})
		}
	}
	return calls, nil
}

// reviewOf returns the review of a version, with the objects in that version, which webhooks share.
func reviewOf(r *admission.Request, version Version, made map[schema.GroupVersionResource]*review) (*review, error) {
	if v := made[version.Resource]; v != nil {
		return v, nil
	}
	v, err := newReview(r, version)
	made[version.Resource] = v
	return v, err
}

// ask calls a webhook and keeps its answer. A panic of the Caller fails this request only.
func (p *Validating) ask(ctx context.Context, c *asked) {
	defer func() {
		switch reason := recover(); {
		case reason == nil:
		case c.hook.failsOpen():
			c.response, c.err = nil, &CallError{Webhook: c.hook.Name, Reason: fmt.Errorf("panic: %v", reason)}
		default:
			c.response, c.err = nil, admission.Internal(fmt.Errorf("%s/%v has panicked: %v", ValidatingName, c.hook.Name, reason))
		}
	}()
	c.response, c.err = p.call(ctx, c.hook, c.review, false)
}
