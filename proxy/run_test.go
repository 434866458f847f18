package proxy_test

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/informer"
	store "github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/proxy"
	"github.com/keelson-dev/keelson/proxy/memory"
)

// recorder is a Writer that counts calls, and fails or has lost its tables when told to.
type recorder struct {
	*memory.Writer
	syncs, updates atomic.Int32
	fail, lost     atomic.Bool
}

func (r *recorder) Sync(ctx context.Context, t proxy.Tables) error {
	r.syncs.Add(1)
	if r.fail.Load() {
		return errors.New("no")
	}
	r.lost.Store(false)
	return r.Writer.Sync(ctx, t)
}

func (r *recorder) Update(ctx context.Context, services map[proxy.Service][]proxy.Port) error {
	r.updates.Add(1)
	if r.fail.Load() {
		return errors.New("no")
	}
	return r.Writer.Update(ctx, services)
}

func (r *recorder) Intact(context.Context) (bool, error) { return !r.lost.Load(), nil }

// world is a Proxy that runs in virtual time on stores.
type world struct {
	services *store.Store[*corev1.Service]
	slices   *store.Store[*discoveryv1.EndpointSlice]
	nodes    *store.Store[*corev1.Node]
	writer   *recorder
	stop     func()
}

// start runs a Proxy once the stores are filled.
func start(t *testing.T, fill func(*world), o proxy.Options) *world {
	t.Helper()
	w := &world{
		services: store.New[*corev1.Service](), slices: store.New[*discoveryv1.EndpointSlice](), nodes: store.New[*corev1.Node](),
		writer: &recorder{Writer: memory.New()},
	}
	if fill != nil {
		fill(w)
	}
	in := proxy.Sources{
		Services:       informer.New(w.services, informer.Options{}),
		EndpointSlices: informer.New(w.slices, informer.Options{}),
		Nodes:          informer.New(w.nodes, informer.Options{}),
	}
	o.Nodes = []string{"node-1"}
	p := proxy.New(in, w.writer, o)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, run := range []func(context.Context) error{in.Services.Run, in.EndpointSlices.Run, in.Nodes.Run, p.Run} {
		all.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	w.stop = func() { cancel(); all.Wait() }
	synctest.Wait()
	return w
}

func (w *world) endpoints(t *testing.T) []netip.AddrPort {
	t.Helper()
	ports := w.writer.Tables().Services[proxy.Service{Namespace: "default", Name: "a"}]
	if len(ports) != 1 {
		t.Fatalf("ports %+v", ports)
	}
	return ports[0].Cluster
}

func run(t *testing.T, test func(*testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

func TestFollowsObjects(t *testing.T) {
	run(t, func(t *testing.T) {
		w := start(t, func(w *world) {
			w.services.Put(service(nil))
			w.slices.Put(slice("a-1", endpoint("10.0.0.1", nil)))
		}, proxy.Options{})
		defer w.stop()
		if got := w.endpoints(t); !reflect.DeepEqual(got, at("10.0.0.1")) || w.writer.syncs.Load() != 1 {
			t.Fatalf("%v after %d syncs", got, w.writer.syncs.Load())
		}
		time.Sleep(time.Minute)
		w.slices.Put(slice("a-2", endpoint("10.0.0.2", nil)))
		synctest.Wait()
		if got := w.endpoints(t); !reflect.DeepEqual(got, at("10.0.0.1", "10.0.0.2")) {
			t.Errorf("%v: a change after a pause is written at once", got)
		}
		time.Sleep(time.Minute)
		w.services.Put(service(func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} }))
		time.Sleep(time.Minute)
		if w.writer.updates.Load() != 1 {
			t.Errorf("%d updates, the last for a change that changes nothing", w.writer.updates.Load())
		}
		moved := slice("a-2", endpoint("10.0.0.2", nil))
		moved.Labels[discoveryv1.LabelServiceName] = "b"
		w.slices.Put(moved)
		time.Sleep(time.Minute)
		if got := w.endpoints(t); !reflect.DeepEqual(got, at("10.0.0.1")) {
			t.Errorf("%v after a slice went to another service", got)
		}
		w.slices.Delete("default", "a-1")
		time.Sleep(time.Minute)
		if got := w.endpoints(t); got != nil {
			t.Errorf("%v after the last slice was deleted", got)
		}
		w.services.Delete("default", "a")
		time.Sleep(time.Minute)
		if got := w.writer.Tables().Services; len(got) != 0 {
			t.Errorf("%v after the service was deleted", got)
		}
		if w.writer.syncs.Load() != 1 {
			t.Errorf("%d syncs", w.writer.syncs.Load())
		}
	})
}

func TestCollectsChanges(t *testing.T) {
	run(t, func(t *testing.T) {
		w := start(t, func(w *world) { w.services.Put(service(nil)) }, proxy.Options{Period: time.Second})
		defer w.stop()
		time.Sleep(time.Minute)
		for i := range 100 {
			w.slices.Put(slice("a-1", endpoint(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}).String(), nil)))
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		if w.writer.updates.Load() < 1 || w.writer.updates.Load() > 3 {
			t.Errorf("%d updates for 100 changes within a second", w.writer.updates.Load())
		}
		if got := w.endpoints(t); !reflect.DeepEqual(got, at("10.0.0.100")) {
			t.Errorf("%v", got)
		}
	})
}

