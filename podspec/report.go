package podspec

import (
	"maps"
	"slices"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	notPositive   = "must be greater than zero"
	fileModeError = "must be a number between 0 and 0777 (octal), both inclusive"
)

// report collects errors in the order in which they are found. Value arguments keep their API type, because messages
// print a named string type as JSON.
type report struct {
	errs field.ErrorList
}

func (r *report) add(errs ...*field.Error) { r.errs = append(r.errs, errs...) }

func (r *report) required(p *field.Path, detail string) { r.add(field.Required(p, detail)) }

func (r *report) forbidden(p *field.Path, detail string) { r.add(field.Forbidden(p, detail)) }

func (r *report) duplicate(p *field.Path, value any) { r.add(field.Duplicate(p, value)) }

func (r *report) notFound(p *field.Path, value any) { r.add(field.NotFound(p, value)) }

// invalid adds one error per message.
func (r *report) invalid(p *field.Path, value any, messages ...string) {
	for _, m := range messages {
		r.add(field.Invalid(p, value, m))
	}
}

// need adds an error if a required string is empty, and reports whether it is set.
func (r *report) need(p *field.Path, value string) bool {
	if value == "" {
		r.required(p, "")
	}
	return value != ""
}

func (r *report) label(p *field.Path, value string) {
	r.invalid(p, value, validation.IsDNS1123Label(value)...)
}

func (r *report) subdomain(p *field.Path, value string) {
	r.invalid(p, value, validation.IsDNS1123Subdomain(value)...)
}

// name validates an object name that is a DNS subdomain; a prefix may end in a dash.
func (r *report) name(p *field.Path, value string, prefix bool) {
	r.invalid(p, value, apivalidation.NameIsDNSSubdomain(value, prefix)...)
}

func (r *report) qualifiedName(p *field.Path, value string) {
	r.invalid(p, value, validation.IsQualifiedName(value)...)
}

func (r *report) nonNegative(p *field.Path, value int64) {
	r.add(apivalidation.ValidateNonnegativeField(value, p)...)
}

func (r *report) fileMode(p *field.Path, mode *int32) {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		r.invalid(p, *mode, fileModeError)
	}
}

func (r *report) userID(p *field.Path, id *int64) {
	if id != nil {
		r.invalid(p, *id, validation.IsValidUserID(*id)...)
	}
}

func (r *report) groupID(p *field.Path, id *int64) {
	if id != nil {
		r.invalid(p, *id, validation.IsValidGroupID(*id)...)
	}
}

// oneOf adds an error if value is not allowed; the message lists the allowed values in the given order.
func oneOf[T ~string](r *report, p *field.Path, value T, allowed ...T) {
	if !slices.Contains(allowed, value) {
		r.add(field.NotSupported(p, value, allowed))
	}
}

// oneOfRequired is oneOf for a field that must be set.
func oneOfRequired[T ~string](r *report, p *field.Path, value T, allowed ...T) {
	if r.need(p, string(value)) {
		oneOf(r, p, value, allowed...)
	}
}

// sorted returns the keys of a map in order, which makes the order of messages reproducible.
func sorted[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
