package rbac

import (
	"slices"
	"strings"
)

// aggregated is several errors, printed like upstream's aggregates: once each, in brackets if there are several.
type aggregated []error

// aggregate returns nil for no errors.
func aggregate(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return aggregated(errs)
}

func (a aggregated) Error() string {
	var messages []string
	for _, err := range a {
		if message := err.Error(); !slices.Contains(messages, message) {
			messages = append(messages, message)
		}
	}
	if len(messages) == 1 {
		return messages[0]
	}
	return "[" + strings.Join(messages, ", ") + "]"
}

func (a aggregated) Unwrap() []error { return a }