func TestFailures(t *testing.T) {
	run(t, func(t *testing.T) {
		w := start(t, func(w *world) {
			w.services.Put(service(nil))
			w.writer.fail.Store(true)
		}, proxy.Options{})
		defer w.stop()
		if w.writer.syncs.Load() != 1 {
			t.Fatalf("%d syncs", w.writer.syncs.Load())
		}
		w.writer.fail.Store(false)
		time.Sleep(time.Second)
		synctest.Wait()
		if w.endpoints(t) != nil || w.writer.syncs.Load() != 2 {
			t.Fatalf("%d syncs", w.writer.syncs.Load())
		}
		w.writer.fail.Store(true)
		w.slices.Put(slice("a-1", endpoint("10.0.0.1", nil)))
		synctest.Wait()
		w.writer.fail.Store(false)
		time.Sleep(2 * time.Second)
		if got := w.endpoints(t); !reflect.DeepEqual(got, at("10.0.0.1")) {
			t.Errorf("%v after a failed update", got)
		}
	})
}

func TestRepairs(t *testing.T) {
	run(t, func(t *testing.T) {
		w := start(t, nil, proxy.Options{})
		defer w.stop()
		time.Sleep(time.Minute)
		if w.writer.syncs.Load() != 1 {
			t.Fatalf("%d syncs although nothing was lost", w.writer.syncs.Load())
		}
		w.writer.lost.Store(true)
		time.Sleep(time.Second)
		synctest.Wait()
		if w.writer.lost.Load() || w.writer.syncs.Load() != 2 {
			t.Errorf("lost: %v after %d syncs", w.writer.lost.Load(), w.writer.syncs.Load())
		}
	})
}

func TestNode(t *testing.T) {
	run(t, func(t *testing.T) {
		zones := func(zone string) func(*discoveryv1.Endpoint) {
			return func(e *discoveryv1.Endpoint) {
				e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone}}}
			}
		}
		node := func(name, zone string) *corev1.Node {
			return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}}}
		}
		w := start(t, func(w *world) {
			w.services.Put(service(nil))
			w.slices.Put(slice("a-1", endpoint("10.0.0.1", zones("east")), endpoint("10.0.0.2", zones("west"))))
			w.nodes.Put(node("node-1", "east"))
		}, proxy.Options{})
		defer w.stop()
		if got := w.endpoints(t); !reflect.DeepEqual(got, at("10.0.0.1")) {
			t.Fatalf("%v", got)
		}
		w.nodes.Put(node("node-2", "north"))
		w.nodes.Put(node("node-1", "west"))
		time.Sleep(time.Second)
		if got := w.endpoints(t); !reflect.DeepEqual(got, at("10.0.0.2")) {
			t.Errorf("%v after the node's zone changed", got)
		}
		heartbeat := node("node-1", "west")
		heartbeat.Annotations = map[string]string{"a": "b"}
		w.nodes.Put(heartbeat)
		time.Sleep(time.Second)
		if w.writer.updates.Load() != 1 {
			t.Errorf("%d updates", w.writer.updates.Load())
		}
	})
}
