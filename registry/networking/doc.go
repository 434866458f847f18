// Package networking has the kinds of the API group networking.k8s.io: Ingress, IngressClass and NetworkPolicy,
// and IPAddress and ServiceCIDR, by which cluster IPs are allocated (KEP-1880), with the default ServiceCIDR.
// Their rules and messages are those of Kubernetes 1.37. A Kind is data without state, safe for concurrent use.
package networking
