package ttl

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
)

// Sources are what the controller reads.
type Sources struct {
	Nodes *informer.Informer[*corev1.Node]
}

// Controller is the ttl-controller. Make one with New.
type Controller struct {
	in     Sources
	client client.Patcher

	mu    sync.Mutex
	count int // of nodes
	size  int // index of the current size
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller.
func New(in Sources, c client.Patcher) *Controller { return &Controller{in: in, client: c} }

// Name is "ttl-controller".
func (*Controller) Name() string { return "ttl-controller" }

// Watch counts the nodes and enqueues those that change.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	c.in.Nodes.AddHandler(informer.Handler[*corev1.Node]{
		Added: func(node *corev1.Node) {
			c.add(1)
			q.Add(controllers.KeyOf(node))
		},
		Updated: func(_, node *corev1.Node) { q.Add(controllers.KeyOf(node)) },
		Deleted: func(*corev1.Node) { c.add(-1) },
	})
	return []controllers.Synced{c.in.Nodes}
}

func (c *Controller) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count += n
	c.size = resize(c.size, c.count)
}

func (c *Controller) seconds() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return sizes()[c.size].seconds
}

// size is a range of numbers of nodes, and what is used of it.
type size struct{ least, most, seconds int }

// sizes overlap, so that a node more or less does not change all others again and again.
func sizes() []size {
	return []size{{0, 100, 0}, {90, 500, 15}, {450, 1000, 30}, {900, 2000, 60}, {1800, math.MaxInt32, 300}}
}

// resize returns the size of a cluster that had another one before a node came or went.
func resize(at, count int) int {
	switch s := sizes()[at]; {
	case count > s.most:
		return at + 1
	case count < s.least:
		return at - 1
	}
	return at
}

// Reconcile sets the annotation of a node.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	node, ok := c.in.Nodes.Get("", key.Name)
	want := c.seconds()
	if !ok || has(node, want) {
		return controllers.Result{}, nil
	}
	type metadata struct {
		Annotations map[string]string `json:"annotations"`
	}
	data, err := json.Marshal(map[string]metadata{"metadata": {map[string]string{corev1.ObjectTTLAnnotationKey: strconv.Itoa(want)}}})
	if err != nil {
		return controllers.Result{}, fmt.Errorf("encoding the patch: %w", err)
	}
	at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("nodes"), Name: node.Name}
	if _, err := c.client.Patch(ctx, at, client.Patch{Type: types.StrategicMergePatchType, Data: data}, metav1.PatchOptions{}); err != nil {
		return controllers.Result{}, fmt.Errorf("annotating the node: %w", err)
	}
	return controllers.Result{}, nil
}

// has reports whether a node has the annotation with that number.
func has(node *corev1.Node, seconds int) bool {
	now, err := strconv.Atoi(node.Annotations[corev1.ObjectTTLAnnotationKey])
	return err == nil && now == seconds
}
