// Package security turns the security contexts of pods and containers into what a container
// runtime is told, and decides which pods a node refuses because it cannot or will not give them
// the security settings they ask for. Rules, defaults and messages are upstream's.
//
// A [Policy] is pure: it looks at objects and returns values. What it needs to know of the machine
// is gathered once by [Inspect]. The one thing that lasts is which users of the node belong to
// which pod; an [Allocator] keeps that, and hands it to whoever writes it down.
//
// What a container may do is decided by its own security context first, field by field, and by
// its pod's where it says nothing. Settings of Windows are ignored, and so is resizePolicy: neither
// says anything to a Linux runtime. Specs name no devices but those of volumes and plugins, so none
// are made here; a privileged container gets the host's from its runtime.
//
// # Errors
//
// The errors of Sandbox, Namespaces and Container are texts for people: the container cannot be
// configured (CreateContainerConfigError), and trying again helps only when the pod or its image
// has changed. A [Refusal] is final for its pod.
//
// A Policy and an Allocator are safe for concurrent use.
package security
