package objects

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/informer"
)

// Watches opens what is watched of single objects: sources that show the one object of that name
// and nothing else. A nil function leaves that kind unwatched; it is then read each time.
type Watches struct {
	ConfigMap func(namespace, name string) (informer.Source[*corev1.ConfigMap], error)
	Secret    func(namespace, name string) (informer.Source[*corev1.Secret], error)
}

// Options of New. The zero value is ready to use.
type Options struct {
	// Changed is called with the pods that have an object as files which appeared, changed or
	// was deleted. It is called from the goroutine that watches it and must return soon.
	Changed func([]types.UID)
	// RetryAfter is the first pause after a watch that failed; it doubles up to 30 s. 0 is 200 ms.
	RetryAfter time.Duration
	// Logger is told about watches that fail; nil discards.
	Logger *slog.Logger
}

// Cache keeps the configmaps and secrets of a node's pods. Make one with New.
type Cache struct {
	configMaps *kind[*corev1.ConfigMap]
	secrets    *kind[*corev1.Secret]

	mu sync.Mutex
	// registered are the references of the pods, to forget them by.
	registered map[types.UID][2]references
}

// New makes a cache that reads from the server. It watches nothing before Run.
func New(server client.Getter, watches Watches, o Options) *Cache {
	if o.RetryAfter <= 0 {
		o.RetryAfter = 200 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func([]types.UID) {}
	}
	return &Cache{
		configMaps: newKind[*corev1.ConfigMap]("configmaps", server, watches.ConfigMap, o),
		secrets:    newKind[*corev1.Secret]("secrets", server, watches.Secret, o),
		registered: map[types.UID][2]references{},
	}
}

// Run watches until the context ends, and returns nil then.
func (c *Cache) Run(ctx context.Context) error {
	var both sync.WaitGroup
	both.Go(func() { c.configMaps.run(ctx) })
	both.Go(func() { c.secrets.run(ctx) })
	both.Wait()
	return nil
}

// Register keeps what a pod refers to, from now until Unregister; it is called again when the pod
// has changed, and is quick when its references have not.
func (c *Cache) Register(pod *corev1.Pod) {
	configMaps, secrets := referencesOf(pod)
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.registered[pod.UID]
	if len(configMaps)+len(secrets) == 0 {
		delete(c.registered, pod.UID)
	} else {
		c.registered[pod.UID] = [2]references{configMaps, secrets}
	}
	c.configMaps.replace(pod.UID, old[0], configMaps)
	c.secrets.replace(pod.UID, old[1], secrets)
}

// Unregister forgets a pod and what only that pod referred to.
func (c *Cache) Unregister(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.registered[uid]
	delete(c.registered, uid)
	c.configMaps.replace(uid, old[0], nil)
	c.secrets.replace(uid, old[1], nil)
}

// ConfigMap returns a configmap.
func (c *Cache) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	return c.configMaps.get(ctx, key{namespace, name})
}

// Secret returns a secret.
func (c *Cache) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return c.secrets.get(ctx, key{namespace, name})
}
