// Package v1alpha1 has the kind InitializerConfiguration of the API group admissionregistration.k8s.io, which Kubernetes had
// from 1.7 to 1.13: it names the initializers of new objects. Its form, rules and messages are upstream's of 1.13; of its Go
// types, k8s.io/api has nothing any more. Package admission/initializers acts by it.
//
// A Kind is data without state, safe for concurrent use.
package v1alpha1
