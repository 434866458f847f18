// Package certificatesubjectrestriction is upstream's admission plugin CertificateSubjectRestriction: nobody can ask the signer
// kubernetes.io/kube-apiserver-client for a certificate of the group system:masters, who may do anything.
//
// # Errors
//
// Such a request, and one that cannot be read, is an admission.ErrForbidden.
//
// A Plugin keeps no state and is safe for concurrent use.
package certificatesubjectrestriction
