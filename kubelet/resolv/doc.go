// Package resolv decides how pods find names: it implements kubelet.Resolver, from a pod's DNS policy and
// configuration, the cluster's DNS and the node's resolv.conf, and has the rules by which pods get their
// hostnames and domains.
//
// # Errors and concurrency
//
// Limits that are exceeded, and a cluster without DNS, are warnings in upstream's words, each
// of which begins with the reason of its event. A resolv.conf that cannot be read or has a
// nameserver line without an address is an error. A Resolver is safe for concurrent use and reads
// the file each time, so that a change of it counts for pods from then on.
package resolv
