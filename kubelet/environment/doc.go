// Package environment makes the environment variables of containers: it implements
// kubelet.Environment.
//
// A container gets the variables of envFrom, then those of env, which may refer to earlier variables with $(NAME), then
// the addresses of services, unless another variable has the name. Package expansion resolves such references, also in
// commands and arguments; package downward reads the fields of a pod and the resources of a container for variables and
// files.
//
// # Errors and concurrency
//
// A reference to something missing is an error in upstream's words, unless it is optional; for objects that cannot be
// read, the error is that of their source. An Environment is safe for concurrent use if its sources are, starts no
// goroutines and keeps no state. The functions are pure.
package environment
