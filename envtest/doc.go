// Package envtest has the shape of controller-runtime's package of the same name, and runs the control plane in the process of
// the test: there are no programs to download, and it starts in milliseconds. To move a suite, change one import line:
//
//	import "github.com/keelson-dev/keelson/envtest" // instead of sigs.k8s.io/controller-runtime/pkg/envtest
//
// [Environment] has upstream's fields and methods; those about programs (BinaryAssetsDirectory and so on) are accepted and do
// nothing. CustomResourceDefinitions and webhooks are installed by upstream's own code; admission policies and APIServices work,
// too. As there, no controllers run and there are no nodes; [Environment.Components] and [Environment.Nodes] add them. Pods on
// these nodes run in name only, but have logs and answer exec, attach and port-forward: as the test scripts them.
//
// The API server listens on the loopback interface with TLS, and users have client certificates, so that whatever makes a
// client from the returned rest.Config or from KubeConfig works. In a testing/synctest bubble, where there is no network, set
// [Environment.InProcess]; client-go's exec, attach and port-forward then need the Dial of [Environment.Cluster].
//
// # Differences from upstream
//
// No environment variable is read. ControlPlane cannot be configured: APIServer and Etcd describe programs.
package envtest
