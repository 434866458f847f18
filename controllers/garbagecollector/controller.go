package garbagecollector

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
)

// Kind is one kind of objects that may own or be owned.
type Kind struct {
	GroupVersionKind schema.GroupVersionKind
	Resource         string // "pods"
	Namespaced       bool
	Objects          *informer.Informer[informer.Object]
}

// Client is what the controller asks of the server, as the service account
// generic-garbage-collector.
type Client interface {
	client.Getter
	client.Patcher
	client.Deleter
}

// Controller is the garbage-collector-controller. Make one with New. Its keys are UIDs.
type Controller struct {
	kinds    []Kind
	client   Client
	recorder events.Recorder
	graph    *graph
	queue    controllers.Queue

	mu     sync.Mutex
	absent map[types.UID]bool // owners that the server said do not exist, newest first out
	order  []types.UID
}

var _ controllers.Controller = (*Controller)(nil)

// maxAbsent bounds how many absent owners are remembered, as upstream's cache does.
const maxAbsent = 500

// New makes a controller of objects of the given kinds.
func New(kinds []Kind, c Client, r events.Recorder) *Controller {
	return &Controller{kinds: kinds, client: c, recorder: r, graph: newGraph(), absent: map[types.UID]bool{}}
}

// Name is "garbage-collector-controller".
func (*Controller) Name() string { return "garbage-collector-controller" }

// Watch keeps the graph, and enqueues what a change may have left without an owner.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	c.queue = q
	synced := make([]controllers.Synced, len(c.kinds))
	for i, kind := range c.kinds {
		observe := func(obj informer.Object) {
			id := identity{uid: obj.GetUID(), kind: kind.GroupVersionKind, namespace: obj.GetNamespace(), name: obj.GetName()}
			c.enqueue(c.graph.observe(id, obj))
		}
		kind.Objects.AddHandler(informer.Handler[informer.Object]{
			Added:   observe,
			Updated: func(_, obj informer.Object) { observe(obj) },
			Deleted: func(obj informer.Object) {
				c.remember(obj.GetUID())
				c.enqueue(c.graph.forget(obj.GetUID()))
			},
		})
		synced[i] = kind.Objects
	}
	return synced
}

// Reconcile looks at one object: whether to delete it, to orphan its dependents, or to let it
// go because nothing waits for it any more.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	s, ok := c.graph.state(types.UID(key.Name))
	if !ok {
		return controllers.Result{}, nil
	}
	look, err := c.sync(ctx, s)
	c.enqueue(look)
	return controllers.Result{}, err
}

func (c *Controller) enqueue(ids []types.UID) {
	for _, id := range ids {
		c.queue.Add(controllers.Key{Name: string(id)})
	}
}

// kind returns the served kind of a reference: any version of it will do.
func (c *Controller) kind(gvk schema.GroupVersionKind) (Kind, bool) {
	for _, k := range c.kinds {
		if k.GroupVersionKind.GroupKind() == gvk.GroupKind() {
			return k, true
		}
	}
	return Kind{}, false
}

func (k Kind) target(namespace, name string) client.Target {
	if !k.Namespaced {
		namespace = ""
	}
	return client.Target{Resource: k.GroupVersionKind.GroupVersion().WithResource(k.Resource), Namespace: namespace, Name: name}
}

func (c *Controller) remember(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.absent[uid] {
		return
	}
	c.absent[uid] = true
	c.order = append(c.order, uid)
	if len(c.order) > maxAbsent {
		delete(c.absent, c.order[0])
		c.order = c.order[1:]
	}
}

func (c *Controller) isAbsent(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.absent[uid]
}
