// Package podcertificates obtains the certificates of pods for projected volumes (KEP-4317): it makes a key, asks for a
// certificate by a PodCertificateRequest, waits until a signer has issued it, and replaces it when the signer says so.
//
// Who asks has the certificate's turn: nothing happens between calls of [Certificates.Certificate], and each one says when
// the next is due. Keys are in memory alone; a new process asks for new certificates, while volumes keep the old ones.
// A request that a signer has denied or failed is final for the pod.
//
// # Errors and concurrency
//
// [ErrPending] is the error until there is a certificate, [ErrRefused] once there will be none. A certificate in use stays
// in use, even past its end, while its successor is on the way. A Certificates is safe for concurrent use, and has no
// goroutines.
package podcertificates
