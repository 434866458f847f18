package cluster_test

import (
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/keelson-dev/keelson/cluster"
)

// told counts the calls of an informer's handler.
type told struct {
	mu sync.Mutex
	counts
}

type counts struct{ added, updated, resynced, deleted int }

func (c *told) so() counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

func (c *told) handler() cache.ResourceEventHandler {
	count := func(n *int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		*n++
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { count(&c.added) },
		UpdateFunc: func(old, obj any) {
			if old.(metav1.Object).GetResourceVersion() == obj.(metav1.Object).GetResourceVersion() {
				count(&c.resynced)
				return
			}
			count(&c.updated)
		},
		DeleteFunc: func(any) { count(&c.deleted) },
	}
}

// TestSharedInformers: client-go's informer factory sees pods being created, run and deleted over hours, with a resync
// every ten minutes.
func TestSharedInformers(t *testing.T) {
	inBubble(t, nodes(2), func(t *testing.T, w *world) {
		factory := informers.NewSharedInformerFactory(w.cs, 10*time.Minute)
		pods := factory.Core().V1().Pods()
		nodes := factory.Core().V1().Nodes().Lister()
		sets := factory.Apps().V1().ReplicaSets().Lister()
		var seen told
		_, err := pods.Informer().AddEventHandler(seen.handler())
		w.check(err)
		factory.Core().V1().Nodes().Informer()
		factory.Apps().V1().ReplicaSets().Informer()
		stop := make(chan struct{})
		factory.Start(stop)
		defer factory.Shutdown()
		defer close(stop)
		for kind, synced := range factory.WaitForCacheSync(stop) {
			if !synced {
				t.Fatalf("%v did not sync", kind)
			}
		}
		w.create(deploymentOf("web", 3))
		time.Sleep(time.Hour + time.Minute)
		list, err := pods.Lister().Pods("default").List(labels.SelectorFromSet(labels.Set{"app": "web"}))
		w.check(err)
		for _, p := range list {
			if !available(p) {
				t.Errorf("%s is %s in the cache", p.Name, p.Status.Phase)
			}
		}
		if got := seen.so(); got.added != 3 || got.updated < 3 || got.resynced != 3*6 || got.deleted != 0 {
			t.Errorf("told of %+v", got)
		}
		w.change("web", image("nginx:2"))
		time.Sleep(time.Minute)
		w.check(w.deployments.Delete(w.ctx, "web", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		if got := seen.so(); got.added != 6 || got.deleted != 6 {
			t.Errorf("told of %+v", got)
		}
		left, err := sets.List(labels.Everything())
		if err != nil || len(left) > 0 {
			t.Errorf("replica sets in the cache: %v %v", left, err)
		}
		if all, err := nodes.List(labels.Everything()); err != nil || len(all) != 2 {
			t.Errorf("nodes in the cache: %v %v", all, err)
		}
	})
}

// TestFilteredInformer: the server applies the selectors of informers.
func TestFilteredInformer(t *testing.T) {
	inBubble(t, nodes(2), func(t *testing.T, w *world) {
		factory := informers.NewSharedInformerFactoryWithOptions(w.cs, 0, informers.WithNamespace("default"),
			informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = "spec.nodeName=node-1" }))
		var seen told
		_, err := factory.Core().V1().Pods().Informer().AddEventHandler(seen.handler())
		w.check(err)
		stop := make(chan struct{})
		factory.Start(stop)
		defer factory.Shutdown()
		defer close(stop)
		w.create(deploymentOf("web", 4))
		time.Sleep(time.Minute)
		here := 0
		for _, p := range w.running("web", 4, "") {
			if p.Spec.NodeName == "node-1" {
				here++
			}
		}
		if got := seen.so(); got.added != here || here == 0 {
			t.Errorf("told of %+v, %d are there", got, here)
		}
		w.check(w.deployments.Delete(w.ctx, "web", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		if got := seen.so(); got.deleted != here {
			t.Errorf("told of %+v, %d were there", got, here)
		}
	})
}

// TestUntypedInformers: the same without types.
func TestUntypedInformers(t *testing.T) {
	inBubble(t, nodes(1), func(t *testing.T, w *world) {
		dyn, err := dynamic.NewForConfig(w.c.Config())
		w.check(err)
		factory := dynamicinformer.NewDynamicSharedInformerFactory(dyn, time.Hour)
		pods := factory.ForResource(corev1.SchemeGroupVersion.WithResource("pods"))
		var seen told
		_, err = pods.Informer().AddEventHandler(seen.handler())
		w.check(err)
		stop := make(chan struct{})
		factory.Start(stop)
		defer factory.Shutdown()
		defer close(stop)
		w.create(deploymentOf("web", 2))
		time.Sleep(time.Minute)
		for _, p := range w.running("web", 2, "") {
			obj, err := pods.Lister().ByNamespace("default").Get(p.Name)
			w.check(err)
			got := obj.(*unstructured.Unstructured)
			if phase, _, _ := unstructured.NestedString(got.Object, "status", "phase"); phase != "Running" || got.GetUID() != p.UID || got.GetKind() != "Pod" {
				t.Errorf("%s is %q, %s, in the cache", p.Name, phase, got.GetKind())
			}
		}
		w.check(w.deployments.Delete(w.ctx, "web", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		if got := seen.so(); got.added != 2 || got.deleted != 2 {
			t.Errorf("told of %+v", got)
		}
	})
}

// TestMetadataClient: a metadata client can read metadata, and delete.
func TestMetadataClient(t *testing.T) {
	inBubble(t, nodes(1), func(t *testing.T, w *world) {
		meta, err := metadata.NewForConfig(w.c.Config())
		w.check(err)
		pods := meta.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace("default")
		w.create(deploymentOf("web", 2))
		time.Sleep(time.Minute)
		l, err := pods.List(w.ctx, metav1.ListOptions{LabelSelector: "app=web"})
		w.check(err)
		if len(l.Items) != 2 || len(l.Items[0].OwnerReferences) != 1 || l.ResourceVersion == "" {
			t.Errorf("the list is %+v", l)
		}
		first := l.Items[0].Name
		m, err := pods.Get(w.ctx, first, metav1.GetOptions{})
		w.check(err)
		if m.Name != first || m.Labels["app"] != "web" {
			t.Errorf("metadata is %+v", m)
		}
		w.check(pods.DeleteCollection(w.ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=web"}))
		time.Sleep(time.Minute)
		for _, p := range w.running("web", 2, "") {
			if p.Name == first {
				t.Errorf("%s was deleted", first)
			}
		}
	})
}

// TestLongWatch: a watch lasts for hours while nothing happens, and can be resumed.
func TestLongWatch(t *testing.T) {
	inBubble(t, cluster.Options{}, func(t *testing.T, w *world) {
		maps := w.cs.CoreV1().ConfigMaps("default")
		time.Sleep(time.Second) // the objects that every namespace has exist
		l, err := maps.List(w.ctx, metav1.ListOptions{})
		w.check(err)
		first, err := maps.Watch(w.ctx, metav1.ListOptions{ResourceVersion: l.ResourceVersion, TimeoutSeconds: new(int64(24 * 3600)), AllowWatchBookmarks: true})
		w.check(err)
		time.Sleep(12 * time.Hour)
		made, err := maps.Create(w.ctx, configMap("a"), metav1.CreateOptions{})
		w.check(err)
		bookmarks := 0
		for e := range first.ResultChan() {
			if e.Type == watch.Bookmark {
				bookmarks++
				continue
			}
			if cm, ok := e.Object.(*corev1.ConfigMap); !ok || e.Type != watch.Added || cm.UID != made.UID {
				t.Fatalf("the watch says %s %v", e.Type, e.Object)
			}
			break
		}
		if bookmarks == 0 {
			t.Error("twelve hours without a bookmark")
		}
		time.Sleep(13 * time.Hour)
		for e := range first.ResultChan() {
			if e.Type != watch.Bookmark {
				t.Errorf("the watch says %s %v", e.Type, e.Object)
			}
		} // it times out
		w.check(maps.Delete(w.ctx, "a", metav1.DeleteOptions{}))
		again, err := maps.Watch(w.ctx, metav1.ListOptions{ResourceVersion: made.ResourceVersion})
		w.check(err)
		defer again.Stop()
		if e := <-again.ResultChan(); e.Type != watch.Deleted || e.Object.(*corev1.ConfigMap).UID != made.UID {
			t.Errorf("resumed, it says %s %v", e.Type, e.Object)
		}
	})
}
