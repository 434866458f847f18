package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/events/publish"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/inmemory"
	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/objects"
	simulatedvolumes "github.com/keelson-dev/keelson/kubelet/volume/simulated"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/node"
	"github.com/keelson-dev/keelson/registry"
)

// maxNodes is the number of pod networks of 254 addresses in 10.64.0.0/10.
const maxNodes = 1 << 14

// nodes are a cluster's nodes, by number.
type nodes struct {
	all   []*Node
	ready *nodesReady
}

// Node is one node, which is simulated unless Nodes.Run runs it. It is safe for concurrent use.
type Node struct {
	name    string
	cluster *Cluster
	runtime *simulated.Runtime
	cidr    netip.Prefix
	// volumes are those of a simulated node's pods. Like containers, they outlive its kubelet.
	volumes *simulatedvolumes.Volumes
	// services is nil for simulated nodes.
	services *informer.Informer[*corev1.Service]

	mu     sync.Mutex
	server *inmemory.Server   // of the running kubelet; nil while none runs
	latest latest             // of the kubelet
	want   bool               // whether the kubelet should run
	change chan struct{}      // closed when want changes
	stop   context.CancelFunc // stops the running kubelet
	idle   chan struct{}      // closed while no kubelet runs
}

// Node returns the simulated node of that name, or ErrUnknownNode.
func (c *Cluster) Node(name string) (*Node, error) {
	for _, n := range c.nodes.all {
		if n.name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("%w %q: there are %d, from node-0 on", ErrUnknownNode, name, len(c.nodes.all))
}

// Name returns the node's name.
func (n *Node) Name() string { return n.name }

// Runtime returns the node's container runtime, with every container's state.
func (n *Node) Runtime() *simulated.Runtime { return n.runtime }

// Stop silences the node, like a crash of its kubelet or a network failure: its containers keep running, but nothing is
// reported about them. It returns when the kubelet has ended.
func (n *Node) Stop() {
	n.set(false)
	n.mu.Lock()
	idle := n.idle
	n.mu.Unlock()
	<-idle
}

// Start brings a stopped node back; its kubelet picks up the containers that are still running.
func (n *Node) Start() { n.set(true) }

func (n *Node) set(want bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.want == want {
		return
	}
	n.want = want
	close(n.change)
	n.change = make(chan struct{})
	if !want && n.stop != nil {
		n.stop()
	}
}

func (c *Cluster) addNodes() error {
	var services *informer.Informer[*corev1.Service]
	if c.options.Nodes.Run != nil {
		services = component.Informer[*corev1.Service](c.informers, corev1.SchemeGroupVersion.WithResource("services"))
		if err := c.informers.Err(); err != nil {
			return err
		}
	}
	for i := range c.options.Nodes.Count {
		n := c.newNode(i)
		n.services = services
		c.nodes.all = append(c.nodes.all, n)
		c.parts = append(c.parts, lifecycle.Func(n.run))
	}
	return c.followNodes()
}

func (c *Cluster) newNode(i int) *Node {
	name := fmt.Sprintf("node-%d", i)
	network := c.options.Nodes.network().Addr().As4()
	cidr := netip.PrefixFrom(netip.AddrFrom4([4]byte{network[0], network[1] + byte(i>>8), network[2] + byte(i), 0}), 24)
	var o simulated.Options
	if c.options.Nodes.Runtime != nil {
		o = c.options.Nodes.Runtime(name)
	}
	if !o.Addresses.IsValid() {
		o.Addresses = cidr
	}
	idle := make(chan struct{})
	close(idle)
	n := &Node{name: name, cluster: c, runtime: simulated.New(o), cidr: cidr, want: true, change: make(chan struct{}), idle: idle}
	n.volumes = n.newVolumes()
	return n
}

// run runs the node's kubelet whenever it should run, until the context ends.
func (n *Node) run(ctx context.Context) error {
	defer n.runtime.Close()
	for {
		n.mu.Lock()
		want, change := n.want, n.change
		kubeletCtx, cancel := context.WithCancel(ctx)
		if want {
			n.stop, n.idle = cancel, make(chan struct{})
		}
		idle := n.idle
		n.mu.Unlock()
		if want {
			err := n.kubelet(kubeletCtx)
			cancel()
			close(idle)
			if err != nil || ctx.Err() != nil {
				return err
			}
			continue
		}
		cancel()
		select {
		case <-change:
		case <-ctx.Done():
			return nil
		}
	}
}

// kubelet runs the kubelet until it is stopped.
func (n *Node) kubelet(ctx context.Context) error {
	c := n.cluster
	api, err := c.clientOf(authn.NodeIdentity(n.name), "kubelet")
	if err != nil {
		return err
	}
	pods, err := private[*corev1.Pod](c, coreResource("pods"), registry.Selection{
		Fields: fields.OneTermEqualSelector("spec.nodeName", n.name),
	})
	if err != nil {
		return err
	}
	self, err := private[*corev1.Node](c, coreResource("nodes"), registry.Selection{
		Fields: fields.OneTermEqualSelector("metadata.name", n.name),
	})
	if err != nil {
		return err
	}
	recorder := publish.New(api, publish.Options{Component: "kubelet", Host: n.name, Logger: c.log, Grace: -1})
	if run := c.options.Nodes.Run; run != nil {
		parts := node.Parts{
			Name: n.name, PodCIDRs: []netip.Prefix{n.cidr}, Client: api, Recorder: recorder, Pods: pods, Node: self, Services: n.services,
			Watches: objects.Watches{
				ConfigMap: single[*corev1.ConfigMap](c.registry, "configmaps"), Secret: single[*corev1.Secret](c.registry, "secrets"),
			},
			Capacity: c.options.Nodes.Capacity.DeepCopy(), Authenticator: c.authn, Authorizer: c.access.Authorizer,
		}
		return lifecycle.Group(pods, self, recorder, lifecycle.Func(func(ctx context.Context) error {
			return run(ctx, parts)
		})).Run(ctx)
	}
	n.readWith(api, self)
	o := n.options()
	k, err := kubelet.New(kubelet.Sources{Pods: pods, Nodes: self}, api, n.runtime, recorder, o)
	if err != nil {
		return err
	}
	defer n.serve(k, o)()
	return lifecycle.Group(pods, self, recorder, k).Run(ctx)
}

// single returns a function that makes sources of single objects of a resource.
func single[T informer.Object](r *registry.Registry, resource string) func(namespace, name string) (informer.Source[T], error) {
	return func(namespace, name string) (informer.Source[T], error) {
		return registry.Source[T](r, coreResource(resource), registry.Selection{
			Namespace: namespace, Fields: fields.OneTermEqualSelector("metadata.name", name),
		})
	}
}

func (n *Node) options() kubelet.Options {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}}
	node.Status.Capacity = n.cluster.options.Nodes.Capacity.DeepCopy()
	if prepare := n.cluster.options.Nodes.Prepare; prepare != nil {
		prepare(node)
	}
	return kubelet.Options{
		NodeName: n.name,
		Registration: kubelet.Registration{
			Labels: node.Labels, Taints: node.Spec.Taints, Capacity: node.Status.Capacity,
			PodCIDRs: []string{n.cidr.String()},
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: n.cidr.Addr().Next().String()},
				{Type: corev1.NodeHostName, Address: n.name},
			},
		},
		Host:   kubelet.Host{Volumes: n.volumes, Devices: kubelet.DevicesInName()},
		Logger: n.cluster.log,
	}
}

