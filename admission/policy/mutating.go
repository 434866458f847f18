package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/internal/jsonpatch"
)

// Mutating is the plugin MutatingAdmissionPolicy. Make one with NewMutating.
type Mutating struct {
	plugin
	hooks *hooks[*registrationv1.MutatingAdmissionPolicy, *registrationv1.MutatingAdmissionPolicyBinding, Mutator]
}

var _ admission.Reinvoker = (*Mutating)(nil)

// NewMutating returns the plugin. compile is called once for each policy that a request needs.
func NewMutating(policies Objects[*registrationv1.MutatingAdmissionPolicy], bindings Objects[*registrationv1.MutatingAdmissionPolicyBinding],
	namespaces Namespaces, compile func(*registrationv1.MutatingAdmissionPolicy) Mutator, o Options,
) *Mutating {
	return &Mutating{
		plugin: plugin{namespaces: namespaces, options: o.withDefaults()},
		hooks: &hooks[*registrationv1.MutatingAdmissionPolicy, *registrationv1.MutatingAdmissionPolicyBinding, Mutator]{
			policies: policies, bindings: bindings, spec: mutatingSpec, bind: mutatingBinding, compile: compile,
		},
	}
}

// Name implements admission.Plugin.
func (*Mutating) Name() string { return MutatingName }

// Handles implements admission.Plugin: nothing is left to change of what is deleted.
func (*Mutating) Handles(op admission.Operation) bool { return op != admission.Delete }

// Admit implements admission.Mutator. It evaluates each policy once, and replaces r.Object if one has changed it.
func (p *Mutating) Admit(ctx context.Context, r *admission.Request) error {
	return p.round(ctx, r, &rounds{})
}

// AdmitFirst implements admission.Reinvoker.
func (p *Mutating) AdmitFirst(ctx context.Context, r *admission.Request) (admission.Reinvocation, error) {
	s := &rounds{}
	err := p.round(ctx, r, s)
	return admission.Reinvocation{Needed: s.changed, Again: func(ctx context.Context, r *admission.Request) error {
		s.again = true
		return p.round(ctx, r, s)
	}}, err
}

// rounds is what the second round over a request has to know of the first.
type rounds struct {
	again   bool
	changed bool            // a policy has changed the object
	ready   map[string]bool // policies that were evaluated and may have to be again, by their invocation's id
	due     map[string]bool // policies that have to be evaluated again
	left    runtime.Object  // the object after the last round, if there are any such policies
}

// require has all policies evaluated again that were evaluated so far and may be.
func (s *rounds) require() {
	if s.due == nil {
		s.due = map[string]bool{}
	}
	for id := range s.ready {
		s.due[id] = true
	}
}

// invocation is a policy with one of the parameters of one of its bindings.
type invocation struct {
	hook    *hook[Mutator]
	binding *binding
	version admission.Version
	param   runtime.Object
}

// id tells an invocation from others over the same request.
func (i *invocation) id() string {
	id := i.hook.name + "/" + i.binding.name
	if meta, ok := i.param.(metav1.Object); ok {
		id += "/" + meta.GetNamespace() + "/" + meta.GetName()
	}
	return id
}

// mutation is one round over a request.
type mutation struct {
	*call
	rounds   *rounds
	refusals []refusal
	dirty    bool // a mutation was applied
}

// round evaluates the policies that select a request; in the second round, only those that have to be evaluated again.
func (p *Mutating) round(ctx context.Context, r *admission.Request, s *rounds) error {
	if exempt(r) {
		return nil
	}
	policies := p.hooks.list()
	if len(policies) == 0 {
		return nil
	}
	m := &mutation{call: p.call(r), rounds: s}
	var all []invocation
	for _, h := range policies {
		all = m.collectAll(ctx, h, all)
	}
	if len(all) > 0 {
		if err := m.run(ctx, all); err != nil {
			return err
		}
	}
	if len(m.refusals) == 0 {
		return nil
	}
	return m.unchangeable(m.refusals)
}

func (m *mutation) refuse(h *hook[Mutator], r refusal) {
	if !h.failsOpen {
		r.policy = h.name
		m.refusals = append(m.refusals, r)
	}
}

func (m *mutation) misconfigured(h *hook[Mutator], binding string, err error) {
	m.refuse(h, refusal{binding: binding, message: misconfigured(binding, err)})
}

// collectAll adds what a policy is to be evaluated with.
func (m *mutation) collectAll(ctx context.Context, h *hook[Mutator], to []invocation) []invocation {
	version, ok, err := h.matches.match(ctx, m.call)
	if err == nil && !ok {
		return to
	}
	var from Params
	if err == nil {
		from, err = m.paramsOf(&h.policySpec)
	}
	if err != nil {
		m.misconfigured(h, "", err)
		return to
	}
	for _, b := range h.bindings {
		if b.matches != nil {
			_, ok, err := b.matches.match(ctx, m.call)
			if err != nil {
				m.misconfigured(h, b.name, err)
			}
			if !ok || err != nil {
				continue
			}
		}
		if _, err := m.input(version); err != nil {
			m.misconfigured(h, "", err)
			continue
		}
		params, err := m.collect(ctx, from, &h.policySpec, b.paramRef)
		if err != nil {
			m.misconfigured(h, b.name, err)
			continue
		}
		for _, param := range params {
			to = append(to, invocation{h, b, version, param})
		}
	}
	return to
}

