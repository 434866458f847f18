// Package remote runs components against any API server that a rest.Config leads to, as kube-controller-manager and
// kube-scheduler are run: each process for itself, with leader election where there may be several.
//
//	m, err := remote.New(config, scheme.Scheme, controllermanager.Components(), remote.Options{})
//	err = m.Run(ctx)
//
// All components act as who the config says, unless Options.As gives each its own way. What the server stores is asked
// for once, when the process starts to lead.
//
// # Errors
//
// Run fails when the server cannot be asked what it serves or lacks a resource that a component reads, when a component
// fails, and with leaderelection.ErrLost when another process leads. Otherwise it tries on.
package remote
