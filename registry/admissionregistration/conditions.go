package admissionregistration

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry/internal/check"
)

// maxConditions is the maximum number of match conditions of a webhook.
const maxConditions = 64

// conditions are the rules of match conditions.
type conditions struct {
	compile   func(expression string, stored bool) error // nil: nothing compiles
	unchanged bool                                       // all webhooks have the conditions they had before, which stay valid
	stored    []string                                   // the expressions that the configuration had before
}

func (c conditions) validate(list []admissionv1.MatchCondition, path *field.Path) field.ErrorList {
	if c.unchanged || len(list) == 0 {
		return nil
	}
	if c.compile == nil {
		return field.ErrorList{field.Forbidden(path, "this server does not evaluate match conditions: it has no compiler for their expressions (CEL)")}
	}
	var errs field.ErrorList
	if len(list) > maxConditions {
		errs = append(errs, field.TooMany(path, len(list), maxConditions))
	}
	seen := map[string]bool{}
	for i, condition := range list {
		path := path.Index(i)
		errs = append(errs, c.expression(condition.Expression, path.Child("expression"))...)
		if condition.Name == "" {
			errs = append(errs, field.Required(path.Child("name"), ""))
			continue
		}
		errs = append(errs, check.QualifiedName(path.Child("name"), condition.Name)...)
		if seen[condition.Name] {
			errs = append(errs, field.Duplicate(path.Child("name"), condition.Name))
		}
		seen[condition.Name] = true
	}
	return errs
}

func (c conditions) expression(text string, path *field.Path) field.ErrorList {
	text = strings.TrimSpace(text)
	if text == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return refusal(c.compile(text, slices.Contains(c.stored, text)), text, path)
}
