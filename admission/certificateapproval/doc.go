// Package certificateapproval is upstream's admission plugin CertificateApproval: who approves or denies a
// CertificateSigningRequest must be allowed to approve for its signer, which is the verb approve on the resource signers of
// the group certificates.k8s.io.
//
// # Errors
//
// Other users, and objects of another type than their resource, get an admission.ErrForbidden.
//
// A Plugin is safe for concurrent use if its authorizer is.
package certificateapproval
