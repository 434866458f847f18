// Package expressions adapts authorizers and users of this module, and results, to upstream's library for expressions in CEL, for the
// packages that evaluate them in admission. It is safe for concurrent use.
package expressions
