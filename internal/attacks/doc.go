// Package attacks has no code, only tests: attempts to get at a cluster that examples/cluster serves, from outside. Each has
// to be refused, may tell nothing of a secret, and may change nothing; the server has to go on serving others meanwhile.
package attacks
