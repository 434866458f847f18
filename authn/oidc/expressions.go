package oidc

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/keelson-dev/keelson/authn"
)

// Compiler compiles expressions in CEL. Package cel below has one. Implementations are safe for concurrent use.
type Compiler interface {
	// Claims compiles an expression over the variable claims; a condition must be boolean. The error says what is wrong with the
	// expression, in upstream's words.
	Claims(expression string, condition bool) (Expression, error)
	// User compiles a condition on the variable user.
	User(expression string) (Expression, error)
}

// Expression is a compiled expression. Implementations are safe for concurrent use.
type Expression interface {
	// Evaluate returns a string, a bool, a []any for a list, nil for null, or something else for everything else.
	Evaluate(ctx context.Context, on Variables) (any, error)
	// Selects reports whether the expression reads a field of the variable claims.
	Selects(field string) bool
}

// Variables are what expressions read: one of the two is set.
type Variables struct {
	Claims Claims          // the variable claims
	User   *authn.Identity // the variable user
}

// Claims are the claims of a token by name.
type Claims map[string]json.RawMessage

var errAbsent = errors.New("claim not present")

// decode decodes a claim.
func (c Claims) decode(name string, into any) error {
	text, ok := c[name]
	if !ok {
		return errAbsent
	}
	return json.Unmarshal(text, into)
}

// errNoCompiler is what is wrong with each expression where there is no Compiler.
var errNoCompiler = errors.New("expressions are not supported here")

type noCompiler struct{}

func (noCompiler) Claims(string, bool) (Expression, error) { return nil, errNoCompiler }
func (noCompiler) User(string) (Expression, error)         { return nil, errNoCompiler }
