// Package volumes knows which nodes can have the volumes of a pod, reserves volumes for its claims, and has them bound.
//
// A Volumes follows claims, volumes, classes and what CSI drivers publish. The plugins of package plugins ask it: it
// implements upstream's rules for persistent volumes, so that the plugins are left with what is theirs, verdicts and
// events.
//
//   - Of examines a pod's claims once; Claims.Find then says for each node whether the bound volumes are reachable from
//     there, and which volumes the unbound claims could have.
//   - Reserve notes, in memory, that a node was chosen: the volumes found there are the claims', and claims for which a
//     volume has to be made carry the node's name. Later calls of Of see these states.
//   - Bind writes what was reserved and waits until the binder of volumes, or a provisioner, has done its part.
//   - Attached and Limits serve to count volumes by driver.
//
// Volumes of upstream's former plugins, such as AWS EBS, are those of the CSI driver that replaces them.
//
// # Errors
//
// Errors have upstream's texts; a missing object is an error of apimachinery's kind NotFound. ErrChanged means that a
// reservation came too late.
//
// # Concurrency
//
// All methods may be called from any goroutine, except that Reserve must not run beside itself: a second pod could get
// what the first was promised.
package volumes
