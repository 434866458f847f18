// Package quota is the arithmetic of resource quotas: an object's usage, the quotas that apply to it, and whether it
// fits. It does no I/O: admission uses it to charge writes, and a controller to count what exists.
//
// Arguments are not modified, and everything here is safe for concurrent use.
package quota
