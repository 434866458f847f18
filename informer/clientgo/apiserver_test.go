package clientgo_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/informer/clientgo"
	"github.com/keelson-dev/keelson/informer/wire"
	"github.com/keelson-dev/keelson/internal/testserver"
)

// gate is the path to a server; closing it cuts existing connections.
type gate struct {
	http.RoundTripper
	mu     sync.Mutex
	closed bool
	cut    []context.CancelFunc
}

func (g *gate) RoundTrip(req *http.Request) (*http.Response, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, fmt.Errorf("no way to %s", req.URL.Host)
	}
	ctx, cancel := context.WithCancel(req.Context())
	g.cut = append(g.cut, cancel)
	return g.RoundTripper.RoundTrip(req.WithContext(ctx))
}

func (g *gate) set(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = closed
	for _, cut := range g.cut {
		cut()
	}
	g.cut = nil
}

// overWire makes client-go's informer, with its reflector and initial events, or ours over package wire, for the config
// maps of a server.
func overWire(t *testing.T, name string, config *rest.Config) cache.SharedIndexInformer {
	t.Helper()
	if name == "client-go" {
		clients, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		lw := cache.NewListWatchFromClient(clients.CoreV1().RESTClient(), "configmaps", "ns", fields.Everything())
		return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lw, clients), &corev1.ConfigMap{}, 0, cache.Indexers{})
	}
	source, err := wire.New[object](config, scheme.Scheme, corev1.SchemeGroupVersion.WithResource("configmaps"), wire.Options{Namespace: "ns"})
	if err != nil {
		t.Fatal(err)
	}
	return clientgo.New(source, clientgo.Options{Share: true})
}

// The same events happen to the objects of a real API server, and to the path to it.
func TestAPIServer(t *testing.T) {
	identifiers := regexp.MustCompile(` uid [0-9a-f-]+`)
	said := map[string][]string{}
	for _, name := range []string{"client-go", "keelson"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config, _ := testserver.Start(t)
				way := &gate{RoundTripper: config.Transport}
				theirs := rest.CopyConfig(config)
				theirs.Transport = way
				w := &world{T: t, lines: map[string][]string{}, informer: overWire(t, name, theirs)}
				scenarioOfServer(w, kubernetes.NewForConfigOrDie(config), way)
				w.stop()
				for _, line := range w.out {
					said[name] = append(said[name], identifiers.ReplaceAllString(line, ""))
				}
			})
		})
	}
	// client-go lists again after an outage, so it has not seen the deletion and reports the state it knew.
	compare(t, said, difference{
		client: []string{
			"first: delete tombstone ns/d of ns/d=1@8",
			"first: update ns/a=1@11 to ns/a=1@11",
		},
		keelson: []string{"first: delete ns/d=1@13"},
	})
}

func scenarioOfServer(w *world, clients kubernetes.Interface, way *gate) {
	maps := clients.CoreV1().ConfigMaps("ns")
	fatal := func(err error) {
		w.Helper()
		if err != nil && !apierrors.IsAlreadyExists(err) {
			w.Fatal(err)
		}
	}
	create := func(name string) {
		_, err := maps.Create(w.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": "1"}}, metav1.CreateOptions{})
		fatal(err)
	}
	update := func(name, value string) {
		o, err := maps.Get(w.Context(), name, metav1.GetOptions{})
		fatal(err)
		o.Data["k"] = value
		_, err = maps.Update(w.Context(), o, metav1.UpdateOptions{})
		fatal(err)
	}
	remove := func(name string) { fatal(maps.Delete(w.Context(), name, metav1.DeleteOptions{})) }
	_, err := clients.CoreV1().Namespaces().Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, metav1.CreateOptions{})
	fatal(err)
	for _, name := range []string{"a", "b", "c"} {
		create(name)
	}
	w.listen("first")
	// client-go's own error handler sleeps by the bubble's clock for a period measured by the machine's.
	fatal(w.informer.SetWatchErrorHandler(func(*cache.Reflector, error) {}))
	w.ended("started", w.start, time.Minute, true) // client-go lists from a map
	w.ended("changes", func() {
		update("a", "2")
		remove("b")
		create("d")
		update("a", "3")
		remove("a")
		create("a")
	}, time.Minute, false)
	w.ended("watches end", nothing, 12*time.Minute, false)
	w.ended("away, and nothing is missed", func() {
		way.set(true)
		time.Sleep(10 * time.Second)
		update("c", "2")
		remove("d")
		create("e")
		way.set(false)
	}, 2*time.Minute, true)
	w.ended("goes on", func() { update("e", "2") }, time.Minute, false)
	w.note("state", "at version %s, %d objects", w.informer.LastSyncResourceVersion(), len(w.informer.GetStore().List()))
	w.ended("end", nothing, 0, false)
}

// Ours over a socket with TLS and HTTP/2, as in production.
func TestOverTLS(t *testing.T) {
	_, reg := testserver.Start(t)
	server := httptest.NewUnstartedServer(apiserver.New(reg, apiserver.Options{Authorizer: alwaysallow.New()}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	client := server.Client()
	t.Cleanup(client.CloseIdleConnections)
	config := &rest.Config{Host: server.URL, Transport: client.Transport, QPS: -1}
	clients := kubernetes.NewForConfigOrDie(config)
	if _, err := clients.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	i := overWire(t, "keelson", config)
	told := make(chan string, 10)
	if _, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { told <- "add " + obj.(object).Name },
		DeleteFunc: func(obj any) { told <- "delete " + obj.(object).Name },
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		i.RunWithContext(ctx)
	}()
	defer func() { cancel(); <-done }()
	if !cache.WaitFor(ctx, "", i.HasSyncedChecker()) {
		t.Fatal("not in sync")
	}
	maps := clients.CoreV1().ConfigMaps("ns")
	if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := <-told; got != "add a" {
		t.Errorf("told %s", got)
	}
	if err := maps.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := <-told; got != "delete a" {
		t.Errorf("told %s", got)
	}
}
