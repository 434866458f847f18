// Package custom has the rules of custom kinds: of those that CustomResourceDefinitions define. It is usable without a
// server, to check manifests or in tests, and makes the registry.Kind of a definition for servers.
//
// Read reads definitions from a file and New makes the kind of one of them, a Resource. Each of its versions decodes
// objects, prunes what the schema does not know, sets defaults, validates (the schema, formats, lists, CEL rules with
// ratcheting) and prepares writes; it has the scale subresource, the columns of tables and the selectable fields. The
// Resource converts between versions. Results, messages and field paths are those of Kubernetes 1.37, whose libraries
// interpret schemas and CEL; they make this package heavy.
//
// Schemas may come from strangers. The time and memory that they take are bounded by their size: their nesting is limited,
// CEL rules are limited in cost by upstream's limits, and rules are compiled only when an object first needs them.
// Everything is safe for concurrent use. Errors wrap the sentinels of this package; validation returns field errors.
//
// Conversions that a definition leaves to a webhook are made by a [Converter]; package review below calls the webhook.
package custom
