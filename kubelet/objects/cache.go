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

// Watches opens sources that contain only the object of one name. With a nil function that kind is not watched but read
// each time.
type Watches struct {
	ConfigMap func(namespace, name string) (informer.Source[*corev1.ConfigMap], error) // one config map
	Secret    func(namespace, name string) (informer.Source[*corev1.Secret], error)    // one secret
}

// Options configures New. The zero value is ready to use.
type Options struct {
	// Changed is called when an object appears, changes or is deleted, with the pods that mount it as files. It is
	// called from the goroutine that watches the object and must be quick.
	Changed func([]types.UID)
	// RetryAfter is the first pause after a failed watch; it doubles up to 30 s. 0 is 200 ms.
	RetryAfter time.Duration
	// Logger records failed watches; nil discards them.
	Logger *slog.Logger
}

// Cache holds the config maps and secrets of a node's pods. Make one with New.
type Cache struct {
	configMaps *kind[*corev1.ConfigMap]
	secrets    *kind[*corev1.Secret]

	mu sync.Mutex
	// registered holds the pods' references, for removing them.
	registered map[types.UID][2]references
}

// New makes a cache that reads from the server. It watches nothing until Run.
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

// Run watches until the context ends, and then returns nil.
func (c *Cache) Run(ctx context.Context) error {
	var both sync.WaitGroup
	both.Go(func() { c.configMaps.run(ctx) })
	both.Go(func() { c.secrets.run(ctx) })
	both.Wait()
	return nil
}

// Register caches what a pod refers to until Unregister. It is to be called again when the pod has changed, and is
// quick if its references have not.
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

// ConfigMap returns a config map.
func (c *Cache) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	return c.configMaps.get(ctx, key{namespace, name})
}

// Secret returns a secret.
func (c *Cache) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return c.secrets.get(ctx, key{namespace, name})
}
