package admission

import (
	"context"
	"slices"
)

// Chain combines several plugins into one. Admit runs the mutators and Validate the validators, each in order;
// it skips plugins that do not handle the operation, and stops at the first error or when the context ends. If a
// Reinvoker asks for it, Admit runs all mutators a second time. The zero value admits everything.
type Chain []Plugin

var (
	_ Mutator   = Chain(nil)
	_ Validator = Chain(nil)
)

// Name implements Plugin.
func (c Chain) Name() string { return "Chain" }

// Handles implements Plugin: it reports whether any of the plugins handles the operation.
func (c Chain) Handles(op Operation) bool {
	return slices.ContainsFunc(c, func(p Plugin) bool { return p.Handles(op) })
}

// Admit implements Mutator. It changes r.Object in place, or replaces it.
func (c Chain) Admit(ctx context.Context, r *Request) error {
	var again map[int]Reinvocation // by the plugin's place
	needed := false
	err := c.mutate(ctx, r, func(i int, m Mutator) (err error) {
		first, ok := m.(Reinvoker)
		if !ok {
			return m.Admit(ctx, r)
		}
		if again == nil {
			again = make(map[int]Reinvocation, 1)
		}
		again[i], err = first.AdmitFirst(ctx, r)
		needed = needed || again[i].Needed
		return err
	})
	if err != nil || !needed {
		return err
	}
	return c.mutate(ctx, r, func(i int, m Mutator) error {
		if second := again[i].Again; second != nil {
			return second(ctx, r)
		}
		return m.Admit(ctx, r)
	})
}

// mutate is one pass of the mutators.
func (c Chain) mutate(ctx context.Context, r *Request, admit func(i int, m Mutator) error) error {
	for i, p := range c {
		if err := ctx.Err(); err != nil {
			return err
		}
		if m, ok := p.(Mutator); ok && p.Handles(r.Operation) {
			if err := admit(i, m); err != nil {
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

// MutatorFunc returns a Mutator that calls a function for requests of the given operations.
func MutatorFunc(name string, admit func(context.Context, *Request) error, operations ...Operation) Mutator {
	return &mutatorFunc{named{name, operations}, admit}
}

// ValidatorFunc returns a Validator that calls a function for requests of the given operations.
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
