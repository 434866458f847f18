// Package certificates has the kinds of the API group certificates.k8s.io: CertificateSigningRequest, ClusterTrustBundle and
// PodCertificateRequest. Their rules and messages are those of Kubernetes 1.37, which serves all of them as v1.
//
// Bundles and requests of pods are stored as v1beta1, which servers of 1.36 can read.
//
// The kinds refuse objects with field errors. A status of a PodCertificateRequest is written by who may sign for its signer,
// which an authz.Authorizer decides, and is an error of the registry otherwise. Requests cannot be approved and signed by
// whoever may write them only with the admission plugins CertificateApproval and CertificateSigning.
//
// A Kind is data without state, safe for concurrent use.
package certificates
