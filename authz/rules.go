package authz

import (
	"context"
	"errors"
	"slices"

	"github.com/keelson-dev/keelson/authn"
)

// ResourceRule allows verbs on resources, like an RBAC rule: "*" matches everything, and empty ResourceNames match
// every name.
type ResourceRule struct {
	// The fields are those of rbacv1.PolicyRule.
	Verbs         []string
	Groups        []string
	Resources     []string
	ResourceNames []string
}

// PathRule allows verbs on non-resource URL paths; a path may end in "*".
type PathRule struct {
	// The fields are those of rbacv1.PolicyRule.
	Verbs []string
	Paths []string
}

// Rules are what a user may do in one namespace.
type Rules struct {
	// Any of these rules allows a request.
	Resources []ResourceRule
	Paths     []PathRule
	// Incomplete says that more may be allowed than is listed.
	Incomplete bool
}

// RuleResolver lists what a user may do, as SelfSubjectRulesReview does. Implementations are safe for concurrent use
// and answer from memory.
type RuleResolver interface {
	// RulesFor returns what user may do in namespace. An error says what could not be evaluated; the rules returned
	// with it are valid. They are shared and read-only.
	RulesFor(ctx context.Context, user *authn.Identity, namespace string) (Rules, error)
}

// RulesFunc adapts a function to RuleResolver.
type RulesFunc func(ctx context.Context, user *authn.Identity, namespace string) (Rules, error)

// RulesFor calls f.
func (f RulesFunc) RulesFor(ctx context.Context, user *authn.Identity, namespace string) (Rules, error) {
	return f(ctx, user, namespace)
}

// UnionRules returns a RuleResolver that lists the rules of all resolvers.
func UnionRules(resolvers ...RuleResolver) RuleResolver {
	resolvers = slices.Clone(resolvers)
	return RulesFunc(func(ctx context.Context, user *authn.Identity, namespace string) (Rules, error) {
		var (
			all      Rules
			failures []error
		)
		for _, resolver := range resolvers {
			rules, err := resolver.RulesFor(ctx, user, namespace)
			all.Resources = append(all.Resources, rules.Resources...)
			all.Paths = append(all.Paths, rules.Paths...)
			all.Incomplete = all.Incomplete || rules.Incomplete
			if err != nil {
				failures = append(failures, err)
			}
		}
		return all, errors.Join(failures...)
	})
}
