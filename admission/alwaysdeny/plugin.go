// Package alwaysdeny is upstream's admission plugin AlwaysDeny: it refuses every write, for tests of what a program does then.
//
// # Errors
//
// Every request is an admission.ErrForbidden.
package alwaysdeny

import (
	"context"

	"github.com/keelson-dev/keelson/admission"
)

// Name is the plugin's name.
const Name = "AlwaysDeny"

// Plugin is the admission plugin. Make one with New. It is safe for concurrent use.
type Plugin struct{}

var (
	_ admission.Mutator   = (*Plugin)(nil)
	_ admission.Validator = (*Plugin)(nil)
)

// New returns the plugin.
func New() *Plugin { return &Plugin{} }

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(admission.Operation) bool { return true }

// Admit implements admission.Mutator.
func (*Plugin) Admit(_ context.Context, r *admission.Request) error {
	return admission.Forbidden(r, "admission control is denying all modifications")
}

// Validate implements admission.Validator.
func (p *Plugin) Validate(ctx context.Context, r *admission.Request) error { return p.Admit(ctx, r) }
