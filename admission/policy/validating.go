package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	registrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/keelson-dev/keelson/admission"
)

// Bounds of what is added to the audit log.
const (
	maxFailures   = 50
	maxAnnotation = 10 << 10
)

// Validating is the plugin ValidatingAdmissionPolicy. Make one with NewValidating.
type Validating struct {
	plugin
	hooks *hooks[*registrationv1.ValidatingAdmissionPolicy, *registrationv1.ValidatingAdmissionPolicyBinding, Validator]
}

var _ admission.Validator = (*Validating)(nil)

// NewValidating returns the plugin. compile is called once for each policy that a request needs.
func NewValidating(policies Objects[*registrationv1.ValidatingAdmissionPolicy], bindings Objects[*registrationv1.ValidatingAdmissionPolicyBinding],
	namespaces Namespaces, compile func(*registrationv1.ValidatingAdmissionPolicy) Validator, o Options,
) *Validating {
	return &Validating{
		plugin: plugin{namespaces: namespaces, options: o.withDefaults()},
		hooks: &hooks[*registrationv1.ValidatingAdmissionPolicy, *registrationv1.ValidatingAdmissionPolicyBinding, Validator]{
			policies: policies, bindings: bindings, spec: validatingSpec, bind: validatingBinding, compile: compile,
		},
	}
}

// Name implements admission.Plugin.
func (*Validating) Name() string { return ValidatingName }

// Handles implements admission.Plugin.
func (*Validating) Handles(admission.Operation) bool { return true }

// Validate implements admission.Validator. It evaluates all policies that select the request.
func (p *Validating) Validate(ctx context.Context, r *admission.Request) error {
	if exempt(r) {
		return nil
	}
	policies := p.hooks.list()
	if len(policies) == 0 {
		return nil
	}
	v := &validation{call: p.call(r)}
	for _, h := range policies {
		if err := v.policy(ctx, h); err != nil {
			return err
		}
	}
	v.publish(ctx)
	if len(v.denied) == 0 {
		return nil
	}
	return v.invalid(&v.denied[0])
}

// validation is one request.
type validation struct {
	*call
	denied   []refusal
	failures []failure
}

// failure is an item of an audit annotation.
type failure struct {
	Message           string                            `json:"message"`
	Policy            string                            `json:"policy"`
	Binding           string                            `json:"binding"`
	ExpressionIndex   int                               `json:"expressionIndex"`
	ValidationActions []registrationv1.ValidationAction `json:"validationActions"`
}

// policy evaluates a policy. An error ends the request, whatever the policy says of failures.
func (v *validation) policy(ctx context.Context, h *hook[Validator]) error {
	version, ok, err := h.matches.match(ctx, v.call)
	if err == nil && !ok {
		return nil
	}
	var params Params
	if err == nil {
		params, err = v.paramsOf(&h.policySpec)
	}
	if err != nil {
		v.misconfigured(h, "", err)
		return nil
	}
	var notes annotations
	for _, b := range h.bindings {
		if err := v.binding(ctx, h, b, params, version, &notes); err != nil {
			return err
		}
	}
	for _, n := range notes {
		v.plugin.options.Annotate(ctx, h.name+"/"+n.key, strings.Join(n.values, ", "))
	}
	return nil
}

func (v *validation) misconfigured(h *hook[Validator], binding string, err error) {
	if !h.failsOpen {
		v.denied = append(v.denied, refusal{policy: h.name, binding: binding, message: misconfigured(binding, err)})
	}
}

// binding evaluates a policy for a binding, with each of its parameters.
//
//nolint:revive // the six belong together, and to no type
func (v *validation) binding(ctx context.Context, h *hook[Validator], b *binding, from Params, version admission.Version, notes *annotations) error {
	if b.matches != nil {
		_, ok, err := b.matches.match(ctx, v.call)
		if err != nil {
			v.misconfigured(h, b.name, err)
			return nil
		}
		if !ok {
			return nil
		}
	}
	params, err := v.collect(ctx, from, &h.policySpec, b.paramRef)
	if err != nil {
		v.misconfigured(h, b.name, err)
		return nil
	}
	in, err := v.input(version)
	if err != nil {
		if len(params) > 0 {
			v.misconfigured(h, b.name, fmt.Errorf("failed to convert object version: %w", err))
		}
		return nil
	}
	if in.Namespace == nil {
		if in.Namespace, err = v.namespace(ctx); err != nil {
			return err
		}
	}
	for _, param := range params {
		verdict := h.evaluator().Validate(ctx, in, param)
		for i := range verdict.Decisions {
			v.decided(ctx, h, b, i, &verdict.Decisions[i])
		}
		for _, a := range verdict.Annotations {
			switch {
			case a.Error != "" && !h.failsOpen:
				v.denied = append(v.denied, refusal{policy: h.name, binding: b.name, message: a.Error})
			case a.Value != "":
				notes.add(a.Key, a.Value[:min(len(a.Value), maxAnnotation)])
			}
		}
	}
	return nil
}

// decided does what a binding says is to be done about a decision.
func (v *validation) decided(ctx context.Context, h *hook[Validator], b *binding, index int, d *Decision) {
	if d.Allowed || d.Failed && h.failsOpen {
		return
	}
	for _, action := range b.actions {
		switch action {
		case registrationv1.Deny:
			v.denied = append(v.denied, refusal{policy: h.name, binding: b.name, message: d.Message, reason: d.Reason})
		case registrationv1.Warn:
			v.plugin.options.Warn(ctx, fmt.Sprintf("Validation failed for ValidatingAdmissionPolicy '%s' with binding '%s': %s", h.name, b.name, d.Message))
		case registrationv1.Audit:
			v.failures = append(v.failures, failure{
				Message: d.Message, Policy: h.name, Binding: b.name, ExpressionIndex: index, ValidationActions: b.actions,
			})
		}
	}
}

// publish adds the failures that are to be audited to the audit log.
func (v *validation) publish(ctx context.Context) {
	if len(v.failures) == 0 {
		return
	}
	if len(v.failures) > maxFailures {
		v.plugin.options.Logger.Warn("too many failures of policies for an audit annotation", "failures", len(v.failures), "limit", maxFailures)
		v.failures = v.failures[:maxFailures]
	}
	text, err := json.Marshal(v.failures)
	if err != nil {
		v.plugin.options.Logger.Error("failures of policies cannot be encoded", "error", err)
		return
	}
	v.plugin.options.Annotate(ctx, "validation.policy.admission.k8s.io/validation_failure", string(text))
}

// annotations are the audit annotations of one policy.
type annotations []annotation

type annotation struct {
	key    string
	values []string // from different bindings and parameters
}

func (a *annotations) add(key, value string) {
	at := slices.IndexFunc(*a, func(n annotation) bool { return n.key == key })
	if at < 0 {
		*a = append(*a, annotation{key: key})
		at = len(*a) - 1
	}
	if n := &(*a)[at]; !slices.Contains(n.values, value) {
		n.values = append(n.values, value)
	}
}
