package scheduler

import "slices"

// Plugin is an element of a Profile. The other interfaces that it implements define what it does: Predicate,
// with Preparer, Gate and Hinter; Priority, with ScorePreparer and Normalizer; and Local beside either. One
// type may have several roles, as most of upstream's plugins do.
//
// Implementations must be safe for concurrent use.
type Plugin interface {
	// Name returns a constant name that is unique in a profile. Messages, events and decisions use it.
	Name() string
}

// Enabled is a plugin of a Profile, in all its roles unless the fields say otherwise.
type Enabled struct {
	Plugin Plugin
	// Weight multiplies the plugin's normalised scores. A Priority of weight 0 is not called; that is for
	// plugins that have another role, too.
	Weight int64
	// PriorityOnly restricts the plugin to its role as a Priority.
	PriorityOnly bool
	// Without are roles that it does not have, although it could.
	Without Roles
}

// Roles are parts of a plugin in a profile; they combine. The weight says whether it is a Priority.
type Roles uint16

// The roles. A predicate without RolePredicate but with RolePreparer refuses pods as a whole and names eligible nodes, but
// checks none.
const (
	RoleGate Roles = 1 << iota
	RolePreparer
	RolePredicate // or Winnower
	RolePreemptor
	RoleReserver
	RolePermitter
	RolePreBinder
	RoleBinder
	RolePostBinder
)

// has reports whether the plugin has a role, if it can have it.
func (e *Enabled) has(role Roles) bool { return !e.PriorityOnly && e.Without&role == 0 }

// With returns a copy of plugins in which each of others replaces the plugin of the same name, or is appended
// if there is none.
func With(plugins []Enabled, others ...Enabled) []Enabled {
	plugins = slices.Clone(plugins)
	for _, other := range others {
		i := slices.IndexFunc(plugins, func(e Enabled) bool { return e.Plugin.Name() == other.Plugin.Name() })
		if i < 0 {
			plugins = append(plugins, other)
		} else {
			plugins[i] = other
		}
	}
	return plugins
}

// Without returns a copy of plugins without those of the given names.
func Without(plugins []Enabled, names ...string) []Enabled {
	return slices.DeleteFunc(slices.Clone(plugins), func(e Enabled) bool { return slices.Contains(names, e.Plugin.Name()) })
}
