// Package remote runs components against any API server, given a rest.Config, like kube-controller-manager and
// kube-scheduler: each process on its own, with leader election if there may be several.
//
//	m, err := remote.New(config, scheme.Scheme, controllermanager.Components(), remote.Options{})
//	err = m.Run(ctx)
//
// All components act as the user of the config, unless Options.As gives each its own. Which resources the server
// stores is discovered when the process starts to lead, and twice a minute from then on; when a namespace is deleted, it is
// discovered anew.
//
// # Errors
//
// Run fails if discovery fails or the server lacks a resource that a component reads, if a component fails, and with
// leaderelection.ErrLost if another process takes over the lead. Everything else is retried.
package remote
