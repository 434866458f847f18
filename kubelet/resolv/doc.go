// Package resolv decides how pods resolve names: it implements kubelet.Resolver from a pod's DNS policy and
// configuration, the cluster's DNS and the node's resolv.conf, and has the rules for pods' hostnames and domains.
//
// # Errors and concurrency
//
// Exceeded limits and a cluster without DNS are warnings in upstream's words, each of which begins with the reason of
// its event. A resolv.conf that cannot be read or has a nameserver line without an address is an error. A Resolver is
// safe for concurrent use and reads the file each time, so that changes apply to later pods.
package resolv
