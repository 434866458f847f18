// Package leaderelection ensures that only one of several processes runs something at a time: the holder of a Lease
// (coordination.k8s.io/v1). The Lease is written as by client-go's leader election, so candidates of both kinds can
// compete for it.
//
// Time is measured locally from when a change of the Lease was seen, never by other machines' clocks. An Elector tries
// to take the Lease every two seconds; a Lease that has not changed for its duration, 15 seconds, is free. The holder
// renews it every two seconds and steps down if it fails to for ten. Delays are random only if Options.Jitter is set.
//
// What is led runs with a context that ends with the leadership, and Run returns only after it has returned: nil if the
// caller's context ended, ErrLost if the Lease was lost, or its own error if it failed. An Elector runs once; its methods
// are safe for concurrent use.
package leaderelection
