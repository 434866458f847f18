package openapi_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/apiserver/openapi"
	"github.com/keelson-dev/keelson/registry"
)

// Widget is a kind that no generator has seen.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WidgetSpec `json:"spec"`
	Status *Part      `json:"status,omitempty"`
}

// WidgetSpec has a field of each shape.
type WidgetSpec struct {
	Size     int32                   `json:"size"`
	Weight   *float64                `json:"weight"`
	Names    []string                `json:"names,omitempty"`
	Limits   corev1.ResourceList     `json:"limits,omitempty"`
	Amount   resource.Quantity       `json:"amount"`
	Port     intstr.IntOrString      `json:"port"`
	Raw      runtime.RawExtension    `json:"raw"`
	Data     []byte                  `json:"data,omitempty"`
	Free     map[string]any          `json:"free,omitempty"`
	Parts    []Part                  `json:"parts,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	Pair     Pair[string, Part]      `json:"pair,omitzero"`
	Nameless struct{ A, B bool }     `json:"nameless"`
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`
	Hidden   string                  `json:"-"`
}

// Part contains itself.
type Part struct {
	Name  string `json:"name"`
	Inner *Part  `json:"inner,omitempty"`
}

// SwaggerDoc implements what generated types have.
func (Part) SwaggerDoc() map[string]string {
	return map[string]string{"": "Part is a part.", "name": "The part's name.", "inner": "A part of it."}
}

// Pair is generic.
type Pair[A, B any] struct {
	First  A `json:"first"`
	Second B `json:"second"`
}

// WidgetList is a list.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Widget `json:"items"`
}

func (w *Widget) DeepCopyObject() runtime.Object     { c := *w; return &c }
func (l *WidgetList) DeepCopyObject() runtime.Object { c := *l; return &c }

// everything are documents of upstream's kinds and of users' kinds.
func everything() *openapi.Documents {
	gv := schema.GroupVersion{Group: "things.example.com", Version: "v1"}
	widgets := registry.Definition[*Widget]{
		Names: registry.Names{Kind: "Widget", Plural: "widgets", Singular: "widget"}, GroupVersion: gv, Namespaced: true,
		New: func() *Widget { return &Widget{} }, NewList: func() runtime.Object { return &WidgetList{} },
	}.Kind()
	open := registry.Definition[*unstructured.Unstructured]{
		Names: registry.Names{Kind: "Open", Plural: "opens", Singular: "open"}, GroupVersion: gv,
		New:     func() *unstructured.Unstructured { return &unstructured.Unstructured{} },
		NewList: func() runtime.Object { return &unstructured.UnstructuredList{} },
	}.Kind()
	return openapi.New(append(kinds(), widgets, open), openapi.Options{Issuer: true})
}

// TestTypes: kinds without generated definitions get some made of their fields.
func TestTypes(t *testing.T) {
	d := everything()
	v3 := document(t, d, "/openapi/v3/apis/things.example.com/v1")
	schemas := v3["components"].(map[string]any)["schemas"].(map[string]any)
	var out strings.Builder
	writePaths(&out, v3, "/widgets/{name}")
	for name := range schemas {
		if strings.HasPrefix(name, "io.k8s.") && !strings.HasSuffix(name, ".WatchEvent") {
			delete(schemas, name)
		}
	}
	writeJSON(&out, schemas)
	const file = "testdata/types.golden"
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("go test -update writes it anew; differences (-golden +now):\n%s", diff)
	}
	part := document(t, d, "/openapi/v2")["definitions"].(map[string]any)
	if _, ok := part["com.example.things.v1.Widget"]; !ok {
		t.Error("v2 does not define the kind")
	}
}
