package authz

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// Named is an Authorizer with the name by which a Union reports it. Upstream's names are the modes in lower case
// ("node", "rbac"), and "kubernetes.io/system-privileged-group". One without a name, such as a Union in a Union, reports
// for itself.
type Named struct {
	Name       string
	Authorizer Authorizer
}

// Union returns an Authorizer that asks each of chain in turn. The first one that allows or denies decides: its reason
// and error are the answer. Otherwise the answer is NoOpinion with a line "name: reason" for each reason given and
// every error joined.
func Union(chain ...Named) Authorizer {
	chain = slices.Clone(chain)
	return Func(func(ctx context.Context, a Attributes) (Decision, error) {
		var (
			failures []error
			reasons  []string
		)
		for _, link := range chain {
			decision, err := link.Authorizer.Authorize(ctx, a)
			if decision.Verdict != NoOpinion {
				return decision, err
			}
			if err != nil {
				failures = append(failures, err)
			}
			switch why := decision.Why(a); {
			case why == "":
			case link.Name == "":
				reasons = append(reasons, why)
			default:
				reasons = append(reasons, link.Name+": "+why)
			}
		}
		return Decision{Reason: strings.Join(reasons, "\n")}, errors.Join(failures...)
	})
}
