package policy

import (
	"cmp"
	"slices"
	"sync"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// hook is a policy of either kind with its bindings, prepared. It is immutable.
type hook[E any] struct {
	policySpec
	evaluator func() E // compiles the policy once
	bindings  []*binding
}

// policySpec is what policies of both kinds have in common.
type policySpec struct {
	name        string
	matches     *matcher
	failsOpen   bool
	paramKind   *registrationv1.ParamKind
	kind        schema.GroupVersionKind // of the parameters
	typedParams bool                    // those with a Go type name it
	mutations   int
	reinvocable bool
}

// binding is a binding of either kind, prepared. It is immutable.
type binding struct {
	name     string
	policy   string
	matches  *matcher // nil: all that the policy selects
	paramRef *registrationv1.ParamRef
	actions  []registrationv1.ValidationAction
}

// object is a policy or a binding.
type object interface {
	comparable
	GetName() string
}

// hooks prepares the policies of one kind, and keeps them as long as they are the same objects.
type hooks[P, B object, E any] struct {
	policies Objects[P]
	bindings Objects[B]
	spec     func(P) policySpec
	bind     func(B) binding
	compile  func(P) E

	mu       sync.Mutex
	was      []P // what the others were made from
	boundBy  []B
	prepared []*hook[E]
	known    map[P]*hook[E] // without bindings
}

// list returns the policies that have bindings, by name, with their bindings, by name.
func (s *hooks[P, B, E]) list() []*hook[E] {
	policies, bindings := s.policies.List(""), s.bindings.List("")
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Equal(policies, s.was) && slices.Equal(bindings, s.boundBy) {
		return s.prepared
	}
	s.was, s.boundBy = slices.Clone(policies), slices.Clone(bindings)
	s.prepared = s.prepare()
	return s.prepared
}

func (s *hooks[P, B, E]) prepare() []*hook[E] {
	bound := map[string][]*binding{}
	for _, b := range s.boundBy {
		made := s.bind(b)
		bound[made.policy] = append(bound[made.policy], &made)
	}
	known := make(map[P]*hook[E], len(s.was))
	var out []*hook[E]
	for _, p := range s.was {
		h := s.known[p]
		if h == nil {
			h = &hook[E]{policySpec: s.spec(p), evaluator: sync.OnceValue(func() E { return s.compile(p) })}
		}
		known[p] = h
		if of := bound[p.GetName()]; len(of) > 0 {
			slices.SortStableFunc(of, func(a, b *binding) int { return cmp.Compare(a.name, b.name) })
			with := *h
			with.bindings = of
			out = append(out, &with)
		}
	}
	s.known = known
	slices.SortStableFunc(out, func(a, b *hook[E]) int { return cmp.Compare(a.name, b.name) })
	return out
}

func boundMatcher(resources *registrationv1.MatchResources) *matcher {
	if resources == nil {
		return nil
	}
	return newMatcher(resources)
}

func paramKind(k *registrationv1.ParamKind) schema.GroupVersionKind {
	if k == nil {
		return schema.GroupVersionKind{}
	}
	return schema.FromAPIVersionAndKind(k.APIVersion, k.Kind)
}

func validatingSpec(p *registrationv1.ValidatingAdmissionPolicy) policySpec {
	return policySpec{
		name: p.Name, matches: newMatcher(p.Spec.MatchConstraints), failsOpen: failsOpen(p.Spec.FailurePolicy),
		paramKind: p.Spec.ParamKind, kind: paramKind(p.Spec.ParamKind), typedParams: true,
	}
}

func mutatingSpec(p *registrationv1.MutatingAdmissionPolicy) policySpec {
	return policySpec{
		name: p.Name, matches: newMatcher(p.Spec.MatchConstraints), failsOpen: failsOpen(p.Spec.FailurePolicy),
		paramKind: p.Spec.ParamKind, kind: paramKind(p.Spec.ParamKind), mutations: len(p.Spec.Mutations),
		reinvocable: p.Spec.ReinvocationPolicy == registrationv1.IfNeededReinvocationPolicy,
	}
}

func validatingBinding(b *registrationv1.ValidatingAdmissionPolicyBinding) binding {
	return binding{
		name: b.Name, policy: b.Spec.PolicyName, matches: boundMatcher(b.Spec.MatchResources), paramRef: b.Spec.ParamRef,
		actions: b.Spec.ValidationActions,
	}
}

func mutatingBinding(b *registrationv1.MutatingAdmissionPolicyBinding) binding {
	return binding{name: b.Name, policy: b.Spec.PolicyName, matches: boundMatcher(b.Spec.MatchResources), paramRef: b.Spec.ParamRef}
}
