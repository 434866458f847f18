// Package selector turns field and label selectors into the terms that authorizers judge
// (authz.Attributes), as a filter before an authorizer needs it. Functions are pure.
package selector

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/authz"
)

// Limits of a selector: how many terms it has, and how many values all of them together. Each object of a list is
// compared with each term until one does not fit, and a term with each of its values: a request line has room
// for a hundred thousand, which together with ten thousand objects are a billion comparisons.
const (
	MaxTerms  = 1000
	MaxValues = 10000
)

// ErrTooLong: the selector has more than MaxTerms terms or MaxValues values.
var ErrTooLong = errors.New("selector is too long")

// Check tells whether a selector's text, of labels or of fields, is within the limits; whether it parses is
// another matter.
func Check(raw string) error {
	terms, values, depth := 1, 0, 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '(':
			depth++
			values++
		case ')':
			depth--
		case ',':
			if depth > 0 {
				values++
			} else {
				terms++
			}
		}
	}
	switch {
	case terms > MaxTerms:
		return fmt.Errorf("%w: it has %d terms, at most %d are allowed", ErrTooLong, terms, MaxTerms)
	case values > MaxValues:
		return fmt.Errorf("%w: it has %d values, at most %d are allowed", ErrTooLong, values, MaxValues)
	}
	return nil
}

// ParseFields returns the terms of a field selector such as "spec.nodeName=n1". A selector that
// does not parse or is too long has none.
func ParseFields(raw string) ([]authz.Requirement, error) {
	if err := Check(raw); err != nil {
		return nil, err
	}
	selector, err := fields.ParseSelector(raw)
	if err != nil {
		return nil, err
	}
	return Fields(selector.Requirements()), nil
}

// ParseLabels returns the terms of a label selector such as "app in (a, b), !old". A selector
// that does not parse or is too long has none.
func ParseLabels(raw string) ([]authz.Requirement, error) {
	if err := Check(raw); err != nil {
		return nil, err
	}
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
