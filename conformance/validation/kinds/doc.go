// Package kinds compares the kinds of keelson, but for the rules of pod specs, with those of
// the API server of Kubernetes: what they default, how they prepare a create or an update, and
// what they refuse in which words and order. It changes good objects at random.
package kinds
