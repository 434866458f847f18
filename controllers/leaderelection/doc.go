// Package leaderelection lets one of several processes run something at a time: the one that holds
// a Lease (coordination.k8s.io/v1). Its records are those of client-go's leader election, so that
// both kinds can stand for the same office.
//
// Time is measured from when a change of the Lease was seen, never by other people's clocks. An
// Elector tries every two seconds to take the Lease; a Lease that has not changed for as long as
// it was given for, 15 seconds, is free. The holder renews it every two seconds and steps down when
// it could not for ten. The delays have no randomness unless it is passed in.
//
// What is led runs with a context that ends with the leadership, and Run returns only when it has
// returned: with nil when the caller's context ended, with ErrLost when the Lease was lost, with
// its own error when it failed. An Elector is run once; its methods are safe for concurrent use.
package leaderelection
