package check

import (
	"context"

	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Declared returns the errors of two kinds of rules as upstream does: those that it has written out, and those that it
// declares on the types of the API. Where both refuse something, the words of the declaration replace the others, if those
// are marked as covered and of the same origin.
func Declared(written, declared field.ErrorList) field.ErrorList {
	declared = declared.MarkBeta()
	return append(validate.FilterCoveredHandwrittenErrors(context.Background(), written, declared, true), declared...)
}
