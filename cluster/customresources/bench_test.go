package customresources_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/customresources"
	"github.com/keelson-dev/keelson/internal/provider"
)

// BenchmarkEstablish measures the time from posting a definition until its first object is created, in process: the client
// waits for Established by a watch. At the end, the cluster has as many definitions as there were iterations.
func BenchmarkEstablish(b *testing.B) {
	a := clients(b, start(b, cluster.Options{}).Config())
	n := 0
	for b.Loop() {
		kind := fmt.Sprintf("Backup%d", n)
		n++
		crd := called(kind)
		a.define(crd)
		a.established(crd.Name)
		in := a.any.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: crd.Spec.Names.Plural}).Namespace("default")
		a.create(in, object("a", func(u *unstructured.Unstructured) { u.SetKind(kind) }))
	}
}

// BenchmarkPublish measures the time from posting a definition as large as a provider's until its first object is created, in
// process, by a client that looks for the kind in discovery and in OpenAPI v3 first. Seven other definitions are in its group.
func BenchmarkPublish(b *testing.B) {
	c := start(b, cluster.Options{})
	a := clients(b, c.Config())
	crds, err := clientset.NewForConfig(c.Config())
	if err != nil {
		b.Fatal(err)
	}
	for n := range 7 {
		a.post(crds, provider.Definition(n))
	}
	const n = 7
	crd := provider.Definition(n)
	gvr := schema.GroupVersionResource{Group: crd.Spec.Group, Version: provider.Version, Resource: crd.Spec.Names.Plural}
	for b.Loop() {
		a.post(crds, crd)
		if list, err := a.cs.Discovery().ServerResourcesForGroupVersion(gvr.GroupVersion().String()); err != nil || len(list.APIResources) != 2*(n+1) {
			b.Fatal(list, err)
		}
		paths, err := a.cs.Discovery().OpenAPIV3().Paths()
		if err != nil {
			b.Fatal(err)
		}
		text, err := paths["apis/"+gvr.GroupVersion().String()].Schema("application/json")
		if err != nil || !bytes.Contains(text, []byte("/"+gvr.Resource+"/")) {
			b.Fatal("it is not in OpenAPI", err)
		}
		a.create(a.any.Resource(gvr), provider.Object(n, "first"))
		b.StopTimer()
		a.delete(a.any.Resource(definitions), crd.Name)
		a.gone(a.any.Resource(definitions), crd.Name)
		b.StartTimer()
	}
}

// post posts a definition and waits until it is established.
func (a *api) post(crds clientset.Interface, crd *definition) {
	a.t.Helper()
	if _, err := crds.ApiextensionsV1().CustomResourceDefinitions().Create(context.Background(), crd, metav1.CreateOptions{}); err != nil {
		a.t.Fatal(err)
	}
	a.established(crd.Name)
}

// BenchmarkThousand measures the time from posting the first of a thousand definitions, one after the other and each as
// large as a provider's, until all are established, in process. kB/definition and goroutines/definition are what an idle
// one takes then, with what the server keeps of recent changes and encodings.
func BenchmarkThousand(b *testing.B) {
	const many = 1000
	var memory, goroutines float64
	for b.Loop() {
		b.StopTimer()
		c, err := cluster.Start(b.Context(), cluster.Options{Extensions: []cluster.Extension{customresources.Extension(customresources.Options{})}})
		if err != nil {
			b.Fatal(err)
		}
		api, err := clientset.NewForConfig(c.Config())
		if err != nil {
			b.Fatal(err)
		}
		crds := api.ApiextensionsV1().CustomResourceDefinitions()
		heap, running := taken()
		b.StartTimer()
		w, err := crds.Watch(b.Context(), metav1.ListOptions{})
		if err != nil {
			b.Fatal(err)
		}
		done := make(chan bool)
		go func() { done <- allEstablished(w, many) }()
		for n := range many {
			if _, err := crds.Create(b.Context(), provider.Definition(n), metav1.CreateOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		if !<-done {
			b.Fatal("the watch ended")
		}
		b.StopTimer()
		w.Stop()
		heapNow, runningNow := taken()
		memory, goroutines = (heapNow-heap)/many, float64(runningNow-running)/many
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(memory/1000, "kB/definition")
	b.ReportMetric(goroutines, "goroutines/definition")
}

// taken returns the bytes of the heap in use and the number of goroutines.
func taken() (float64, int) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc), runtime.NumGoroutine()
}

// allEstablished waits until n definitions are established. It returns false if the watch ends before.
func allEstablished(w watch.Interface, n int) bool {
	names := map[string]bool{}
	for e := range w.ResultChan() {
		if crd, ok := e.Object.(*apiextensionsv1.CustomResourceDefinition); ok && apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
			names[crd.Name] = true
		}
		if len(names) == n {
			return true
		}
	}
	return false
}
