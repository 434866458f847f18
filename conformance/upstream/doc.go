// Package upstream pins programs of Kubernetes that tests and benchmarks run beside keelson, at one version: the API
// server, the scheduler, the controller manager, the kubelet, the proxy, kubectl and the conformance suite. It is a module of its
// own and does not depend on keelson: the programs are built with upstream's versions of all dependencies. The module's
// published parts replace those that k8s.io/kubernetes names by path.
//
// internal/upstream builds them.
package upstream

// The suite is a test binary: go test -c k8s.io/kubernetes/test/e2e. The programs are tools in go.mod.
import _ "k8s.io/kubernetes/test/e2e"
