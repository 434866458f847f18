// Package kinds compares keelson's kinds, except for the rules of pod specs, with those of the Kubernetes API server:
// their defaults, how they prepare a create or an update, and their errors and the order of these. It makes random
// changes to valid objects.
package kinds