// WaitNodes blocks until all simulated nodes are registered and ready, no longer have the taint of new nodes, and the
// scheduler knows it. Without the node-lifecycle-controller, which removes that taint, the taint is ignored. It fails
// if ctx or the cluster ends first.
func (c *Cluster) WaitNodes(ctx context.Context) error {
	for {
		change, missing := c.nodes.ready.missing()
		select {
		case <-c.life.done:
			return ErrClosed
		default:
		}
		if missing == nil {
			return nil
		}
		select {
		case <-change:
		case <-c.life.done:
			return fmt.Errorf("%w: %w", missing, ErrClosed)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", missing, ctx.Err())
		}
	}
}

// nodesReady records which of the simulated nodes are ready, as known to the scheduler: handlers are called in the
// order in which they were added, and this one comes after the scheduler's.
type nodesReady struct {
	mu     sync.Mutex
	ready  map[string]bool // every node has an entry
	change chan struct{}   // closed when ready changes
}

func (c *Cluster) followNodes() error {
	r := &nodesReady{ready: map[string]bool{}, change: make(chan struct{})}
	for _, n := range c.nodes.all {
		r.ready[n.name] = false
	}
	c.nodes.ready = r
	if len(c.nodes.all) == 0 {
		return nil
	}
	nodes := component.Informer[*corev1.Node](c.informers, corev1.SchemeGroupVersion.WithResource("nodes"))
	if err := c.informers.Err(); err != nil {
		return err
	}
	open := isReady
	if c.has("node-lifecycle-controller") {
		open = func(node *corev1.Node) bool { return isReady(node) && !isNew(node) }
	}
	nodes.AddHandler(informer.Handler[*corev1.Node]{
		Added:   func(node *corev1.Node) { r.set(node.Name, open(node)) },
		Updated: func(_, node *corev1.Node) { r.set(node.Name, open(node)) },
		Deleted: func(node *corev1.Node) { r.set(node.Name, false) },
	})
	return nil
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// isNew reports whether a node still has the taint with which it was created.
func isNew(node *corev1.Node) bool {
	taint := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	return slices.ContainsFunc(node.Spec.Taints, func(had corev1.Taint) bool { return had.MatchTaint(&taint) })
}

func (r *nodesReady) set(name string, ready bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if was, ours := r.ready[name]; !ours || was == ready {
		return
	}
	r.ready[name] = ready
	close(r.change)
	r.change = make(chan struct{})
}

// missing returns an error that names nodes that are not ready, and a channel that is closed at the next change.
func (r *nodesReady) missing() (change <-chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for name, ready := range r.ready {
		if !ready {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	slices.Sort(names)
	return r.change, fmt.Errorf("%d of %d nodes are not ready, %s first", len(names), len(r.ready), names[0])
}
