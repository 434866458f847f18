// Package quota is the arithmetic of resource quotas: what an object takes of one, which quotas
// it falls under, and whether it fits. It is pure: admission charges by it what is about to be
// written, and a controller counts by it what was.
//
// Objects that are handed in are not changed, and everything here may be used concurrently.
package quota
