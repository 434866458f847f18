// Package resourceclaim is upstream's resourceclaim-controller. It creates the claims that pods ask for by template and writes
// their names to the status of the pods, reserves allocated claims for pods that were bound without the scheduler, and takes
// finished and deleted pods out of the reservations of claims. A claim that nobody uses any more is deallocated if this control
// plane has allocated it, and deleted if it was made for a pod.
//
// Failed creations are told in an event about the pod, returned by Reconcile and retried. Decisions are functions of what the
// caches show; a pod that they do not show is looked for in the API before its reservation ends. A Controller starts no
// goroutines and is safe for concurrent use by the workers of a Loop.
package resourceclaim
