// Package reconciler runs a controllers.Controller under controller-runtime: its Reconcile as a
// reconcile.Reconciler, its Watch as a source.Source.
//
// The queue, the workers and the retries are controller-runtime's then, and so are their limits: a
// controller's own controllers.Retrier is not asked. Informers have to be run by somebody, such as
// a manager (see Runnable).
//
// This is the only package of controllers that imports controller-runtime.
package reconciler
