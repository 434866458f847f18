// Package podsecurity is upstream's admission plugin PodSecurity: pods must keep to the Pod Security
// Standard that their namespace names in its labels pod-security.kubernetes.io/enforce, audit and warn,
// and the same with -version: privileged, baseline or restricted, as of a version of Kubernetes or
// the latest.
//
// What breaks the level to enforce is refused; what breaks that of audit is noted in the audit log,
// that of warn is told to the client. Workloads, whose pods are made later, are noted and warned of
// and not refused. Labels that say nothing sensible are refused where they are set, and a namespace
// that is to enforce more than before warns of the pods in it that do not keep to it.
//
// The standards themselves, and their words, are upstream's, k8s.io/pod-security-admission. This
// package is the only one that is built from it, and from none of its clients and metrics; the checks
// are assembled at the first pod that needs them.
//
// # Errors
//
// New fails with ErrConfiguration. Refusals are an admission.ErrForbidden, bad labels an
// admission.ErrInvalid, and a pod whose namespace is not known an admission.ErrInternal.
//
// A Plugin may be used by many requests at once.
package podsecurity
