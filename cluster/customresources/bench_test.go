package customresources_test

import (
	"fmt"
	"runtime"
	"strconv"
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

// BenchmarkThousand measures the time from posting the first of a thousand definitions, one after the other and each as
// large as the mean of a Crossplane provider's, until all are established, in process. kB/definition and
// goroutines/definition are what an idle one takes then, with what the server keeps of recent changes and encodings.
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
			if _, err := crds.Create(b.Context(), provided(n), metav1.CreateOptions{}); err != nil {
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

// provided returns a definition in the shape of a Crossplane provider's: 21 kB of JSON.
func provided(n int) *apiextensionsv1.CustomResourceDefinition {
	const about = "A description of a field, of the length that generated ones have: it says what the field is for, and when to use it."
	text := apiextensionsv1.JSONSchemaProps{Type: "string", Description: about}
	record := func(properties map[string]apiextensionsv1.JSONSchemaProps, required ...string) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Description: about, Properties: properties, Required: required}
	}
	list := func(of apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &of}}
	}
	fields := func() map[string]apiextensionsv1.JSONSchemaProps {
		out := map[string]apiextensionsv1.JSONSchemaProps{"tags": {
			Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &text},
		}}
		for i := range 12 {
			out["field"+strconv.Itoa(i)] = text
		}
		return out
	}
	parameters := func() apiextensionsv1.JSONSchemaProps {
		out := fields()
		out["rules"], out["blocks"] = list(record(fields(), "field0")), list(record(fields(), "field0"))
		return record(out)
	}
	value := func(text string) apiextensionsv1.JSON { return apiextensionsv1.JSON{Raw: []byte(text)} }
	orphan, remove := value(`"Orphan"`), value(`"Delete"`)
	spec := record(map[string]apiextensionsv1.JSONSchemaProps{
		"forProvider": parameters(), "initProvider": parameters(),
		"deletionPolicy": {Type: "string", Default: &remove, Enum: []apiextensionsv1.JSON{orphan, remove}},
	})
	spec.XValidations = apiextensionsv1.ValidationRules{{Rule: "has(self.forProvider)", Message: "spec.forProvider is required"}}
	conditions, keyed := list(record(map[string]apiextensionsv1.JSONSchemaProps{"type": text, "status": text, "reason": text, "message": text}, "type")), "map"
	conditions.XListType, conditions.XListMapKeys = &keyed, []string{"type"}
	whole := record(map[string]apiextensionsv1.JSONSchemaProps{
		"apiVersion": {Type: "string"}, "kind": {Type: "string"}, "metadata": {Type: "object"}, "spec": spec,
		"status": record(map[string]apiextensionsv1.JSONSchemaProps{"atProvider": parameters(), "conditions": conditions}),
	}, "spec")
	kind := "Provided" + strconv.Itoa(n)
	crd := called(kind)
	crd.Spec.Names.Categories = []string{"managed"}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
		Name: "v1beta1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &whole},
		Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
		AdditionalPrinterColumns: []apiextensionsv1.CustomResourceColumnDefinition{
			{Name: "Ready", Type: "string", JSONPath: ".status.conditions[?(@.type=='Ready')].status"},
			{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"},
		},
	}}
	return crd
}
