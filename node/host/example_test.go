package host_test

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/client/kubeconfig"
	"github.com/keelson-dev/keelson/cri/remote"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/node/host"
	noderemote "github.com/keelson-dev/keelson/node/remote"
)

// A node over the containerd that a machine has, in the cluster of a kubeconfig.
func Example() {
	access, err := kubeconfig.Load(kubeconfig.Options{Path: "/etc/kubernetes/kubelet.conf"})
	if err != nil {
		fmt.Println(err)
		return
	}
	runtime, err := remote.New("unix:///run/containerd/containerd.sock", remote.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer runtime.Close()
	parts, sources, err := noderemote.New(access.Config, scheme.Scheme, "node-1", noderemote.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	node, err := host.New(parts, runtime, host.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lifecycle.Group(sources, node).Run(context.Background()))
}
