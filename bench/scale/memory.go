package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/wire"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/wal"
)

// live returns the memory in use after a garbage collection.
func live() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// sizes are the memory for all pods of a world, in bytes, and the time to open it: the store alone, and the server on
// it.
type sizes struct {
	store, server, inProcess, overWire int64
	open, load                         time.Duration
}

// memory measures the memory per pod, and the time to open a closed world.
func (w *world) memory(ctx context.Context) (s sizes, err error) {
	before := live()
	began := time.Now()
	if err := w.openStore(func() {
		s.open = time.Since(began)
		s.store = live() - before
	}); err != nil {
		return s, err
	}
	before = live()
	began = time.Now()
	if err := w.open(ctx); err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	s.load = time.Since(began)
	s.server = live() - before
	// What is encoded for the first informer is reused for the second.
	for range 2 {
		if s.overWire, err = w.informer(ctx, w.outside); err != nil {
			return s, err
		}
	}
	s.inProcess, err = w.informer(ctx, func() (informer.Source[*corev1.Pod], error) {
		return registry.Source[*corev1.Pod](w.registry, pods(), registry.Selection{})
	})
	return s, err
}

// openStore opens the world's store while look runs.
func (w *world) openStore(look func()) error {
	store, err := wal.Open(w.dir, wal.Options{})
	if err != nil {
		return err
	}
	look()
	return store.Close()
}

// outside returns a source that decodes the API's answers.
func (w *world) outside() (informer.Source[*corev1.Pod], error) {
	config := &rest.Config{Host: "http://in.process", Transport: w.transport, QPS: -1}
	config.ContentType = protobuf
	return wire.New[*corev1.Pod](config, scheme.Scheme, schema.GroupVersionResource{Version: "v1", Resource: "pods"}, wire.Options{})
}

// informer measures the memory of an informer.
func (w *world) informer(ctx context.Context, from func() (informer.Source[*corev1.Pod], error)) (size int64, err error) {
	source, err := from()
	if err != nil {
		return 0, err
	}
	before := live()
	i := informer.New(source, informer.Options{})
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- i.Run(ctx) }()
	defer func() { cancel(); err = errors.Join(err, <-done) }()
	if err := i.WaitSynced(ctx); err != nil {
		return 0, err
	}
	size = live() - before
	if n := len(i.List("")); n != w.pods {
		return 0, fmt.Errorf("an informer has %d of %d pods", n, w.pods)
	}
	return size, nil
}

// reopen measures how long a whole cluster takes to become ready on a copy of the world's store.
func (w *world) reopen(ctx context.Context) (took time.Duration, err error) {
	dir := w.dir + "-cluster"
	if err := os.CopyFS(dir, os.DirFS(w.dir)); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	began := time.Now()
	c, err := cluster.Start(ctx, cluster.Options{Dir: dir})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	api, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return 0, err
	}
	p := pod(w.pods, w.pods-1)
	_, err = api.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
	return time.Since(began), err
}
