package authz

import (
	"context"
	"errors"
	"slices"

	"github.com/keelson-dev/keelson/authn"
)

// ResourceRule allows verbs on resources, in the terms of an RBAC rule: "*" stands for all, and
// no ResourceNames for every name.
type ResourceRule struct {
	Verbs         []string
	Groups        []string
	Resources     []string
	ResourceNames []string
}

// PathRule allows verbs on URL paths outside the resources; a path may end in "*".
type PathRule struct {
	Verbs []string
	Paths []string
}

// Rules are what somebody may do in one namespace.
type Rules struct {
	Resources []ResourceRule
	Paths     []PathRule
	// Incomplete tells that more may be allowed than is listed.
	Incomplete bool
}

// RuleResolver lists what somebody may do, as SelfSubjectRulesReview wants it. Implementations
// are safe for concurrent use and answer from memory.
type RuleResolver interface {
	// RulesFor returns what user may do in namespace. An error says what could not be
	// evaluated; the rules beside it hold all the same. They are shared: read only.
	RulesFor(ctx context.Context, user *authn.Identity, namespace string) (Rules, error)
}

// RulesFunc is a RuleResolver made of a function.
type RulesFunc func(ctx context.Context, user *authn.Identity, namespace string) (Rules, error)

// RulesFor calls f.
func (f RulesFunc) RulesFor(ctx context.Context, user *authn.Identity, namespace string) (Rules, error) {
	return f(ctx, user, namespace)
}

// UnionRules returns a RuleResolver of everything that any of resolvers lists.
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
