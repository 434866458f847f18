// Package disruption is upstream's disruption-controller: it keeps the status of every PodDisruptionBudget (KEP-85), by
// which the eviction subresource decides whether one more pod may be evicted.
//
// Two controllers work side by side: Controller counts the pods of each budget, and StaleTargets resets the
// DisruptionTarget condition (KEP-3329) of pods that were to be deleted but were not. Both act as the service account
// disruption-controller, with upstream's permissions:
//
//	budgets := controllers.NewLoop(disruption.New(sources, client, recorder, disruption.Options{}), controllers.Options{})
//	targets := controllers.NewLoop(disruption.NewStaleTargets(sources.Pods, client), controllers.Options{})
//
// How many pods a budget expects follows from the scale of the pods' controllers: Deployments and ReplicaSets are read
// from caches, others through their scale subresource, if Options.Served knows them. If a budget's pods cannot be
// counted, all evictions stop: its condition DisruptionAllowed is then False with reason SyncFailed and the error as
// its message.
//
// Reconcile returns conflicts and failed writes, which are retried. The controllers start no goroutines and are safe
// for concurrent use by the workers of a Loop.
package disruption
