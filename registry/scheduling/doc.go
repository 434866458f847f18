// Package scheduling has the kinds of the API group scheduling.k8s.io: PriorityClass, and the
// two classes that every cluster has. Their rules are those of Kubernetes 1.37, in its words.
// The two classes cannot be deleted, by themselves or with others.
// That at most one class is the global default is a matter of admission, not of the kind.
// A Kind is data without state, safe for concurrent use.
package scheduling
