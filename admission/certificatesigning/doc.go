// Package certificatesigning is upstream's admission plugin CertificateSigning: who changes the certificate or the conditions
// of a CertificateSigningRequest through its status must be allowed to sign for its signer, which is the verb sign on the
// resource signers of the group certificates.k8s.io.
//
// # Errors
//
// Other users, and objects of another type than their resource, get an admission.ErrForbidden.
//
// A Plugin is safe for concurrent use if its authorizer is.
package certificatesigning
