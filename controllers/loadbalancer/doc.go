// Package loadbalancer gives services of type LoadBalancer addresses of given ranges, as a cloud's service-lb-controller
// does. Whoever answers at cluster IPs, such as package proxy, answers at these addresses, too; how packets get to a node
// is up to the network.
//
// A service gets an address of each of its IP families that has a range, or the spec's loadBalancerIP. It keeps them while
// it is of that type and class; of two services with the same address the older one does. Events have upstream's reasons:
// EnsuringLoadBalancer, EnsuredLoadBalancer, SyncLoadBalancerFailed, and, if the type has changed, DeletingLoadBalancer and
// DeletedLoadBalancer. Nothing but the service's status says which addresses are taken, so there is nothing to clean up
// and no finalizer.
//
// A Controller runs in a controllers.Loop; keys are services. Services for which there is no address are looked at again
// when one becomes free.
package loadbalancer
