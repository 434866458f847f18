package attachdetach

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
)

// Sources are what the controller reads.
type Sources struct {
	Pods        *informer.Informer[*corev1.Pod]
	Nodes       *informer.Informer[*corev1.Node]
	Claims      *informer.Informer[*corev1.PersistentVolumeClaim]
	Volumes     *informer.Informer[*corev1.PersistentVolume]
	Drivers     *informer.Informer[*storagev1.CSIDriver]
	Attachments *informer.Informer[*storagev1.VolumeAttachment]
}

// Client is what the controller needs of the server, as the service account attachdetach-controller: to read nodes past
// the cache, to patch their status, and to create and delete volume attachments.
//
//nolint:interfacebloat // composed of narrow ones
type Client interface {
	client.Getter
	client.Creator
	client.Patcher
	client.Deleter
}

// Controller is the persistentvolume-attach-detach-controller. Make one with New.
type Controller struct {
	in       Sources
	client   Client
	recorder events.Recorder
	memory   map[place]trial

	mu      sync.Mutex
	written map[string]*corev1.Node // by the controller itself, as long as the cache is behind
	gone    map[string]host         // nodes that were deleted, with the volumes that they used
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller. It adds an index to the informer of pods.
func New(in Sources, c Client, r events.Recorder) *Controller {
	pods.IndexByClaim(in.Pods)
	return &Controller{
		in: in, client: c, recorder: r, memory: map[place]trial{}, written: map[string]*corev1.Node{}, gone: map[string]host{},
	}
}

// Name is "persistentvolume-attach-detach-controller".
func (*Controller) Name() string { return "persistentvolume-attach-detach-controller" }

func nodes() schema.GroupVersionResource { return corev1.SchemeGroupVersion.WithResource("nodes") }

// all is the only key: volumes, nodes and pods are looked at together, soon after one of them changes.
func all() controllers.Key { return controllers.Key{Name: "(all)"} }

const soon = 10 * time.Millisecond

// Watch enqueues a look at everything when something changes that matters.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	changed := func() { q.AddAfter(all(), soon) }
	c.in.Pods.AddHandler(informer.Handler[*corev1.Pod]{
		Added: func(pod *corev1.Pod) {
			if needs(pod) {
				changed()
			}
		},
		Updated: func(old, pod *corev1.Pod) {
			if needs(pod) != needs(old) {
				changed()
			}
		},
		Deleted: func(pod *corev1.Pod) {
			if needs(pod) {
				changed()
			}
		},
	})
	c.in.Nodes.AddHandler(informer.Handler[*corev1.Node]{
		Added: func(*corev1.Node) { changed() },
		Updated: func(old, node *corev1.Node) {
			if differ(old, node) {
				changed()
			}
		},
		Deleted: func(node *corev1.Node) {
			c.buried(node)
			changed()
		},
	})
	onChange(c.in.Claims, changed)
	onChange(c.in.Volumes, changed)
	onChange(c.in.Drivers, changed)
	onChange(c.in.Attachments, changed)
	return []controllers.Synced{c.in.Pods, c.in.Nodes, c.in.Claims, c.in.Volumes, c.in.Drivers, c.in.Attachments}
}

func onChange[T informer.Object](in *informer.Informer[T], changed func()) {
	in.AddHandler(informer.Handler[T]{
		Added: func(T) { changed() }, Updated: func(_, _ T) { changed() }, Deleted: func(T) { changed() },
	})
}

// needs reports whether a pod on a node needs claims there.
func needs(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && !done(pod) && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return pods.ClaimOf(pod, &v) != ""
	})
}

// differ reports whether two states of a node differ in what matters here.
func differ(a, b *corev1.Node) bool {
	return ready(a) != ready(b) || outOfService(a) != outOfService(b) ||
		!slices.Equal(a.Status.VolumesInUse, b.Status.VolumesInUse) || !slices.Equal(a.Status.VolumesAttached, b.Status.VolumesAttached)
}

// Reconcile brings all volumes a step further.
func (c *Controller) Reconcile(ctx context.Context, _ controllers.Key) (controllers.Result, error) {
	w := c.look()
	p := decide(w, c.memory, time.Now())
	err := c.act(ctx, p)
	c.memory = p.after
	c.clean(w)
	if err != nil || p.wake.IsZero() {
		return controllers.Result{}, err
	}
	return controllers.Result{RequeueAfter: max(time.Until(p.wake), time.Nanosecond)}, nil
}

// hosts returns the nodes that there are, and those that are gone but may have used volumes.
func (c *Controller) hosts() map[string]host {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]host{}
	for name, h := range c.gone {
		out[name] = h
	}
	for _, node := range c.in.Nodes.List("") {
		out[node.Name] = hostOf(c.newest(node))
	}
	return out
}

// node returns the newest known state of a node.
func (c *Controller) node(name string) (*corev1.Node, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	node, ok := c.in.Nodes.Get("", name)
	if !ok {
		return nil, false
	}
	return c.newest(node), true
}

// newest returns what the controller wrote itself, if the cache does not have it yet. The caller holds the lock.
func (c *Controller) newest(node *corev1.Node) *corev1.Node {
	written, ok := c.written[node.Name]
	if ok && written.UID == node.UID && version(written) > version(node) {
		return written
	}
	delete(c.written, node.Name)
	return node
}

func (c *Controller) wrote(node *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.written[node.Name] = node
}

// buried notes which volumes a node used when it was deleted.
func (c *Controller) buried(node *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone[node.Name] = host{inUse: set(node.Status.VolumesInUse)}
	delete(c.written, node.Name)
}

// clean forgets deleted nodes that have no volumes.
func (c *Controller) clean(w *world) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.gone {
		if _, exists := c.in.Nodes.Get("", name); exists || !w.holds(name) {
			delete(c.gone, name)
		}
	}
}

// holds reports whether a volume is attached to a node.
func (w *world) holds(node string) bool {
	for _, v := range w.volumes {
		if v.attachments[node] != nil {
			return true
		}
	}
	return false
}

func version(node *corev1.Node) uint64 {
	v, err := strconv.ParseUint(node.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// Retry is how often failed requests are repeated: as upstream's operations are.
func (*Controller) Retry() controllers.Retry {
	return controllers.Retry{First: firstRetry, Max: lastRetry}
}
