// Package registry has the kinds of the API and the cache that serves them.
//
// A Kind declares a resource: its names, how it decodes and the rules for its writes. The packages below hold
// upstream's kinds, a package per API group: core, admissionregistration, apiextensions, apiregistration, apps,
// authentication, authorization, autoscaling, batch, certificates, coordination, discovery, flowcontrol, metrics,
// networking, node, policy, rbac, resource, scheduling, storage, storagemigration; custom makes the kinds that
// CustomResourceDefinitions define. Package codec encodes and decodes,
// allocation assigns cluster IPs and node ports, kubernetesservice maintains the service of the API itself. Package
// request interprets requests and status translates errors for clients, both for servers and for direct, a client
// without a server; registrytest tests a kind.
//
// A Registry caches the decoded objects of all its kinds over a storage.Store: every object is decoded once and
// shared by all readers, its encodings are kept once a reader has asked for them, and one revision clock orders
// all changes. Reads are served from memory; a read sees every write that was acknowledged before it began. Old
// states can be listed and changes watched as far back as Options.History, Options.HistoryBytes and
// Options.Compaction allow, even across a restart if the store has kept the changes (storage.Historian).
//
// Kinds can be installed, replaced and removed while the registry runs (Install, Remove); servers and clients
// over it follow.
//
// Options.Initialization hides objects until others have completed them: then all readers see them at once.
//
// Several registries, in one process or in many, may share one store. Each follows all changes with one watch.
// A consistent read asks the store for its revision and waits until the registry has reached it; a refused
// write is retried if the registry was behind. A record that cannot be read is an error of its own: reads of it
// fail; lists omit it and warn.
//
// Objects handed out are shared and must not be changed. Errors about a request are of type *Error, which wraps
// a sentinel of this package; all others mean that the registry or its store failed. Everything is safe for
// concurrent use.
package registry
