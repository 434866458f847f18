package controllerruntime_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/controllerruntime"
	"github.com/keelson-dev/keelson/registry"
)

// start runs an API server in this process and returns a client of it.
func start(t testing.TB) (*cluster.Cluster, client.Client) {
	t.Helper()
	c, err := cluster.New(cluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	run(t, "cluster", c.Run)
	t.Cleanup(func() { _ = c.Close() })
	if err := c.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	k, err := client.New(c.Config(), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c, k
}

// run calls f until the test ends, and waits for it.
func run(t testing.TB, what string, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", what, err)
		}
	})
}

// opener reads the registry in process.
func opener(c *cluster.Cluster) controllerruntime.Opener {
	return controllerruntime.OpenerFunc(func(gvk schema.GroupVersionKind) (informer.Source[informer.Object], bool, error) {
		for _, r := range c.Registry().Resources() {
			if r.GroupVersion.WithKind(r.Names.Kind) == gvk {
				source, err := registry.Source[informer.Object](c.Registry(), r.GroupResource(), registry.Selection{})
				return source, r.Namespaced, err
			}
		}
		return nil, false, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
	})
}

// subject is one of the caches that play the scenario.
type subject struct {
	t     *testing.T
	cache cache.Cache
	kube  client.Client
	names string // prefix of its objects' names

	mu    sync.Mutex
	lines []string
}

func (s *subject) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, strings.ReplaceAll(fmt.Sprintf(format, args...), s.names, "ns"))
}

// told waits until handlers have written n more lines, and sorts them: the order of a first list is unspecified.
func (s *subject) told(c <-chan string, n int) {
	var all []string
	for range n {
		select {
		case line := <-c:
			all = append(all, line)
		case <-time.After(time.Minute):
			s.t.Fatalf("after %v nothing came", all)
		}
	}
	slices.Sort(all)
	s.say("told %v", all)
}

func (s *subject) configMap(name, tier, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.names, Name: name, Labels: map[string]string{"tier": tier, "run": s.names}},
		Data:       map[string]string{"v": value},
	}
}

func (s *subject) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func value(o any) string {
	switch obj := o.(type) {
	case *corev1.ConfigMap:
		return obj.Name + "=" + obj.Data["v"]
	case toolscache.DeletedFinalStateUnknown:
		return "unknown " + value(obj.Obj)
	case client.Object:
		return obj.GetName()
	}
	return fmt.Sprintf("%T", o)
}

// play is the scenario.
func (s *subject) play() {
	ctx := s.t.Context()
	ours := client.MatchingLabels{"run": s.names}
	s.must(s.kube.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.names}}))
	s.must(s.kube.Create(ctx, s.configMap("a", "front", "1")))
	s.must(s.kube.Create(ctx, s.configMap("b", "back", "1")))

	s.say("before start: get %v", s.cache.Get(ctx, client.ObjectKey{Namespace: s.names, Name: "a"}, &corev1.ConfigMap{}))
	s.say("before start: list %v", s.cache.List(ctx, &corev1.ConfigMapList{}))
	s.say("index %v", s.cache.IndexField(ctx, &corev1.ConfigMap{}, "value", func(o client.Object) []string {
		return []string{o.(*corev1.ConfigMap).Data["v"]}
	}))
	run(s.t, "cache", s.cache.Start)
	s.say("synced %v", s.cache.WaitForCacheSync(ctx))

	s.reads(ctx, ours)
	s.handlers(ctx)
	s.forms(ctx, ours)
	s.say("remove %v", s.cache.RemoveInformer(ctx, &corev1.ConfigMap{}))
	s.say("and read again: %v", s.cache.Get(ctx, client.ObjectKey{Namespace: s.names, Name: "b"}, &corev1.ConfigMap{}))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	// A caller whose context has ended may still find the informer synced, if that was quick.
	late := s.cache.Get(ended, client.ObjectKey{Name: "x"}, &corev1.Secret{})
	s.say("out of time: %v", apierrors.IsTimeout(late) || apierrors.IsNotFound(late))
	s.say("unknown kind: %t", s.cache.Get(ctx, client.ObjectKey{Name: "x"}, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "x/v1", "kind": "X"}}) != nil)
}

