// Package check has the small judgements that the rules of many kinds share: names, numbers,
// addresses, percentages. Each returns field errors in the words of the Kubernetes API server,
// or none; none panics or changes its arguments.
package check
