// Package selector turns field and label selectors into the terms that authorizers judge
// (authz.Attributes), as a filter before an authorizer needs it. Functions are pure.
package selector

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/authz"
)

// ParseFields returns the terms of a field selector such as "spec.nodeName=n1". A selector that
// does not parse has none.
func ParseFields(raw string) ([]authz.Requirement, error) {
	selector, err := fields.ParseSelector(raw)
	if err != nil {
		return nil, err
	}
	return Fields(selector.Requirements()), nil
}

// ParseLabels returns the terms of a label selector such as "app in (a, b), !old". A selector
// that does not parse has none.
func ParseLabels(raw string) ([]authz.Requirement, error) {
	selector, err := labels.Parse(raw)
	if err != nil {
		return nil, err
	}
	requirements, _ := selector.Requirements()
	return Labels(requirements), nil
}

// Fields returns the same terms.
func Fields(requirements fields.Requirements) []authz.Requirement {
	var terms []authz.Requirement
	for _, r := range requirements {
		terms = append(terms, authz.Requirement{Key: r.Field, Operator: string(r.Operator), Values: []string{r.Value}})
	}
	return terms
}

// Labels returns the same terms.
func Labels(requirements labels.Requirements) []authz.Requirement {
	var terms []authz.Requirement
	for _, r := range requirements {
		terms = append(terms, authz.Requirement{Key: r.Key(), Operator: string(r.Operator()), Values: r.ValuesUnsorted()})
	}
	return terms
}
