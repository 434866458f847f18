// Package pki is a cluster's certificate authority, kept in a directory or in memory, and the certificates it issues,
// for servers and clients.
//
// The directory is laid out as kubeadm's (https://kubernetes.io/docs/setup/best-practices/certificates/): ca.crt and
// ca.key, front-proxy-ca.crt and front-proxy-ca.key for the aggregation of APIs, and a .crt and .key for each stored certificate. Keys are ECDSA P-256 and their files are readable by their
// owner only. Missing files are created; an existing file that cannot be used is left alone, and reported as an error
// around ErrDamaged that names the file and what to do.
//
// An Authority is safe for concurrent use; a directory belongs to one process at a time.
package pki
