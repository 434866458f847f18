// Package load reads the objects on which scheduling depends, from any client of an API server or from YAML, for what-if
// questions: Snapshot returns the nodes and the pods on them, Pending the pods without a node, and Plugins gives a profile's
// plugins what they read besides: namespaces, services and workloads, disruption budgets, and volumes.
//
//	all, err := load.Read(ctx, client)
//	profile := scheduler.Profile{Plugins: all.Plugins(plugins.Default())}
//	world, err := whatif.New(all.Snapshot(), profile)
//
// Objects of other kinds make no difference and are left out; deployments and other workloads count only by the pods that they have.
// Devices are not read: pods with resource claims are refused.
//
// # Errors
//
// Read fails with the client's errors, except that a kind that the server does not have has no objects. Decode and Add fail for
// what is no object, and for two of one kind and name.
//
// # Concurrency
//
// Add must not run beside other methods. Otherwise an Objects may be used by many goroutines.
package load
