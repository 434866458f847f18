package admission

import (
	"context"
	"slices"
)

// Chain is several plugins as one. Admit runs the mutators and Validate the validators, each in
// order; plugins that do not handle the operation are left out, and the first error ends it, as the end of the
// context does.
// The zero value admits everything.
type Chain []Plugin

var (
	_ Mutator   = Chain(nil)
	_ Validator = Chain(nil)
)

// Name implements Plugin.
func (c Chain) Name() string { return "Chain" }

// Handles implements Plugin: whatever one of the plugins handles.
func (c Chain) Handles(op Operation) bool {
	return slices.ContainsFunc(c, func(p Plugin) bool { return p.Handles(op) })
}

// Admit implements Mutator. It changes r.Object in place.
func (c Chain) Admit(ctx context.Context, r *Request) error {
	for _, p := range c {
		if err := ctx.Err(); err != nil {
			return err
		}
		if m, ok := p.(Mutator); ok && p.Handles(r.Operation) {
			if err := m.Admit(ctx, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// Validate implements Validator.
func (c Chain) Validate(ctx context.Context, r *Request) error {
	for _, p := range c {
		if err := ctx.Err(); err != nil {
			return err
		}
		if v, ok := p.(Validator); ok && p.Handles(r.Operation) {
			if err := v.Validate(ctx, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// MutatorFunc is a Mutator made of a function that sees requests of the given operations.
func MutatorFunc(name string, admit func(context.Context, *Request) error, operations ...Operation) Mutator {
	return &mutatorFunc{named{name, operations}, admit}
}

// ValidatorFunc is a Validator made of a function that sees requests of the given operations.
func ValidatorFunc(name string, validate func(context.Context, *Request) error, operations ...Operation) Validator {
	return &validatorFunc{named{name, operations}, validate}
}

type named struct {
	name       string
	operations []Operation
}

func (n named) Name() string              { return n.name }
func (n named) Handles(op Operation) bool { return slices.Contains(n.operations, op) }

type mutatorFunc struct {
	named
	admit func(context.Context, *Request) error
}

func (f *mutatorFunc) Admit(ctx context.Context, r *Request) error { return f.admit(ctx, r) }

type validatorFunc struct {
	named
	validate func(context.Context, *Request) error
}

func (f *validatorFunc) Validate(ctx context.Context, r *Request) error { return f.validate(ctx, r) }
