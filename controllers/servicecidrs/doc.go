// Package servicecidrs protects the networks of cluster IPs, like the service-cidr-controller of kube-controller-manager
// (KEP-1880).
//
// It gives each ServiceCIDR a finalizer and the condition Ready. One that is deleted keeps the finalizer while there are
// addresses of services that no other ServiceCIDR contains, and says so in its condition; then for another ten seconds, in
// which servers that have not learned of the deletion may still allocate from it.
//
// A Controller runs in a controllers.Loop; keys are the names of ServiceCIDRs. Failed requests are retried.
package servicecidrs
