// Package components runs what others wrote for Kubernetes against examples/cluster, unchanged: the
// scheduler, the controller manager and the kubelet that conformance/upstream pins, in the place of keelson's, and a
// program made with controller-runtime. The other way round it runs keelson's scheduler, controllers and kubelet, as
// examples have them, against upstream's API server. It holds tests only, and is a module of its own because the first run
// builds the programs, which takes minutes:
//
//	go test ./...
package components
