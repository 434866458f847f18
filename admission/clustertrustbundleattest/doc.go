// Package clustertrustbundleattest is upstream's admission plugin ClusterTrustBundleAttest: who writes a ClusterTrustBundle of a
// signer must be allowed to attest for it, which is the verb attest on the resource signers of the group certificates.k8s.io.
// Owners and finalizers, which the garbage collector changes, are free.
//
// # Errors
//
// Other users, and objects of another type than their resource, get an admission.ErrForbidden.
//
// A Plugin is safe for concurrent use if its authorizer is.
package clustertrustbundleattest
