// Package coordination has the kinds of the API group coordination.k8s.io: Lease, by which
// components elect leaders and nodes tell that they are alive. Its rules are those of
// Kubernetes 1.37, in its words. A Kind is data without state, safe for concurrent use.
package coordination
