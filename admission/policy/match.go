package policy

import (
	"context"
	"errors"
	"slices"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/internal/matching"
)

// exempt reports whether no policy sees a request: one that judges policies could not be removed any more.
func exempt(r *admission.Request) bool {
	return matching.Review(r) || r.Resource.Group == registrationv1.GroupName && slices.Contains([]string{
		"validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
	}, r.Resource.Resource)
}

// matcher is what a policy or a binding selects, prepared. It is immutable.
type matcher struct {
	resources *registrationv1.MatchResources
	selectors matching.Selectors
	err       error
}

var (
	errNoConstraints      = errors.New("policy contained no match constraints, a required field")
	errNoNamespaceMatcher = errors.New("a nil namespace selector was passed, please ensure selectors are initialized properly")
	errNoObjectMatcher    = errors.New("a nil object selector was passed, please ensure selectors are initialized properly")
)

// newMatcher prepares what a policy selects.
func newMatcher(resources *registrationv1.MatchResources) *matcher {
	switch {
	case resources == nil:
		return &matcher{err: errNoConstraints}
	case resources.NamespaceSelector == nil:
		return &matcher{err: errNoNamespaceMatcher}
	case resources.ObjectSelector == nil:
		return &matcher{err: errNoObjectMatcher}
	}
	return &matcher{resources: resources, selectors: matching.NewSelectors(resources.NamespaceSelector, resources.ObjectSelector)}
}

// match returns the version in which a request is selected, or false if it is not.
func (m *matcher) match(ctx context.Context, c *call) (admission.Version, bool, error) {
	if m.err != nil {
		return admission.Version{}, false, m.err
	}
	equivalent := m.resources.MatchPolicy != nil && *m.resources.MatchPolicy == registrationv1.Equivalent
	if _, excluded := c.selected(m.resources.ExcludeResourceRules, equivalent); excluded {
		return admission.Version{}, false, nil
	}
	version, ok := c.requested, true
	if len(m.resources.ResourceRules) > 0 {
		version, ok = c.selected(m.resources.ResourceRules, equivalent)
	}
	if !ok {
		return admission.Version{}, false, nil
	}
	ok, err := m.selectors.Select(ctx, c.request, c.plugin.namespace)
	return version, ok, err
}

// selected returns the version in which one of the rules selects the request.
func (c *call) selected(rules []registrationv1.NamedRuleWithOperations, equivalent bool) (admission.Version, bool) {
	for i := range rules {
		if c.rule(&rules[i], c.requested.Resource) {
			return c.requested, true
		}
	}
	if !equivalent {
		return admission.Version{}, false
	}
	for i := range rules {
		for _, v := range c.served {
			if c.rule(&rules[i], v.Resource) {
				return v, true
			}
		}
	}
	return admission.Version{}, false
}

func (c *call) rule(rule *registrationv1.NamedRuleWithOperations, resource schema.GroupVersionResource) bool {
	return matching.Rule(&rule.RuleWithOperations, resource, c.request) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, c.request.Name))
}
