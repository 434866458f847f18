// Package upstream pins programs of Kubernetes that tests run against keelson, at one version: the
// scheduler, the controller manager, kubectl and the conformance suite. It is a module of its own and
// does not know keelson, so that the programs are built from upstream's versions of everything; the
// module's published parts replace those that k8s.io/kubernetes names by path. The version is the newest
// that the module proxy hands out. It lacks the versions of etcd's client and of sample-apiserver that
// belong to it, so these two are newer.
//
// conformance/components and conformance/e2e build from it.
package upstream

// The suite is a test binary: go test -c k8s.io/kubernetes/test/e2e. The programs are tools in go.mod.
import _ "k8s.io/kubernetes/test/e2e"
