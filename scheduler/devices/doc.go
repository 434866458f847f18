// Package devices knows which devices of the cluster are free, has them chosen for the resource claims of pods, and writes
// what was chosen (dynamic resource allocation with structured parameters, KEP-4381).
//
// A Devices follows claims, the slices of devices that drivers publish, device classes and taint rules. The plugin
// plugins.DynamicResources asks it:
//
//   - Of examines a pod's claims once; Claims.Find then says for each node which devices the claims could have there.
//   - Reserve notes, in memory, that a node was chosen: the devices found there are the claims', and later calls of Find
//     leave them alone.
//   - Bind writes the allocations, reserves the claims for the pod, and waits until the devices are ready.
//   - Release takes devices back that keep a pod from being placed.
//
// Which devices are chosen is up to an Allocator; that of package structured below is upstream's, which evaluates selectors
// in CEL.
//
// # Errors
//
// Errors have upstream's texts. Those that are a *scheduler.Refusal mean that the pod has to wait, all others that the
// attempt failed. ErrNotReady and ErrBindTimeout are about devices that a driver has to prepare before a pod is bound.
//
// # Concurrency
//
// All methods may be called from any goroutine, except that Reserve must not run beside itself: a second pod could get
// what the first was promised.
package devices
