// Package alwaysadmit is upstream's admission plugin AlwaysAdmit: it lets everything pass. Upstream has deprecated it; it is here for
// configurations that name it.
package alwaysadmit

import (
	"context"

	"github.com/keelson-dev/keelson/admission"
)

// Name is the plugin's name.
const Name = "AlwaysAdmit"

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
func (*Plugin) Admit(context.Context, *admission.Request) error { return nil }

// Validate implements admission.Validator.
func (*Plugin) Validate(context.Context, *admission.Request) error { return nil }
