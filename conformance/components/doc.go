// Package components runs what others wrote for Kubernetes against examples/cluster, unchanged: the
// scheduler and the controller manager that conformance/upstream pins, in the place of keelson's, and a
// program made with controller-runtime. It holds tests only, and is a module of its own because the first run
// builds the programs, which takes minutes:
//
//	go test ./...
package components
