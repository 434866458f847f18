// Package check has the basic checks that the rules of many kinds share: names, numbers, addresses,
// percentages. Each returns field errors with the messages of the Kubernetes API server, or none; none panics
// or changes its arguments.
package check
