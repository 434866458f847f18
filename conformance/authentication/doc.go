// Package authentication compares keelson's authenticators with upstream's: both must accept random service account
// tokens, ID tokens and client certificates as the same identities, or refuse them for the same reasons, and find the
// same mistakes in random configurations of issuers. Issued tokens must be
// equal byte for byte except for the signature, and so must the documents by which others verify them.
//
// It is a module of its own, because it depends on k8s.io/kubernetes and replaces the versions of the published
// modules; nothing imports it. Its version is the newest available from the module proxy. Run it in this directory:
//
//	go test .                                # 20,000 tokens, 2,000 certificates
//	go test . -requests 1000000 -seed 7      # more, and others
package authentication
