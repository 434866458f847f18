package webhook

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/keelson-dev/keelson/admission/internal/matching"
)

// errNoCompiler is what evaluating match conditions returns where nothing can.
var errNoCompiler = errors.New("this server does not evaluate match conditions: it has no compiler for their expressions (CEL)")

// hook is a webhook of either kind, prepared for matching. It is immutable.
type hook struct {
	registrationv1.ValidatingWebhook
	configuration string
	id            string // of the webhook among all of its plugin
	reinvocable   bool
	selectors     matching.Selectors
	conditions    Conditions // nil: none
}

func (h *hook) failsOpen() bool {
	return h.FailurePolicy != nil && *h.FailurePolicy == registrationv1.Ignore
}

func (h *hook) matchesEquivalent() bool {
	return h.MatchPolicy != nil && *h.MatchPolicy == registrationv1.Equivalent
}

// hooks prepares the webhooks of one kind of configuration, and keeps them as long as their configuration is the same
// object.
type hooks[T configuration] struct {
	source  Configurations[T]
	of      func(T) []hook // the webhooks of a configuration, as far as they are its own
	compile func([]registrationv1.MatchCondition) Conditions

	mu    sync.Mutex
	known map[string]prepared[T] // by configuration
}

type configuration interface {
	comparable
	GetName() string
}

type prepared[T any] struct {
	from  T
	hooks []*hook
}

func newHooks[T configuration](source Configurations[T], o Options, of func(T) []hook) *hooks[T] {
	return &hooks[T]{source: source, of: of, compile: o.Compile, known: map[string]prepared[T]{}}
}

// list returns all webhooks in the order in which they are called.
func (s *hooks[T]) list() []*hook {
	configurations := slices.Clone(s.source.List(""))
	slices.SortStableFunc(configurations, func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) })
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*hook
	for _, c := range configurations {
		p := s.known[c.GetName()]
		if p.from != c {
			p = prepared[T]{from: c, hooks: s.prepare(c)}
			s.known[c.GetName()] = p
		}
		all = append(all, p.hooks...)
	}
	if len(s.known) != len(configurations) {
		s.forget(configurations)
	}
	return all
}

// forget drops the webhooks of configurations that are gone.
func (s *hooks[T]) forget(remaining []T) {
	names := make(map[string]bool, len(remaining))
	for _, c := range remaining {
		names[c.GetName()] = true
	}
	for name := range s.known {
		if !names[name] {
			delete(s.known, name)
		}
	}
}

func (s *hooks[T]) prepare(c T) []*hook {
	var out []*hook
	seen := map[string]int{} // older servers accepted a name twice
	for _, h := range s.of(c) {
		h.configuration = c.GetName()
		h.id = h.configuration + "/" + h.Name + "/" + strconv.Itoa(seen[h.Name])
		seen[h.Name]++
		h.selectors = matching.NewSelectors(h.NamespaceSelector, h.ObjectSelector)
		if len(h.MatchConditions) > 0 {
			h.conditions = s.conditions(h.MatchConditions)
		}
		out = append(out, &h)
	}
	return out
}

func (s *hooks[T]) conditions(list []registrationv1.MatchCondition) Conditions {
	if s.compile == nil {
		return func(context.Context, *admissionv1.AdmissionRequest) (bool, error) { return false, errNoCompiler }
	}
	return s.compile(list)
}

func hooksOfMutating(c *registrationv1.MutatingWebhookConfiguration) []hook {
	out := make([]hook, len(c.Webhooks))
	for i, w := range c.Webhooks {
		out[i] = hook{
			ValidatingWebhook: registrationv1.ValidatingWebhook{
				Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
				NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects,
				TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
			},
			reinvocable: w.ReinvocationPolicy != nil && *w.ReinvocationPolicy == registrationv1.IfNeededReinvocationPolicy,
		}
	}
	return out
}

func hooksOfValidating(c *registrationv1.ValidatingWebhookConfiguration) []hook {
	out := make([]hook, len(c.Webhooks))
	for i, w := range c.Webhooks {
		out[i] = hook{ValidatingWebhook: w}
	}
	return out
}
