package nodeipam

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	netutils "k8s.io/utils/net"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
)

// Sources are what the controller reads.
type Sources struct {
	Nodes *informer.Informer[*corev1.Node]
}

// Options of a Controller.
type Options struct {
	// Networks are those of all pods (--cluster-cidr): one, or one of each IP family. Required.
	Networks []netip.Prefix
	// BitsIPv4 and BitsIPv6 are the lengths of the nodes' networks; 0 stands for 24 and 64.
	BitsIPv4, BitsIPv6 int
	// Services are the networks of services, which no node gets.
	Services []netip.Prefix
}

// Controller is the node-ipam-controller. Make one with New.
type Controller struct {
	in       Sources
	client   client.Patcher
	recorder events.Recorder
	services []netip.Prefix

	mu     sync.Mutex // guards the rest
	queue  controllers.Queue
	ranges []*Range
	// given are networks by the names of nodes that the cache may show without them.
	given map[string][]netip.Prefix
	// waiting are nodes for which there was no network.
	waiting map[string]bool
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller. The client acts as the service account node-controller. It fails if the networks are not one, or
// one of each IP family, and with ErrRange.
func New(in Sources, c client.Patcher, r events.Recorder, o Options) (*Controller, error) {
	n := &Controller{
		in: in, client: c, recorder: r, services: slices.Clone(o.Services), given: map[string][]netip.Prefix{}, waiting: map[string]bool{},
	}
	if len(o.Networks) == 0 || len(o.Networks) > 2 || len(o.Networks) == 2 && o.Networks[0].Addr().Is4() == o.Networks[1].Addr().Is4() {
		return nil, fmt.Errorf("networks of pods %v: one is needed, or one of each IP family", o.Networks)
	}
	for _, network := range o.Networks {
		bits := cmp.Or(o.BitsIPv4, 24)
		if network.Addr().Is6() {
			bits = cmp.Or(o.BitsIPv6, 64)
		}
		split, err := NewRange(network, bits)
		if err != nil {
			return nil, err
		}
		n.ranges = append(n.ranges, split)
	}
	n.reserve()
	return n, nil
}

// Name is "node-ipam-controller".
func (*Controller) Name() string { return "node-ipam-controller" }

// Watch takes the networks that nodes have before any is given, enqueues nodes that change, and frees the networks of deleted ones.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	c.queue = q
	c.in.Nodes.AddHandler(informer.Handler[*corev1.Node]{
		Added: func(node *corev1.Node) {
			_ = c.occupy(node) // Reconcile reports it
			q.Add(controllers.KeyOf(node))
		},
		Updated: func(old, node *corev1.Node) {
			if !slices.Equal(old.Spec.PodCIDRs, node.Spec.PodCIDRs) {
				if len(old.Spec.PodCIDRs) > 0 { // it is another node of that name
					c.release(old)
				}
				_ = c.occupy(node)
			}
			q.Add(controllers.KeyOf(node))
		},
		Deleted: func(node *corev1.Node) {
			c.release(node)
		},
	})
	return []controllers.Synced{c.in.Nodes}
}

// Reconcile gives a node networks, or checks those that it has.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	node, ok := c.in.Nodes.Get("", key.Name)
	switch {
	case !ok, node.DeletionTimestamp != nil:
		return controllers.Result{}, nil
	case len(node.Spec.PodCIDRs) > 0:
		return controllers.Result{}, c.occupy(node)
	}
	networks, err := c.take(node.Name)
	switch {
	case err != nil:
		c.report(node, "CIDRNotAvailable")
		return controllers.Result{}, err
	case networks == nil:
		return controllers.Result{}, nil
	}
	return controllers.Result{}, c.assign(ctx, node, networks)
}

// known reports whether a node is there. While the caller holds the lock, what it takes for such a node is freed with it.
func (c *Controller) known(name string) bool {
	_, ok := c.in.Nodes.Get("", name)
	return ok
}

// take reserves networks for a node, or returns those that it has reserved already, or none if the node is gone.
func (c *Controller) take(name string) ([]netip.Prefix, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known(name) {
		return nil, nil
	}
	if networks, ok := c.given[name]; ok {
		return networks, nil
	}
	networks := make([]netip.Prefix, 0, len(c.ranges))
	for i, r := range c.ranges {
		network, err := r.Next()
		if err != nil {
			c.free(networks)
			c.waiting[name] = true
			return nil, fmt.Errorf("failed to allocate cidr from cluster cidr at idx:%d: %w", i, err)
		}
		networks = append(networks, network)
	}
	c.given[name] = networks
	return networks, nil
}

