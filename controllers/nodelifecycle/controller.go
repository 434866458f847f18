package nodelifecycle

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
)

// Sources is what the controller reads.
type Sources struct {
	Nodes *informer.Informer[*corev1.Node]
	Pods  *informer.Informer[*corev1.Pod]
	// Leases needs only the leases of namespace kube-node-lease.
	Leases *informer.Informer[*coordinationv1.Lease]
}

// Client is what the controller needs of the server, as the service account node-controller: to read nodes and leases
// past the cache, to patch nodes, and to update the status of nodes and pods.
type Client interface {
	client.Getter
	client.Updater
	client.Patcher
}

// Options of a Controller. The zero value behaves as upstream.
type Options struct {
	// MonitorPeriod is how often all nodes are checked; 0 means 5 s.
	MonitorPeriod time.Duration
	// Grace is how long a node may be silent; 0 means 50 s.
	Grace time.Duration
	// StartupGrace is the same for a node that has no Ready condition yet; 0 means 60 s.
	StartupGrace time.Duration
	// EvictionRate is how many nodes of a healthy zone get a NoExecute taint per second; 0 means 0.1, negative none.
	EvictionRate float32
	// SecondaryEvictionRate is the same for a large unhealthy zone; 0 means 0.01, negative none. In a small unhealthy
	// zone no node is tainted.
	SecondaryEvictionRate float32
	// LargeZone is the number of nodes above which a zone is large; 0 means 50.
	LargeZone int
	// UnhealthyZone is the fraction of silent nodes, at least three of them, at which a zone becomes unhealthy; 0 means
	// 0.55.
	UnhealthyZone float32
	// Parallel is how many nodes are checked and written concurrently; 0 means 8. With 1 the order of requests is
	// always the same.
	Parallel int
	// Logger logs failed requests that will be retried; nil discards.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.MonitorPeriod = cmp.Or(o.MonitorPeriod, 5*time.Second)
	o.Grace = cmp.Or(o.Grace, 50*time.Second)
	o.StartupGrace = cmp.Or(o.StartupGrace, 60*time.Second)
	o.EvictionRate = max(cmp.Or(o.EvictionRate, 0.1), 0)
	o.SecondaryEvictionRate = max(cmp.Or(o.SecondaryEvictionRate, 0.01), 0)
	o.LargeZone = cmp.Or(o.LargeZone, 50)
	o.UnhealthyZone = cmp.Or(o.UnhealthyZone, 0.55)
	o.Parallel = cmp.Or(o.Parallel, 8)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Controller is the node-lifecycle-controller. Make one with New.
type Controller struct {
	in       Sources
	client   Client
	recorder events.Recorder
	options  Options
	log      *slog.Logger
	queue    controllers.Queue
	leases   leaseGate

	mu     sync.Mutex
	known  map[string]*corev1.Node // nodes registered with the controller, as they were at registration
	health map[string]health       // last known health of each node
	retry  map[string]bool         // nodes with pods that still have to be marked unready
	zones  map[string]*zone
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller. It adds an index to the informer of pods, which must not be running yet.
func New(in Sources, c Client, r events.Recorder, o Options) *Controller {
	pods.IndexByNode(in.Pods)
	o = o.withDefaults()
	return &Controller{
		in: in, client: c, recorder: r, options: o, log: o.Logger,
		known: map[string]*corev1.Node{}, health: map[string]health{}, retry: map[string]bool{}, zones: map[string]*zone{},
	}
}

// Name is "node-lifecycle-controller".
func (*Controller) Name() string { return "node-lifecycle-controller" }

// The controller's own keys, which are not valid names of nodes.
const (
	monitorKey = "(monitor)" // the check of all nodes
	taintKey   = "(taint)"   // NoExecute taints that are due or queued
)

// taintPeriod is how long after a check of the nodes, and how often while nodes are queued, NoExecute taints are
// written.
const taintPeriod = 100 * time.Millisecond

// firstLook is how long after the start the nodes are first checked; upstream takes that long to notice that its caches
// are in sync. By then nodes that start at the same time are registered, and checks do not coincide with heartbeats.
const firstLook = 100 * time.Millisecond

// Watch implements controllers.Controller.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	c.queue = q
	c.in.Nodes.AddHandler(informer.Handler[*corev1.Node]{
		Added:   func(node *corev1.Node) { q.Add(controllers.Key{Name: node.Name}) },
		Updated: func(_, node *corev1.Node) { q.Add(controllers.Key{Name: node.Name}) },
		Deleted: func(node *corev1.Node) { c.setRetry(node.Name, false) },
	})
	c.in.Pods.AddHandler(informer.Handler[*corev1.Pod]{
		Added: func(pod *corev1.Pod) {
			if pod.Spec.NodeName != "" {
				q.Add(controllers.KeyOf(pod))
			}
		},
		Updated: func(old, pod *corev1.Pod) {
			if pod.Spec.NodeName != old.Spec.NodeName {
				q.Add(controllers.KeyOf(pod))
			}
		},
	})
	c.in.Leases.AddHandler(informer.Handler[*coordinationv1.Lease]{
		Added:   c.leases.seen,
		Updated: func(_, lease *coordinationv1.Lease) { c.leases.seen(lease) },
		Deleted: c.leases.gone,
	})
	q.AddAfter(controllers.Key{Name: monitorKey}, firstLook)
	return []controllers.Synced{c.in.Leases, c.in.Nodes, c.in.Pods}
}

// Reconcile processes one node's taints and labels, a newly bound pod, the check of all nodes, or the queue of nodes to
// taint.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	switch {
	case key.Namespace != "":
		return controllers.Result{}, c.bound(ctx, key)
	case key.Name == monitorKey:
		c.monitor(ctx)
		return controllers.Result{RequeueAfter: c.options.MonitorPeriod}, nil
	case key.Name == taintKey:
		return controllers.Result{RequeueAfter: c.evict(ctx)}, nil
	}
	node, ok := c.in.Nodes.Get("", key.Name)
	if !ok {
		return controllers.Result{}, nil
	}
	add, remove := scheduleTaints(node)
	if err := c.swapTaints(ctx, node, add, remove); err != nil {
		return controllers.Result{}, err
	}
	return controllers.Result{}, c.reconcileLabels(ctx, node)
}

func (c *Controller) setRetry(node string, want bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if want {
		c.retry[node] = true
	} else {
		delete(c.retry, node)
	}
}

func (c *Controller) wantsRetry(node string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.retry[node]
}
