package customresources_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/cluster"
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
