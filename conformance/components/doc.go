// Package components runs unmodified third-party components with examples/cluster: the scheduler, the controller
// manager, the kubelet and the service proxy that conformance/upstream pins, in place of keelson's, and a program made
// with controller-runtime. Conversely, it runs keelson's scheduler, controllers and kubelet, as in the examples, and its
// service proxy against upstream's API server. It has only tests, and is a module of its own because the first run
// builds the programs, which takes minutes:
//
//	go test ./...
package components
