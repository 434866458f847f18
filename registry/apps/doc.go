// Package apps has the kinds of the API group apps: Deployment, ReplicaSet and
// ControllerRevision. Their rules are those of Kubernetes 1.37, in its words; those of the pod
// templates inside come from podspec. A Kind is data without state, safe for concurrent use.
package apps