// attempts is how often a node is patched before the assignment is said to have failed.
const attempts = 3

// assign writes the networks into the node.
func (c *Controller) assign(ctx context.Context, node *corev1.Node, networks []netip.Prefix) error {
	type spec struct {
		PodCIDR  string   `json:"podCIDR"`
		PodCIDRs []string `json:"podCIDRs"`
	}
	all := texts(networks)
	data, err := json.Marshal(map[string]spec{"spec": {all[0], all}})
	if err != nil {
		return err
	}
	at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("nodes"), Name: node.Name}
	for range attempts {
		_, err = c.client.Patch(ctx, at, client.Patch{Type: types.StrategicMergePatchType, Data: data}, metav1.PatchOptions{})
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case apierrors.IsNotFound(err):
			return nil
		}
	}
	c.report(node, "CIDRAssignmentFailed")
	return fmt.Errorf("failed to patch node CIDR: %w", err)
}

// occupy takes the networks that a node has, and frees others that were reserved for it.
func (c *Controller) occupy(node *corev1.Node) error {
	if len(node.Spec.PodCIDRs) == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known(node.Name) {
		return nil
	}
	err := c.hold(node)
	if given, ok := c.given[node.Name]; ok {
		delete(c.given, node.Name)
		if !slices.Equal(texts(given), node.Spec.PodCIDRs) {
			c.free(given)
		}
	}
	return err
}

// hold takes the networks of a node; the caller holds the lock.
func (c *Controller) hold(node *corev1.Node) error {
	for i, text := range node.Spec.PodCIDRs {
		network, ok := parse(text)
		if !ok {
			return fmt.Errorf("failed to parse node %s, CIDR %s", node.Name, text)
		}
		if i >= len(c.ranges) {
			return fmt.Errorf("node:%s has an allocated cidr: %v at index:%v that does not exist in cluster cidrs configuration", node.Name, text, i)
		}
		if err := c.ranges[i].Occupy(network); err != nil {
			return fmt.Errorf("failed to mark cidr[%v] at idx [%v] as occupied for node: %v: %w", network, i, node.Name, err)
		}
	}
	return nil
}

// release frees the networks of a node that is gone, and enqueues the nodes that wait for some.
func (c *Controller) release(node *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gone := slices.Clone(c.given[node.Name])
	delete(c.given, node.Name)
	for _, text := range node.Spec.PodCIDRs {
		if network, ok := parse(text); ok {
			gone = append(gone, network)
		}
	}
	c.free(gone)
	for name := range c.waiting {
		c.queue.Add(controllers.Key{Name: name})
	}
	clear(c.waiting)
}

// free frees networks, except for what others have; the caller holds the lock.
func (c *Controller) free(networks []netip.Prefix) {
	for _, network := range networks {
		for _, r := range c.ranges {
			_ = r.Release(network) // of the other family, or never taken
		}
	}
	c.reserve()
	for _, others := range c.given {
		for i, network := range others {
			_ = c.ranges[i].Occupy(network)
		}
	}
	for _, node := range c.in.Nodes.List("") {
		_ = c.hold(node) // Reconcile has reported it
	}
}

// reserve takes the networks of services.
func (c *Controller) reserve() {
	for _, network := range c.services {
		for _, r := range c.ranges {
			_ = r.Occupy(network) // it may be elsewhere
		}
	}
}

func (c *Controller) report(node *corev1.Node, reason string) {
	c.recorder.Record(events.Event{
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
		Type:      corev1.EventTypeNormal, Reason: reason, Message: fmt.Sprintf("Node %s status is now: %s", node.Name, reason),
	})
}

func texts(networks []netip.Prefix) (all []string) {
	for _, n := range networks {
		all = append(all, n.String())
	}
	return all
}

// parse reads a network as the API server does, which still takes leading zeros.
func parse(text string) (netip.Prefix, bool) {
	_, network, err := netutils.ParseCIDRSloppy(text)
	if err != nil {
		return netip.Prefix{}, false
	}
	address, ok := netip.AddrFromSlice(network.IP)
	bits, _ := network.Mask.Size()
	return netip.PrefixFrom(address, bits), ok
}
