// Package admissionregistration has the kinds of the API group admissionregistration.k8s.io that configure
// admission webhooks: MutatingWebhookConfiguration and ValidatingWebhookConfiguration, in v1. Its rules and
// messages are those of Kubernetes 1.37. Objects that older servers stored as v1beta1 are read.
//
// Match conditions are expressions in CEL. Compiling them takes large libraries, so the package reaches them by
// a function, Options.Compile; without it, webhooks with match conditions are refused.
//
// A Kind is data without state, safe for concurrent use if Options.Compile is.
package admissionregistration