func (s *subject) reads(ctx context.Context, ours client.MatchingLabels) {
	var cm corev1.ConfigMap
	s.say("get %v %s %s", s.cache.Get(ctx, client.ObjectKey{Namespace: s.names, Name: "a"}, &cm), value(&cm), cm.GroupVersionKind())
	cm.Data["v"] = "changed by a reader"
	s.say("again %v %s", s.cache.Get(ctx, client.ObjectKey{Namespace: s.names, Name: "a"}, &cm), value(&cm))
	s.say("missing %v", s.cache.Get(ctx, client.ObjectKey{Namespace: s.names, Name: "none"}, &cm))
	var namespace corev1.Namespace
	s.say("cluster scoped %v %s", s.cache.Get(ctx, client.ObjectKey{Namespace: "ignored", Name: s.names}, &namespace), namespace.Name)
	field := func(selector string) client.ListOption {
		return client.MatchingFieldsSelector{Selector: fields.ParseSelectorOrDie(selector)}
	}
	for name, options := range map[string][]client.ListOption{
		"namespace":         {client.InNamespace(s.names), ours},
		"labels":            {ours, client.MatchingLabels{"tier": "front"}},
		"field":             {field("value=1"), ours},
		"field, namespace":  {field("value=1"), client.InNamespace(s.names)},
		"two fields":        {field("value=1,value=2"), client.InNamespace(s.names)},
		"no such index":     {field("other=1")},
		"second no index":   {field("value=1,other=1"), client.InNamespace(s.names)},
		"inexact":           {field("value!=1")},
		"limit":             {client.Limit(1), ours},
		"continue":          {client.Continue("x")},
		"another namespace": {client.InNamespace("none")},
		"shared":            {client.UnsafeDisableDeepCopy, client.InNamespace(s.names), ours},
	} {
		var list corev1.ConfigMapList
		err := s.cache.List(ctx, &list, options...)
		var all []string
		for i := range list.Items {
			all = append(all, value(&list.Items[i]))
		}
		slices.Sort(all)
		if name == "limit" && len(all) == 1 {
			all = []string{"one"}
		}
		s.say("list by %s: %v %v %q", name, err, all, list.Continue)
	}
}

func (s *subject) handlers(ctx context.Context) {
	i, err := s.cache.GetInformer(ctx, &corev1.ConfigMap{})
	s.must(err)
	told := make(chan string, 100)
	mine := func(o any) bool {
		if d, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = d.Obj
		}
		return o.(client.Object).GetNamespace() == s.names && o.(client.Object).GetLabels()["run"] == s.names
	}
	registration, err := i.AddEventHandler(toolscache.FilteringResourceEventHandler{FilterFunc: mine, Handler: toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(o any, initial bool) { told <- fmt.Sprintf("added %s %t", value(o), initial) },
		UpdateFunc: func(old, o any) { told <- fmt.Sprintf("updated %s to %s", value(old), value(o)) },
		DeleteFunc: func(o any) { told <- "deleted " + value(o) },
	}})
	s.must(err)
	s.told(told, 2)
	for !registration.HasSynced() && ctx.Err() == nil {
		runtime.Gosched() // soon after the handler was called, not at once
	}
	s.say("registration synced, informer %t, stopped %t", i.HasSynced(), i.IsStopped())
	s.must(s.kube.Create(ctx, s.configMap("c", "front", "2")))
	s.told(told, 1)
	s.must(s.kube.Update(ctx, s.configMap("c", "front", "3")))
	s.told(told, 1)
	s.must(s.kube.Delete(ctx, s.configMap("a", "", "")))
	s.told(told, 1)
	s.say("same informer %t", func() bool {
		k, err := s.cache.GetInformerForKind(ctx, corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		return err == nil && k == i
	}())
	s.say("handler removed %v, twice %v", i.RemoveEventHandler(registration), i.RemoveEventHandler(registration))
}

func (s *subject) forms(ctx context.Context, ours client.MatchingLabels) {
	gvk := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	u, m := &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}
	u.SetGroupVersionKind(gvk)
	m.SetGroupVersionKind(gvk)
	key := client.ObjectKey{Namespace: s.names, Name: "c"}
	s.say("unstructured %v %v %s", s.cache.Get(ctx, key, u), u.Object["data"], u.GroupVersionKind())
	s.say("metadata %v %v %s", s.cache.Get(ctx, key, m), m.Labels, m.GroupVersionKind())
	ul, ml := &unstructured.UnstructuredList{}, &metav1.PartialObjectMetadataList{}
	ul.SetGroupVersionKind(gvk.GroupVersion().WithKind("ConfigMapList"))
	ml.SetGroupVersionKind(gvk.GroupVersion().WithKind("ConfigMapList"))
	s.say("unstructured %v %d", s.cache.List(ctx, ul, ours), len(ul.Items))
	s.say("metadata %v %d", s.cache.List(ctx, ml, ours), len(ml.Items))
}

// TestScenario plays the scenario with controller-runtime's own cache and with this one.
func TestScenario(t *testing.T) {
	c, kube := start(t)
	theirs, err := cache.New(c.Config(), cache.Options{Scheme: scheme.Scheme, Mapper: kube.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	ours := controllerruntime.New(scheme.Scheme, opener(c), controllerruntime.Options{})
	var told [2][]string
	for n, cache := range []cache.Cache{theirs, ours} {
		s := &subject{t: t, cache: cache, kube: kube, names: fmt.Sprintf("n%d", n)}
		s.play()
		told[n] = s.lines
	}
	slices.Sort(told[0]) // a map orders the lists
	slices.Sort(told[1])
	for n := range max(len(told[0]), len(told[1])) {
		if n >= len(told[0]) || n >= len(told[1]) || told[0][n] != told[1][n] {
			t.Fatalf("controller-runtime\n %s\nhere\n %s", strings.Join(told[0][n:], "\n "), strings.Join(told[1][n:], "\n "))
		}
	}
	if len(told[0]) < 30 {
		t.Errorf("only %d lines", len(told[0]))
	}
}
