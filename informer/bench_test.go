package informer_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

// pods fills a store with pods on nodes, 30 on each.
func pods(n int) *memory.Store[*corev1.Pod] {
	store := memory.New[*corev1.Pod]()
	for i := range n {
		p := &corev1.Pod{}
		p.Namespace, p.Name = fmt.Sprint("ns", i%50), fmt.Sprintf("pod-%d", i*7919%n)
		p.Spec.NodeName = fmt.Sprint("node", i/30)
		store.Put(p)
	}
	return store
}

// synced returns an informer that has read the store.
func synced(b *testing.B, store *memory.Store[*corev1.Pod]) *informer.Informer[*corev1.Pod] {
	b.Helper()
	i := informer.New(store, informer.Options{})
	i.AddIndex("node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- i.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	if err := i.WaitSynced(ctx); err != nil {
		b.Fatal(err)
	}
	return i
}

// BenchmarkSync reads a list of 150,000 pods, and reports what the cache itself costs per pod.
func BenchmarkSync(b *testing.B) {
	const count = 150_000
	store := pods(count)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var i *informer.Informer[*corev1.Pod]
	for b.Loop() {
		i = synced(b, store)
	}
	i.List("")
	b.StopTimer()
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/count/float64(b.N), "B/pod")
	runtime.KeepAlive(store)
}

// BenchmarkUpdate is one change, from the source through the cache to a handler.
func BenchmarkUpdate(b *testing.B) {
	store := pods(10_000)
	i := synced(b, store)
	told := make(chan struct{})
	i.AddHandler(informer.Handler[*corev1.Pod]{Updated: func(_, _ *corev1.Pod) { told <- struct{}{} }})
	if err := i.WaitSynced(b.Context()); err != nil {
		b.Fatal(err)
	}
	p := i.List("")[0]
	for b.Loop() {
		store.Put(p)
		<-told
	}
}

// BenchmarkByIndex reads the pods of a node.
func BenchmarkByIndex(b *testing.B) {
	i := synced(b, pods(10_000))
	for b.Loop() {
		if len(i.ByIndex("node", "node7")) != 30 {
			b.Fatal("wrong pods")
		}
	}
}

// BenchmarkGet reads pods of large namespaces by name.
func BenchmarkGet(b *testing.B) {
	i := synced(b, pods(150_000))
	all := i.List("")
	n := 0
	for b.Loop() {
		p := all[n*7919%len(all)]
		if _, ok := i.Get(p.Namespace, p.Name); !ok {
			b.Fatal("no pod")
		}
		n++
	}
}
