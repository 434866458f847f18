// Package reconciler runs a controllers.Controller under controller-runtime: its Reconcile becomes a
// reconcile.Reconciler, its Watch a source.Source.
//
// The queue, the workers and the retries, including their limits, are those of controller-runtime: the controller's
// controllers.Retrier is ignored. The caller runs the informers, for instance in a manager (see Runnable).
//
// This is the only package of controllers that imports controller-runtime.
package reconciler
