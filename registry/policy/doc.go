// Package policy has the kinds of the API group policy: PodDisruptionBudget. Its rules and messages are those
// of Kubernetes 1.37. (Eviction, of the same group, is a subresource of pods.) A Kind is data without state,
// safe for concurrent use.
package policy
