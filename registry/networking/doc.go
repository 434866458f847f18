// Package networking has kinds of the API group networking.k8s.io: IPAddress and ServiceCIDR,
// by which cluster IPs are given out (KEP-1880), and the ServiceCIDR that every cluster has. Their
// rules are those of Kubernetes 1.37, in its words. A Kind is data without state, safe for
// concurrent use.
package networking
