package manifest_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/keelson-dev/keelson/client/manifest"
	"github.com/keelson-dev/keelson/internal/boundedyaml"
)

// read returns what Read yields, a line for each object, and the error.
func read(text string) (lines []string, err error) {
	for obj, err := range manifest.Read([]byte(text)) {
		if err != nil {
			return lines, err
		}
		lines = append(lines, fmt.Sprintf("%d %s %s %s", obj.Document, obj.APIVersion, obj.Kind, obj.JSON))
	}
	return lines, nil
}

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"nothing":  {"", nil},
		"comments": {"# a\n---\n# b\n---\n", nil},
		"YAML": {
			"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n--- \nkind: Service\napiVersion: v1\n",
			[]string{`1 v1 Pod {"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`, `2 v1 Service {"apiVersion":"v1","kind":"Service"}`},
		},
		"JSON": {`{"kind": "Pod"}`, []string{`1  Pod {"kind":"Pod"}`}},
		"numbers are left as they are": {
			`{"kind":"PodList","apiVersion":"v1","items":[{"n":9007199254740993,"f":1.5}]}`,
			[]string{`1 v1 Pod {"apiVersion":"v1","f":1.5,"kind":"Pod","n":9007199254740993}`},
		},
		"a list": {
			"kind: List\napiVersion: v1\nitems:\n- {kind: Pod, apiVersion: v1}\n- {kind: Role, apiVersion: rbac.authorization.k8s.io/v1}\n",
			[]string{`1 v1 Pod {"apiVersion":"v1","kind":"Pod"}`, `1 rbac.authorization.k8s.io/v1 Role {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role"}`},
		},
		"a list's kind is that of items without one": {
			`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a"}},{"kind":"Node","apiVersion":"v1"}]}`,
			[]string{`1 v1 Pod {"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`, `1 v1 Node {"apiVersion":"v1","kind":"Node"}`},
		},
		"a list of nothing":                {`{"kind":"PodList","apiVersion":"v1","items":[]}`, nil},
		"items without a kind in List":     {`{"kind":"List","apiVersion":"v1","items":[{}]}`, []string{"1   {}"}},
		"a kind that only sounds like one": {`{"kind":"AccessList","apiVersion":"x/v1"}`, []string{`1 x/v1 AccessList {"apiVersion":"x/v1","kind":"AccessList"}`}},
		"no items":                         {`{"kind":"PodList","items":null}`, []string{`1  PodList {"items":null,"kind":"PodList"}`}},
		"fields in other letters":          {`{"Kind":"Pod","Items":[{}]}`, []string{`1   {"Items":[{}],"Kind":"Pod"}`}},
	} {
		if got, err := read(c.text); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %q, %v instead of %q", name, got, err, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"kind: Pod\n---\nkind: [\n":                "document 2: ",
		"kind: Pod\nkind: Pod\n":                   `key "kind" already set`,
		"- kind: Pod\n":                            `document 1: it is not an object: [{"kind":"Pod"}]`,
		"text":                                     `document 1: it is not an object: "text"`,
		`{"kind":7}`:                               "document 1: ",
		`{"kind":"List","items":[{"items":[]}]}`:   "document 1: items[0]: a list in a list",
		`{"kind":"List","items":[{}, 7]}`:          "document 1: items[1]: ",
		`{"kind":"List","items":[{},{"kind":{}}]}`: "document 1: items[1]: ",
		"a: &a " + strings.Repeat("x", 1<<20) + "\nb: [*a, *a, *a]": "document 1: " + boundedyaml.ErrTooLarge.Error(),
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v instead of %s", text, err, want)
		}
	}
	if lines, err := read("kind: A\n---\nkind: [\n---\nkind: B\n"); len(lines) != 1 || err == nil {
		t.Errorf("after an error: %q, %v", lines, err)
	}
	if _, err := read("a: &a " + strings.Repeat("x", 1<<20) + "\nb: [*a, *a, *a]"); !errors.Is(err, boundedyaml.ErrTooLarge) {
		t.Error(err)
	}
}

// TestLarge: what kubectl writes of a large cluster is one document, and is as large as it is.
func TestLarge(t *testing.T) {
	text := "kind: List\nitems:\n" + strings.Repeat("- {kind: Pod, a: "+strings.Repeat("x", 1000)+"}\n", 4<<10)
	if lines, err := read(text); err != nil || len(lines) != 4<<10 || len(text) < boundedyaml.Limit {
		t.Errorf("%d objects of %d bytes, %v", len(lines), len(text), err)
	}
}

func TestDecode(t *testing.T) {
	known := runtime.NewScheme()
	if err := corev1.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(known).UniversalDeserializer()
	var got []string
	text := "{kind: Pod, apiVersion: v1, metadata: {name: a}}\n---\n{kind: Role, apiVersion: rbac.authorization.k8s.io/v1}\n---\n" +
		"{kind: NodeList, apiVersion: v1, items: [{metadata: {name: node}}]}\n---\n{kind: Pod, apiVersion: v1, spec: 7}\n---\n{kind: Pod, apiVersion: v1}\n"
	for obj, err := range manifest.Decode([]byte(text), decoder) {
		switch obj := obj.(type) {
		case *corev1.Pod:
			got = append(got, "Pod "+obj.Name)
		case *corev1.Node:
			got = append(got, "Node "+obj.Name)
		default:
			got = append(got, fmt.Sprintf("%T %.11v", obj, err))
		}
	}
	if want := []string{"Pod a", "Node node", "<nil> document 4:"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q instead of %q", got, want)
	}
	for _, err := range manifest.Decode([]byte("kind: ["), decoder) {
		if err == nil || !strings.HasPrefix(err.Error(), "document 1: yaml: ") {
			t.Error(err)
		}
	}
	for range manifest.Decode([]byte(text), decoder) {
		break // which must not go on
	}
}
