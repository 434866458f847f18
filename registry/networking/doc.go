// Package networking has the kinds of the API group networking.k8s.io: Ingress, IngressClass and
// NetworkPolicy, and IPAddress and ServiceCIDR, by which cluster IPs are given out (KEP-1880), with
// the ServiceCIDR that every cluster has. Their rules are those of Kubernetes 1.37, in its words. A
// Kind is data without state, safe for concurrent use.
package networking
