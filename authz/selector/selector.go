// Package selector converts field and label selectors into the terms that authorizers read (authz.Attributes). Its
// functions are pure.
package selector

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/authz"
)

// Limits of a selector: the number of terms, and the total number of values. Each object of a list is compared with
// each term until one does not match, and a term with each of its values. A request line has room for a hundred
// thousand values, which with ten thousand objects makes a billion comparisons.
const (
	MaxTerms  = 1000
	MaxValues = 10000
)

// ErrTooLong: the selector has more than MaxTerms terms or MaxValues values.
var ErrTooLong = errors.New("selector is too long")

// Check reports whether the text of a label or field selector is within the limits. It may still fail to parse.
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

// Fields converts parsed field requirements.
func Fields(requirements fields.Requirements) []authz.Requirement {
	var terms []authz.Requirement
	for _, r := range requirements {
		terms = append(terms, authz.Requirement{Key: r.Field, Operator: string(r.Operator), Values: []string{r.Value}})
	}
	return terms
}

// Labels converts parsed label requirements.
func Labels(requirements labels.Requirements) []authz.Requirement {
	var terms []authz.Requirement
	for _, r := range requirements {
		terms = append(terms, authz.Requirement{Key: r.Key(), Operator: string(r.Operator()), Values: r.ValuesUnsorted()})
	}
	return terms
}
