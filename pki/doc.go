// Package pki is a cluster's certificate authority, kept in a directory or in memory, and the
// certificates it issues: a server's, and those by which clients say who they are.
//
// The directory is laid out as kubeadm's (https://kubernetes.io/docs/setup/best-practices/certificates/):
// ca.crt and ca.key, and a .crt and .key for each certificate that is kept. Keys are ECDSA P-256 and their
// files are readable by their owner alone. What is missing is made; what is there and cannot be used is an
// error around ErrDamaged that names the file and what to do, and is left as it is.
//
// An Authority is safe for concurrent use; a directory belongs to one process at a time.
package pki
