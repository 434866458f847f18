// Package defaultingressclass is upstream's admission plugin DefaultIngressClass: it gives new Ingresses that name no class the
// class that is marked as the default. Of several it is the newest, and of those the first by name.
//
// # Errors
//
// An object of another type than its resource is an admission.ErrInternal; nothing else is refused. The cache must show every
// class that was acknowledged before a request.
//
// A Plugin has no state of its own and is safe for concurrent use.
package defaultingressclass
