// Package environment makes the environment variables of containers: it implements
// kubelet.Environment.
//
// A container gets what envFrom names, then what env says, which may refer to variables before it
// with $(NAME), then the addresses of services, where nothing else has the name. Expand
// resolves the same references in commands and arguments.
//
// # Errors and concurrency
//
// A reference that leads nowhere is an error in upstream's words, unless it is optional; objects
// that cannot be read give the error of their source. An Environment is safe for concurrent use
// when its sources are, starts no goroutines and keeps nothing. The functions are pure.
package environment
