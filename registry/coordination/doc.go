// Package coordination has the kinds of the API group coordination.k8s.io: Lease, which serves leader election
// and the heartbeats of nodes. Its rules and messages are those of Kubernetes 1.37. A Kind is data without
// state, safe for concurrent use.
package coordination
