// Package security translates the security contexts of pods and containers into a container runtime's settings, and
// decides which pods a node rejects because it cannot or will not give them the settings that they request. Rules,
// defaults and messages are upstream's.
//
// A [Policy] does no I/O: it reads objects and returns values. [Inspect] gathers once what it needs to know about the
// machine. The only state is which user IDs of the node belong to which pod; an [Allocator] holds it, and passes it to
// a function that saves it.
//
// Each field of a container's own security context takes precedence over its pod's. Windows settings are ignored, and
// so is resizePolicy: neither means anything to a Linux runtime. Specs name no devices except those of volumes and
// plugins, so none are created here; a privileged container gets the host's from its runtime.
//
// # Errors
//
// The errors of Sandbox, Namespaces and Container are texts for people: the container cannot be configured
// (CreateContainerConfigError), and retrying helps only if the pod or its image has changed. A [Refusal] is final for
// its pod.
//
// A Policy and an Allocator are safe for concurrent use.
package security
