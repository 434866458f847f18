package factory_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/keelson-dev/keelson/informer/clientgo"
	"github.com/keelson-dev/keelson/informer/clientgo/factory"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/internal/testserver"
	"github.com/keelson-dev/keelson/registry"
)

func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// A program written against client-go's factory.
func controller(ctx context.Context, f informers.SharedInformerFactory) ([]string, error) {
	pods := f.Core().V1().Pods()
	var seen []string
	told, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { seen = append(seen, obj.(*corev1.Pod).Name) },
	})
	if err != nil {
		return nil, err
	}
	f.StartWithContext(ctx)
	if err := f.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
		return nil, err
	}
	cache.WaitFor(ctx, "", told.HasSyncedChecker())
	found, err := pods.Lister().Pods("ns").List(labels.Everything())
	for _, p := range found {
		seen = append(seen, "listed "+p.Name)
	}
	return seen, err
}

func Example() {
	store := memory.New[*corev1.Pod]()
	store.Put(pod("ns", "web"))
	store.Put(pod("other", "db"))
	f := informers.NewSharedInformerFactory(nil, 0)
	factory.Add(f, &corev1.Pod{}, store, clientgo.Options{})

	ctx, cancel := context.WithCancel(context.Background())
	seen, err := controller(ctx, f)
	slices.Sort(seen)
	fmt.Println(seen, err)
	cancel()
	f.Shutdown()
	// Output: [db listed web web] <nil>
}

func TestGenericInformersAndResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New[*corev1.Pod]()
		store.Put(pod("ns", "web"))
		f := informers.NewSharedInformerFactoryWithOptions(nil, time.Minute, informers.WithTransform(func(obj any) (any, error) {
			obj.(*corev1.Pod).Labels = map[string]string{"cut": "down"}
			return obj, nil
		}))
		mine := factory.Add(f, &corev1.Pod{}, store, clientgo.Options{Indexers: cache.Indexers{
			"node": func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil },
		}})
		if again := factory.Add(f, &corev1.Pod{}, memory.New[*corev1.Pod](), clientgo.Options{}); again != mine {
			t.Error("a second informer replaced the first")
		}
		generic, err := f.ForResource(corev1.SchemeGroupVersion.WithResource("pods"))
		if err != nil || generic.Informer().GetStore() != mine.GetStore() {
			t.Fatalf("ForResource gave another informer: %v", err)
		}
		var resyncs atomic.Int64
		if _, err := generic.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, _ any) { resyncs.Add(1) }}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		f.Start(ctx.Done())
		for kind, synced := range f.WaitForCacheSync(ctx.Done()) {
			if !synced {
				t.Errorf("%v is not in sync", kind)
			}
		}
		time.Sleep(150 * time.Second)
		obj, err := generic.Lister().ByNamespace("ns").Get("web")
		if err != nil || obj.(*corev1.Pod).Labels["cut"] != "down" || resyncs.Load() != 2 {
			t.Errorf("got %v, %v after %d resyncs", obj, err, resyncs.Load())
		}
		if stored, _ := store.Get("ns", "web"); stored.Labels != nil {
			t.Error("the transform changed the source's object")
		}
		cancel()
		f.Shutdown()
		if !mine.IsStopped() {
			t.Error("not stopped")
		}
	})
}

// The registry in process works behind a factory like the API.
func TestRegistry(t *testing.T) {
	_, reg := testserver.Start(t)
	source, err := registry.Source[*corev1.Namespace](reg, corev1.Resource("namespaces"), registry.Selection{})
	if err != nil {
		t.Fatal(err)
	}
	f := informers.NewSharedInformerFactory(nil, 0)
	factory.Add(f, &corev1.Namespace{}, source, clientgo.Options{})
	namespaces := f.Core().V1().Namespaces()
	namespaces.Informer()
	ctx, cancel := context.WithCancel(t.Context())
	defer f.Shutdown()
	defer cancel()
	f.StartWithContext(ctx)
	if err := f.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
		t.Fatal(err)
	}
	if _, err := reg.Access().Create(ctx, corev1.Resource("namespaces"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}); err != nil {
		t.Fatal(err)
	}
	arrived := make(chan struct{})
	_, err = namespaces.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		if obj.(*corev1.Namespace).Name == "mine" {
			close(arrived)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	<-arrived
	if _, err := namespaces.Lister().Get("mine"); err != nil {
		t.Error(err)
	}
}
