// Package certificates keeps a node's own certificates: it requests them by CertificateSigningRequests, keeps them in files
// and replaces them before they end.
//
// [ForClient] describes the certificate by which a node is known to the API server, which the cluster approves by itself for a
// bootstrap token's holder and for the node, and [ForServer] that of the node's own server, which somebody has to approve.
// The API server's clients of k8s.io/client-go read the first again when its file changes; a tls.Config takes the second
// from [Certificate.Current].
//
// A certificate is replaced when 70 to 90 % of its life are over, as upstream's kubelet does it, so that the nodes that came
// together do not return together; and at once when what it should say has changed, such as the node's addresses.
//
// # Errors and concurrency
//
// Run goes on whatever fails, with a back-off, and logs it; the certificate in use stays in use. [ErrNone] means that there is
// none. A Certificate is safe for concurrent use; its file holds the key, and only its owner may read it.
package certificates
