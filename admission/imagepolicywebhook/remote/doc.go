// Package remote asks a backend of the admission plugin ImagePolicyWebhook over HTTPS: it posts ImageReviews
// (imagepolicy.k8s.io/v1alpha1) in JSON.
//
// What may pass is tried again up to four times, with growing pauses: the backend's statuses 429, 500 and 504, any answer with a
// Retry-After header, and connections that break. Answers are bounded in size. A Backend is safe for concurrent use.
package remote
