// Package admissionregistration has the kinds of the API group admissionregistration.k8s.io, in v1: Kinds are those that
// configure admission webhooks, MutatingWebhookConfiguration and ValidatingWebhookConfiguration; PolicyKinds are
// ValidatingAdmissionPolicy, MutatingAdmissionPolicy and their bindings. Its rules and messages are those of Kubernetes 1.37.
// Objects that older servers stored as v1beta1, and policies that they stored as v1alpha1, are read. Package v1alpha1 has
// InitializerConfiguration, which Kubernetes had once.
//
// Match conditions and the rules of policies are expressions in CEL. Compiling them takes large libraries, so the package reaches
// them by functions, Options.Compile and PolicyOptions.Compiler; without them, objects with such expressions are refused.
//
// A Kind is data without state, safe for concurrent use if the functions of its options are.
package admissionregistration
