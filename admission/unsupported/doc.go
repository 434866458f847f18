// Package unsupported is an admission plugin that upstream does not have: it warns of preferences in pods and
// pod templates that nothing implements yet. The pods run all the same, but perhaps not where they would prefer
// to. Unsupported requirements are refused elsewhere.
//
// # Errors
//
// There are none: the plugin refuses nothing.
//
// A Plugin is safe for concurrent use.
package unsupported
