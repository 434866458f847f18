// Package ephemeral is upstream's ephemeral-volume-controller: for every generic ephemeral volume of a pod (KEP-1698) it creates
// the claim that the volume's template describes, named after the pod and the volume and owned by the pod, and creates it again
// when it is deleted while the pod lives. The garbage collector deletes claims with their pods.
//
// A claim of that name that belongs to something else is left alone, and the pod cannot start. This and failed creations are
// told in an event about the pod, returned by Reconcile and retried. A Controller starts no goroutines and is safe for
// concurrent use by the workers of a Loop.
package ephemeral
