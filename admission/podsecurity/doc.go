// Package podsecurity is upstream's admission plugin PodSecurity: pods must comply with the Pod Security
// Standard that their namespace names in its labels pod-security.kubernetes.io/enforce, audit and warn, and the
// same with -version: privileged, baseline or restricted, as of a version of Kubernetes or the latest.
//
// Pods that violate the level of enforce are refused; violations of audit are recorded in the audit log, those
// of warn are warnings for the client. Workloads, whose pods are created later, are recorded and warned of but
// not refused. Invalid labels are refused where they are set, and a namespace whose enforced level rises gets
// warnings about its pods that violate it.
//
// The standards and their messages are upstream's, k8s.io/pod-security-admission. Only this package depends on
// it, and on none of its clients and metrics; the checks are built for the first pod that needs them.
//
// # Errors
//
// New fails with ErrConfiguration. Refusals are an admission.ErrForbidden, invalid labels an
// admission.ErrInvalid, and a pod whose namespace is unknown an admission.ErrInternal.
//
// A Plugin is safe for concurrent use.
package podsecurity
