// Package disruption is upstream's disruption-controller: it keeps the status of every
// PodDisruptionBudget (KEP-85), by which the eviction subresource decides whether one more pod
// may go.
//
// Two controllers work side by side: Controller counts the pods of each budget, and
// StaleTargets takes back the DisruptionTarget condition (KEP-3329) of pods that were to go but
// stayed. Both act as the service account disruption-controller, with upstream's permissions:
//
//	budgets := controllers.NewLoop(disruption.New(sources, client, recorder, disruption.Options{}), controllers.Options{})
//	targets := controllers.NewLoop(disruption.NewStaleTargets(sources.Pods, client), controllers.Options{})
//
// How many pods a budget expects follows from the scale of the pods' controllers: Deployments
// and ReplicaSets are read from caches, others by their scale subresource, as far as
// Options.Served knows them. What cannot be counted stops all evictions: the budget's condition
// DisruptionAllowed is then False with reason SyncFailed and the error as its message.
//
// Errors of Reconcile are conflicts and failed writes, to be retried. The controllers start no
// goroutines and are safe for concurrent use by the workers of a Loop.
package disruption
