// Package scheduling has the kinds of the API group scheduling.k8s.io: PriorityClass, and the two system
// classes of every cluster. Their rules and messages are those of Kubernetes 1.37. The two system classes
// cannot be deleted, neither alone nor in a collection. Admission, not the kind, ensures that at most one class
// is the global default. A Kind is data without state, safe for concurrent use.
package scheduling
