// Package cluster is the assembly: options in, a running control plane and nodes out, in this
// process, without sockets. A test starts one in milliseconds, many beside each other, and
// inside a testing/synctest bubble in virtual time.
//
// Start brings up an API server over storage, RBAC and upstream's admission plugins with
// upstream's default policy, the controllers, the scheduler and simulated nodes, and returns
// once a pod can be created. Config leads client-go and controller-runtime to it; every
// component is such a client too, under the identity and the role that upstream gives it.
// Close ends it all and leaves no goroutine behind.
//
// A Cluster is safe for concurrent use.
package cluster
