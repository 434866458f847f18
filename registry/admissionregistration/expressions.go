package admissionregistration

import (
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The uses of expressions, and the types that they demand. All have the variables object, oldObject, request and
// namespaceObject; all but Message have authorizer.
const (
	Condition          = "match condition"     // bool; cannot use the policy's variables
	Variable           = "variable"            // any
	Validation         = "validation"          // bool
	Message            = "message"             // string
	AuditAnnotation    = "audit annotation"    // string or null
	ApplyConfiguration = "apply configuration" // Object
	JSONPatch          = "JSON patch"          // a list of JSONPatch
)

// Expression is an expression in CEL of a policy.
type Expression struct {
	Text string // in CEL
	// Use is one of the constants above.
	Use string
	// Name is that of a Variable.
	Name string
	// Params tells that the policy has parameters: the variable params exists.
	Params bool
	// Stored tells that the policy has had the expression before: a server accepts what it or a newer one has accepted, even
	// if it does not yet accept it in new policies.
	Stored bool
}

// Compiler compiles the expressions of one policy, and returns what is wrong with each for the client to read. An error that
// is a field.Error of the type field.ErrorTypeInternal is not the client's fault. Variables are compiled in order, before the expressions that may use
// them as variables.<name>.
type Compiler func(e Expression) error

// expressions compiles those of one policy.
type expressions struct {
	compile Compiler
	params  bool
}

// check compiles an expression; shown is its text in errors. stored are the expressions which the policy had before.
func (x expressions) check(e Expression, shown string, stored []string, path *field.Path) field.ErrorList {
	e.Params = x.params
	e.Stored = e.Stored || slices.Contains(stored, shown)
	return refusal(x.compile(e), shown, path)
}

// refusal returns a compiler's error about an expression.
func refusal(err error, shown string, path *field.Path) field.ErrorList {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*field.Error](err); ok && e.Type == field.ErrorTypeInternal {
		return field.ErrorList{field.InternalError(path, errors.New(e.Detail))}
	}
	return field.ErrorList{field.Invalid(path, shown, err.Error())}
}

// blank reports whether a text has nothing but space.
func blank(text string) bool { return strings.TrimSpace(text) == "" }

// noCompiler is the error for policies on a server without a compiler.
func noCompiler() field.ErrorList {
	return field.ErrorList{field.Forbidden(field.NewPath("spec"),
		"this server does not evaluate policies: it has no compiler for their expressions (CEL)")}
}