// run evaluates the policies, each on what those before it have left.
func (m *mutation) run(ctx context.Context, all []invocation) error {
	s := m.rounds
	if s.again && !equality.Semantic.DeepEqual(s.left, m.request.Object) {
		s.require() // others have changed the object since the first round
	}
	for i := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.invoke(ctx, &all[i]); err != nil {
			return err
		}
	}
	// Upstream counts an object to which a mutation was applied as changed, even if it is the same as before.
	if m.dirty {
		s.changed = true
		s.require()
	}
	s.left = nil
	if m.request.Object != nil {
		s.left = m.request.Object.DeepCopyObject()
	}
	return nil
}

// ready returns the request as expressions see it now.
func (m *mutation) ready(ctx context.Context, v admission.Version) (*Input, error) {
	in, err := m.input(v)
	if err != nil {
		return nil, admission.Internal(err)
	}
	if in.Namespace == nil {
		in.Namespace, err = m.namespace(ctx)
	}
	return in, err
}

// invoke evaluates a policy. An error ends the request, whatever the policy says of failures.
func (m *mutation) invoke(ctx context.Context, i *invocation) error {
	in, err := m.ready(ctx, i.version)
	if err != nil {
		return err
	}
	evaluator := i.hook.evaluator()
	failed := func(err error) {
		m.refuse(i.hook, refusal{binding: i.binding.name, message: err.Error(), reason: metav1.StatusReasonInvalid})
	}
	matches, err := evaluator.Matches(ctx, in, i.param)
	if err != nil {
		failed(err)
		return nil
	}
	if !matches {
		return nil
	}
	id := i.id()
	if m.rounds.again && !m.rounds.due[id] {
		return nil
	}
	for n := range i.hook.mutations {
		if m.request.Object == nil {
			break // there is nothing to change
		}
		err := m.mutate(ctx, i, n)
		var ends apierrors.APIStatus
		var internal *admission.Error
		switch {
		case err == nil:
			m.dirty = true
		case errors.As(err, &ends) || errors.As(err, &internal):
			return err
		default:
			failed(err)
		}
	}
	if i.hook.reinvocable {
		if m.rounds.ready == nil {
			m.rounds.ready = map[string]bool{}
		}
		m.rounds.ready[id] = true
	}
	return nil
}

// mutate evaluates one mutation of a policy and applies it.
func (m *mutation) mutate(ctx context.Context, i *invocation, n int) error {
	in, err := m.ready(ctx, i.version)
	if err != nil {
		return err
	}
	change, err := i.hook.evaluator().Mutate(ctx, n, in, i.param)
	if err != nil {
		return err
	}
	var obj runtime.Object
	if change.Apply != nil {
		if obj, err = m.plugin.options.Merge(i.version.Kind, in.Object, change.Apply); err != nil {
			err = fmt.Errorf("error applying patch: %w", err) // which a Status among the reasons replaces
		}
	} else {
		obj, err = patched(ctx, in, change.Patch)
	}
	if err != nil {
		return err
	}
	obj = unnamed(obj, m.request.Object)
	if i.version.ToStored != nil {
		if obj, err = i.version.ToStored(obj); err != nil {
			return admission.Internal(fmt.Errorf("failed to convert object: %w", err))
		}
	}
	m.plugin.options.Default(m.request.Kind, obj)
	m.changed(obj)
	return nil
}

// patched returns the object with a JSON patch applied. A patch whose test fails changes nothing.
func patched(ctx context.Context, in *Input, text []byte) (runtime.Object, error) {
	patch, err := jsonpatch.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("JSON Patch: %w", err)
	}
	body, err := json.Marshal(in.Object)
	if err != nil {
		return nil, fmt.Errorf("failed to create JSON patch: %w", err)
	}
	body, err = patch.Apply(ctx, body)
	switch {
	case errors.Is(err, jsonpatch.ErrTest):
		return in.Object, nil
	case err != nil:
		return nil, fmt.Errorf("JSON Patch: %w", err)
	}
	obj, ok := reflect.New(reflect.TypeOf(in.Object).Elem()).Interface().(runtime.Object)
	if !ok {
		return nil, admission.Internal(fmt.Errorf("%T is not an object", in.Object))
	}
	strict, err := kjson.UnmarshalStrict(body, obj)
	switch {
	case err != nil:
		return nil, admission.Internal(err)
	case len(strict) > 0:
		return nil, notDecoded(strict)
	}
	if is := obj.GetObjectKind().GroupVersionKind(); is != in.Version.Kind {
		return nil, admission.Internal(fmt.Errorf("no kind %q is registered for version %q in scheme %q", is.Kind, is.GroupVersion(), "pkg/runtime/scheme.go:111"))
	}
	return obj, nil
}

// unnamed takes the name of its type from an object if another does not have one.
func unnamed(obj, as runtime.Object) runtime.Object {
	if !as.GetObjectKind().GroupVersionKind().Empty() {
		return obj
	}
	if u, ok := obj.(runtime.Unstructured); ok {
		delete(u.UnstructuredContent(), "apiVersion")
		delete(u.UnstructuredContent(), "kind")
	} else {
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	return obj
}
