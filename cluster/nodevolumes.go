package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/kubelet/volume/claims"
	"github.com/keelson-dev/keelson/kubelet/volume/simulated"
)

// latest is what the newest kubelet of a node reads with.
type latest struct {
	api  client.Getter
	self *informer.Informer[*corev1.Node]
}

// readWith passes on what a new kubelet reads with.
func (n *Node) readWith(api client.Getter, self *informer.Informer[*corev1.Node]) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.latest = latest{api, self}
}

// asNode reads objects as the node.
type asNode struct{ node *Node }

func (a asNode) Get(ctx context.Context, t client.Target) (runtime.Object, error) {
	a.node.mu.Lock()
	api := a.node.latest.api
	a.node.mu.Unlock()
	return api.Get(ctx, t)
}

func (n *Node) newVolumes() *simulated.Volumes {
	o := simulated.Options{Labels: n.labels}
	if mount := n.cluster.options.Nodes.Mount; mount != nil {
		o.Mount = func(ctx context.Context, m claims.Mount) error { return mount(ctx, n.name, m) }
	}
	return simulated.New(claims.ReaderOf(asNode{n}), o)
}

func (n *Node) labels() map[string]string {
	n.mu.Lock()
	self := n.latest.self
	n.mu.Unlock()
	if node, ok := self.Get("", n.name); ok {
		return node.Labels
	}
	return nil
}

// Volumes returns the volumes of a simulated node's pods.
func (n *Node) Volumes() *simulated.Volumes { return n.volumes }
