// Package imagepolicywebhook is upstream's admission plugin ImagePolicyWebhook: it asks a backend by an ImageReview
// (imagepolicy.k8s.io/v1alpha1) whether the images of a pod may run, when a pod is created or updated and when it gets an ephemeral
// container. Package remote asks over HTTPS.
//
// Answers are kept for a time that Options name. Annotations of the pod whose keys contain ".image-policy.k8s.io/" are shown to
// the backend, which may use them to break the glass.
//
// # Errors
//
// A pod whose images are denied is an admission.ErrForbidden with the backend's reason, and so is one about which the backend cannot
// be asked, unless Options.FailOpen is set: then it is admitted, and the audit log says so. Upstream also annotates the pod, in
// a step that validates; here such steps change nothing.
//
// A Plugin is safe for concurrent use. It keeps 1024 answers at most.
package imagepolicywebhook
