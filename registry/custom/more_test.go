package custom_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry/custom"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func rule(text string) apiextensionsv1.ValidationRule {
	return apiextensionsv1.ValidationRule{Rule: text}
}

func scaled(t *testing.T, selector string) *custom.Version {
	t.Helper()
	return storage(t, parse(t, `- {name: v1, served: true, storage: true, subresources: {scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size`+selector+
		`}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`))
}

func TestScale(t *testing.T) {
	v := scaled(t, ", labelSelectorPath: .status.selector")
	u := widget(t, "spec: {size: 3}\nstatus: {size: 2, selector: a=b}")
	u.SetUID("u")
	s, err := v.Scale(u)
	if err != nil || s.Spec.Replicas != 3 || s.Status.Replicas != 2 || s.Status.Selector != "a=b" || s.Name != "w" || s.Namespace != "ns" ||
		s.UID != "u" || s.ResourceVersion != "1" || s.Kind != "Scale" || s.APIVersion != "autoscaling/v1" || !v.HasScale() {
		t.Errorf("scale %+v %v", s, err)
	}
	if err := v.SetReplicas(u, 5); err != nil || jsonOf(t, u.Object["spec"]) != `{"size":5}` {
		t.Errorf("set to %v, %v", u.Object["spec"], err)
	}
	s, err = v.Scale(widget(t, "status: {size: 2}"))
	if !errors.Is(err, custom.ErrNoReplicas) || err.Error() != `the spec replicas field ".spec.size" does not exist` || s.Status.Replicas != 2 {
		t.Errorf("without replicas: %+v %v", s, err)
	}
	for _, fields := range []string{"spec: {size: x}", "spec: {size: 1}\nstatus: {size: x}", "spec: {size: 1}\nstatus: {selector: 1}"} {
		if s, err := v.Scale(widget(t, fields)); err == nil {
			t.Errorf("%s: %+v", fields, s)
		}
	}
	if err := v.SetReplicas(widget(t, "spec: 1"), 5); err == nil {
		t.Error("a number has fields")
	}
	if s, err := scaled(t, "").Scale(u); err != nil || s.Status.Selector != "" {
		t.Errorf("without a selector: %+v %v", s, err)
	}
	none := define(t, anything, anything)
	if _, err := none.Scale(u); !errors.Is(err, custom.ErrNoScale) {
		t.Errorf("no error: %v", err)
	}
	if err := none.SetReplicas(u, 1); !errors.Is(err, custom.ErrNoScale) {
		t.Errorf("no error: %v", err)
	}
}

func TestValidateScale(t *testing.T) {
	v := scaled(t, ", labelSelectorPath: .status.selector")
	old := widget(t, "")
	for fields, want := range map[string][]string{
		"":                                     nil,
		"spec: {size: 2147483647}":             nil,
		"spec: {size: -1}\nstatus: {size: -1}": {".spec.size: Invalid value: -1: should be a non-negative integer", ".status.size: Invalid value: -1: should be a non-negative integer"},
		"spec: {size: 2147483648}":             {".spec.size: Invalid value: 2147483648: should be less than or equal to 2147483647"},
		"spec: {size: x}":                      {".spec.size: Invalid value: 0: .spec.size accessor error: x is of the type string, expected int64"},
		"status: {size: 2147483648, selector: 1}": {".status.size: Invalid value: 2147483648: should be less than or equal to 2147483647", `.status.selector: Invalid value: "": .status.selector accessor error: 1 is of the type int64, expected string`},
	} {
		equal(t, v.Validate(context.Background(), widget(t, fields)), want)
		equal(t, v.ValidateUpdate(context.Background(), widget(t, fields), old), want)
		want = slices.DeleteFunc(slices.Clone(want), func(text string) bool { return strings.HasPrefix(text, ".spec") })
		equal(t, v.ValidateStatusUpdate(context.Background(), widget(t, fields), old), want)
	}
}

func TestColumns(t *testing.T) {
	v := storage(t, parse(t, `- name: v1
  served: true
  storage: true
  schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
  additionalPrinterColumns:
  - {name: S, type: string, jsonPath: .s, description: text, priority: 1, format: byte}
  - {name: I, type: integer, jsonPath: .i}
  - {name: F, type: number, jsonPath: .f}
  - {name: B, type: boolean, jsonPath: .b}
  - {name: D, type: date, jsonPath: .d}`))
	columns := v.Columns()
	if d := columns.Definitions; len(d) != 6 || d[0].Format != "name" ||
		!reflect.DeepEqual(d[1], metav1.TableColumnDefinition{Name: "S", Type: "string", Format: "byte", Description: "text", Priority: 1}) ||
		d[2].Description != "Custom resource definition column (in JSONPath format): .i" {
		t.Errorf("columns %+v", d)
	}
	ago := now.Add(-time.Hour).Format(time.RFC3339)
	for fields, want := range map[string][]any{
		"":                                       {"w", nil, nil, nil, nil, nil},
		"s: x\ni: 1\nf: 1.5\nb: true\nd: " + ago: {"w", "x", int64(1), 1.5, true, "60m"},
		"s: 1\ni: 1.5\nf: 1\nb: x\nd: x":         {"w", "1", int64(1), float64(1), nil, "<invalid>"},
		"s: {a: [1]}\ni: x\nf: x\nb: 1\nd: 1":    {"w", `{"a":[1]}`, nil, nil, nil, nil},
		"s: null\nd: ''":                         {"w", "<no value>", nil, nil, nil, "<unknown>"},
	} {
		if got := columns.Cells(widget(t, fields), now); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %#v, want %#v", fields, got, want)
		}
	}
}

// TestOddColumns: definitions without columns show the age, and paths that cannot be read end the columns.
func TestOddColumns(t *testing.T) {
	crd := parse(t, `- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}`)
	u := widget(t, "a: x")
	u.SetCreationTimestamp(metav1.NewTime(now.Add(-time.Minute)))
	plain := storage(t, crd).Columns()
	if got := plain.Cells(u, now); !reflect.DeepEqual(got, []any{"w", "60s"}) || plain.Definitions[1].Name != "Age" || plain.Definitions[1].Type != "date" {
		t.Errorf("without columns: %v %+v", got, plain.Definitions)
	}
	crd.Spec.Versions[0].AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{
		{Name: "A", Type: "string", JSONPath: ".l[*].k"}, {Name: "B", Type: "string", JSONPath: ".a[0]"},
	}
	if got := storage(t, crd).Columns().Cells(widget(t, "a: x\nl: [{}, {k: u}, {k: v}]"), now); !reflect.DeepEqual(got, []any{"w", "u", nil}) {
		t.Errorf("several values: %v", got)
	}
	for _, path := range []string{".a[", `.a} {range .items[*]}{.x}{end`} {
		crd.Spec.Versions[0].AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{
			{Name: "A", Type: "string", JSONPath: ".a"}, {Name: "B", Type: "string", JSONPath: path}, {Name: "C", Type: "string", JSONPath: ".a"},
		}
		columns := storage(t, crd).Columns()
		if got := columns.Cells(u, now); !reflect.DeepEqual(got, []any{"w", "x"}) || len(columns.Definitions) != 2 {
			t.Errorf("%s: %v", path, got)
		}
	}
}

func TestFields(t *testing.T) {
	crd := parse(t, `- name: v1
  served: true
  storage: true
  schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {s: {type: string}, i: {type: integer}, b: {type: boolean}}}}}}
  selectableFields: [{jsonPath: .spec.s}, {jsonPath: .spec.i}, {jsonPath: .spec.b}]`)
	v := storage(t, crd)
	if got := v.SelectableFields(); !slices.Equal(got, []string{"spec.s", "spec.i", "spec.b"}) {
		t.Errorf("fields %q", got)
	}
	for fields, want := range map[string]string{
		"": "spec.b=,spec.i=,spec.s=", "spec: {s: x, i: 5, b: false}": "spec.b=false,spec.i=5,spec.s=x", "spec: {s: null}": "spec.b=,spec.i=,spec.s=",
	} {
		if got := v.Fields(widget(t, fields)).String(); got != want {
			t.Errorf("%s: %s, want %s", fields, got, want)
		}
	}
	crd.Spec.Versions[0].SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec["}, {JSONPath: ".spec.*"}, {JSONPath: ".spec.s}{.spec.i"}, {JSONPath: ".spec.s[0]"}}
	if got := storage(t, crd).Fields(widget(t, "spec: {s: x, i: 5}")).String(); got != "spec.*=,spec.s[0]=,spec.s}{.spec.i=,spec[=" {
		t.Errorf("odd paths: %s", got)
	}
}

func TestPrepare(t *testing.T) {
	with, without := define(t, anything, anything), scaled(t, "")
	obj := widget(t, "spec: {a: 1}\nstatus: {b: 1}")
	created := obj.DeepCopy()
	with.PrepareCreate(created)
	if _, ok := created.Object["status"]; ok || created.GetGeneration() != 1 {
		t.Errorf("created as %v", created.Object)
	}
	created = obj.DeepCopy()
	without.PrepareCreate(created)
	if _, ok := created.Object["status"]; !ok || created.GetGeneration() != 1 {
		t.Errorf("created as %v", created.Object)
	}
	for name, tt := range map[string]struct {
		v          *custom.Version
		old, in    string
		want       string
		generation int64
	}{
		"nothing":                  {with, "spec: {a: 1}", "spec: {a: 1}", `{"spec":{"a":1}}`, 3},
		"the spec":                 {with, "spec: {a: 1}", "spec: {a: 2}", `{"spec":{"a":2}}`, 4},
		"another field":            {with, "spec: {a: 1}", "spec: {a: 1}\nother: 1", `{"other":1,"spec":{"a":1}}`, 4},
		"the status":               {with, "status: {b: 1}", "status: {b: 2}", `{"status":{"b":1}}`, 3},
		"a new status":             {with, "", "status: {b: 2}", `{}`, 3},
		"a status that is removed": {with, "status: {b: 1}", "", `{"status":{"b":1}}`, 3},
		"no subresource":           {without, "status: {b: 1}", "status: {b: 2}", `{"status":{"b":2}}`, 4},
	} {
		t.Run(name, func(t *testing.T) {
			old, next := widget(t, tt.old), widget(t, tt.in)
			old.SetGeneration(3)
			next.SetGeneration(9)
			next.SetLabels(map[string]string{"x": "y"})
			was := jsonOf(t, old)
			tt.v.PrepareUpdate(next, old)
			if next.GetGeneration() != tt.generation || next.GetLabels()["x"] != "y" {
				t.Errorf("metadata %v", next.Object["metadata"])
			}
			for _, f := range []string{"metadata", "apiVersion", "kind"} {
				delete(next.Object, f)
			}
			if got := jsonOf(t, next); got != tt.want {
				t.Errorf("updated to %s, want %s", got, tt.want)
			}
			if status, ok := next.Object["status"].(map[string]any); ok {
				status["b"] = int64(9)
			}
			if jsonOf(t, old) != was {
				t.Errorf("the old object became %v", old)
			}
		})
	}
}

func TestPrepareStatus(t *testing.T) {
	v := define(t, anything, anything)
	old := widget(t, "spec: {a: 1}\nstatus: {b: 1}")
	for in, want := range map[string]string{
		"spec: {a: 2}\nother: 1\nstatus: {b: 2}": `{"spec":{"a":1},"status":{"b":2}}`,
		"spec: {a: 2}":                           `{"spec":{"a":1}}`,
	} {
		next := widget(t, in)
		next.SetLabels(map[string]string{"x": "y"})
		next.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "m"}})
		v.PrepareStatus(next, old)
		if next.GetLabels() != nil || len(next.GetManagedFields()) != 1 || next.GetName() != "w" || len(old.GetManagedFields()) != 0 {
			t.Errorf("metadata %v", next.Object["metadata"])
		}
		for _, f := range []string{"metadata", "apiVersion", "kind"} {
			delete(next.Object, f)
		}
		if got := jsonOf(t, next); got != want {
			t.Errorf("updated to %s, want %s", got, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	finalizers := func(names ...string) object {
		u := widget(t, "")
		u.SetFinalizers(names)
		return u
	}
	const prefer = "prefer a domain-qualified finalizer name"
	all := []string{"b", "a.b", "x.y/z", "orphan", "foregroundDeletion", "kubernetes", "b", "a b"}
	want := []string{
		`metadata.finalizers: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
		`metadata.finalizers: "a b": ` + prefer + " to avoid accidental conflicts with other finalizer writers",
		`metadata.finalizers: "a.b": ` + prefer + " including a path (/) to avoid accidental conflicts with other finalizer writers",
		`metadata.finalizers: "b": ` + prefer + " to avoid accidental conflicts with other finalizer writers",
	}
	if got := custom.Warnings(finalizers(all...), nil); !slices.Equal(got, want) {
		t.Errorf("created: %q", got)
	}
	if got := custom.Warnings(finalizers(all...), finalizers("b", "a b")); !slices.Equal(got, want[2:3]) {
		t.Errorf("updated: %q", got)
	}
}

func TestRead(t *testing.T) {
	definition := func(name string) string {
		return `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ` + name + `.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: K, plural: ` + name + `}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, description: "--- x"}}}]
status: {storedVersions: [v0]}
`
	}
	crds, err := custom.Read([]byte("# a comment\n---\n" + definition("as") + "---\n--- # another\n" + definition("bs")))
	if err != nil || len(crds) != 2 || crds[0].Name != "as.example.com" || crds[1].Name != "bs.example.com" {
		t.Fatalf("%d definitions, %v", len(crds), err)
	}
	if crd := crds[0]; crd.Spec.Names.ListKind != "KList" || !slices.Equal(crd.Status.StoredVersions, []string{"v1"}) || crd.Generation != 1 {
		t.Errorf("read as %+v", crd)
	}
	// A line that begins with dashes does not always begin a document.
	flow := strings.Replace(jsonOf(t, crds[0]), `"type":"object"`, "\"type\":\"object\",\"title\":\"a\n---b\"", 1)
	flow = strings.Replace(flow, "{", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",`, 1)
	if crds, err := custom.Read([]byte(flow)); err != nil || len(crds) != 1 || crds[0].Spec.Versions[0].Schema.OpenAPIV3Schema.Title != "a ---b" {
		t.Errorf("%d definitions, %v", len(crds), err)
	}
	for name, tt := range map[string]struct{ text, want string }{
		"no schema":       {strings.Replace(definition("as"), `, schema: {openAPIV3Schema: {type: object, description: "--- x"}}`, "", 1), "schema.openAPIV3Schema: Required value"},
		"malformed":       {definition("as") + "---\na: [", "document 2: yaml: line 2"},
		"another kind":    {"apiVersion: v1\nkind: Pod", "/v1, Kind=Pod is not apiextensions.k8s.io/v1, Kind=CustomResourceDefinition"},
		"another type":    {"[]", "cannot unmarshal array"},
		"unknown field":   {strings.Replace(definition("as"), "  scope", "  size: 1\n  scope", 1), `unknown field "spec.size"`},
		"duplicate field": {strings.Replace(definition("as"), "  scope", "  scope: x\n  scope", 1), `key "scope" already set in map`},
		"invalid":         {strings.Replace(definition("as"), "kind: K,", "kind: 0K,", 1), `spec.names.kind: Invalid value: "0K"`},
		"invalid name":    {strings.Replace(definition("as"), "name: as", "name: bs", 1), `metadata.name: Invalid value: "bs.example.com": must be`},
		"no name":         {strings.Replace(definition("as"), "name: as.example.com", "labels: {a b: c}", 1), `metadata.labels: Invalid value: "a b"`},
		"aliases":         {"a: &a [x, x, x, x, x, x, x, x, x, x]\n" + aliases(), "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := custom.Read([]byte(tt.text)); !errors.Is(err, custom.ErrDefinition) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
}

// aliases returns a text that stands for 10^9 values.
func aliases() string {
	text := ""
	for c := 'b'; c < 'j'; c++ {
		text += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+", ", 9) + "*" + string(c-1) + "]\n"
	}
	return text
}

const twoVersions = `- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {a: {type: integer}, b: {type: integer, default: 7}}}}}}}
- {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {a: {type: integer}, c: {type: integer, default: 8}}}}}}}
`

func TestConvertByName(t *testing.T) {
	r, err := custom.New(parse(t, twoVersions), custom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	u := widget(t, "spec: {a: 1, b: 2}")
	before := jsonOf(t, u)
	got, err := r.Convert(context.Background(), u, "v2")
	if err != nil || got.GetAPIVersion() != "example.com/v2" || jsonOf(t, got.Object["spec"]) != `{"a":1}` || jsonOf(t, u) != before {
		t.Errorf("converted to %v, %v; argument %v", got, err, u)
	}
	odd := widget(t, "")
	odd.Object["metadata"] = map[string]any{"labels": map[string]any{"a": int64(1)}}
	if got, err := r.Convert(context.Background(), odd, "v2"); err == nil {
		t.Errorf("malformed metadata converted to %v", got)
	}
	if _, err := r.Convert(context.Background(), u, "v3"); !errors.Is(err, custom.ErrVersion) || !strings.HasPrefix(err.Error(), "request to convert CR to an invalid group/version: example.com/v3") {
		t.Errorf("error %v", err)
	}
	for _, from := range []string{"example.com/v3", "v1"} {
		u.SetAPIVersion(from)
		if _, err := r.Convert(context.Background(), u, "v1"); !errors.Is(err, custom.ErrVersion) || !strings.HasPrefix(err.Error(), "request to convert CR from an invalid group/version: "+from) {
			t.Errorf("error %v", err)
		}
	}
}

func TestConvertByWebhook(t *testing.T) {
	crd := parseSpec(t, "conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: 'https://x.example'}}}\nversions:\n"+twoVersions)
	const failed = "conversion webhook for example.com/v1, Kind=Widget "
	set := func(path ...string) func(object) object {
		return func(u object) object {
			at := u.Object
			for _, p := range path[:len(path)-2] {
				at = at[p].(map[string]any)
			}
			at[path[len(path)-2]] = path[len(path)-1]
			return u
		}
	}
	for name, tt := range map[string]struct {
		change func(object) object
		want   string // of one
		listed string // of several
	}{
		"metadata stays": {func(u object) object {
			u.SetFinalizers([]string{"x"})
			u.SetLabels(map[string]string{"new": "1"})
			u.SetAnnotations(nil)
			return u
		}, "", ""},
		"another version":   {set("apiVersion", "example.com/v3"), "returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v3)", "returned invalid converted object at index 1: invalid groupVersion (expected example.com/v2, received example.com/v3)"},
		"another kind":      {set("kind", "Gadget"), "returned invalid object at index 0: invalid kind (expected Widget, received Gadget)", "returned invalid converted object at index 1: invalid kind (expected Widget, received Gadget)"},
		"another name":      {set("metadata", "name", "x"), "returned invalid object: must have the same name: w != x", "returned invalid converted object at index 1: must have the same name: w != x"},
		"another namespace": {set("metadata", "namespace", "x"), "returned invalid object: must have the same namespace: ns != x", "returned invalid converted object at index 1: must have the same namespace: ns != x"},
		"another UID":       {set("metadata", "uid", "x"), "returned invalid object: must have the same UID: u != x", "returned invalid converted object at index 1: must have the same UID: u != x"},
		"odd labels":        {set("metadata", "labels", "x"), "returned invalid metadata: invalid metadata.labels of type string in converted object", "returned invalid metadata in object at index 1: invalid metadata.labels of type string in converted object"},
		"odd label": {func(u object) object {
			u.Object["metadata"].(map[string]any)["labels"] = map[string]any{"a": int64(1)}
			return u
		}, "returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object", "returned invalid metadata in object at index 1: metadata.labels[a] must be a string, but is int64 in converted object"},
		"invalid label":      {func(u object) object { u.SetLabels(map[string]string{"": ""}); return u }, "returned invalid metadata: [metadata.labels: Invalid value: \"\": name part must be non-empty", ""},
		"invalid annotation": {func(u object) object { u.SetAnnotations(map[string]string{"": ""}); return u }, "returned invalid metadata: [metadata.annotation: Invalid value: \"\": name part must be non-empty", ""},
		"nothing":            {func(object) object { return nil }, "returned invalid object at index 0: missing metadata in converted object", ""},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			r, err := custom.New(crd, custom.Options{Converter: custom.ConverterFunc(func(_ context.Context, objs []object, to schema.GroupVersion) ([]object, error) {
				calls++
				for i := range objs {
					objs[i].SetAPIVersion(to.String())
					objs[i].Object["spec"].(map[string]any)["c"] = int64(5)
				}
				objs[len(objs)-1] = tt.change(objs[len(objs)-1])
				return objs, nil
			})})
			if err != nil {
				t.Fatal(err)
			}
			u := widget(t, "spec: {a: 1}")
			u.SetUID("u")
			u.SetLabels(map[string]string{"old": "1"})
			u.SetAnnotations(map[string]string{"old": "1"})
			got, err := r.Convert(context.Background(), u, "v2")
			if tt.want != "" {
				if err == nil || !strings.HasPrefix(err.Error(), failed+tt.want) {
					t.Errorf("error %v, want %s", err, failed+tt.want)
				}
				same := u.DeepCopy()
				same.SetAPIVersion("example.com/v2")
				_, err = r.ConvertAll(context.Background(), []object{u, same, u}, "v2")
				if err == nil || tt.listed != "" && err.Error() != failed+tt.listed {
					t.Errorf("error %v, want %s", err, failed+tt.listed)
				}
				return
			}
			if err != nil || len(got.GetFinalizers()) > 0 || len(got.GetLabels()) != 1 || got.GetLabels()["new"] != "1" || got.GetAnnotations() != nil || jsonOf(t, got.Object["spec"]) != `{"a":1,"c":5}` {
				t.Errorf("converted to %v, %v", got, err)
			}
			if same, err := r.Convert(context.Background(), u, "v1"); err != nil || calls != 1 || jsonOf(t, same) != jsonOf(t, u) {
				t.Errorf("%d calls, %v", calls, err)
			}
		})
	}
	// What was invalid before may stay, and what had no metadata needs some.
	r, err := custom.New(crd, custom.Options{Converter: custom.ConverterFunc(func(_ context.Context, objs []object, to schema.GroupVersion) ([]object, error) {
		objs[0].SetAPIVersion(to.String())
		if labels := objs[0].GetLabels(); labels["change"] != "" {
			labels["change"] = "b c"
			objs[0].SetLabels(labels)
		}
		return objs, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	u := widget(t, "")
	u.SetLabels(map[string]string{"a b": ""})
	if got, err := r.Convert(context.Background(), u, "v2"); err != nil || len(got.GetLabels()) != 1 {
		t.Errorf("unchanged labels: %v %v", got, err)
	}
	u.SetLabels(map[string]string{"change": "a"})
	if got, err := r.Convert(context.Background(), u, "v2"); err == nil {
		t.Errorf("changed labels: %v", got)
	}
	u.SetLabels(map[string]string{"change": "a", "other": "b"})
	if got, err := r.Convert(context.Background(), u, "v2"); err == nil {
		t.Errorf("one changed label: %v", got)
	}
	delete(u.Object, "metadata")
	if _, err := r.Convert(context.Background(), u, "v2"); err == nil || !strings.HasSuffix(err.Error(), "returned invalid metadata: missing metadata in converted object") {
		t.Errorf("without metadata: %v", err)
	}

	broken := errors.New("broken")
	for want, answer := range map[string]func([]object) ([]object, error){
		failed + "failed: broken":                 func([]object) ([]object, error) { return nil, broken },
		failed + "returned 0 objects, expected 1": func([]object) ([]object, error) { return nil, nil },
	} {
		r, err := custom.New(crd, custom.Options{Converter: custom.ConverterFunc(func(_ context.Context, objs []object, _ schema.GroupVersion) ([]object, error) { return answer(objs) })})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Convert(context.Background(), widget(t, ""), "v2"); err == nil || err.Error() != want || strings.HasSuffix(want, "broken") && !errors.Is(err, broken) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	r, err = custom.New(crd, custom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Convert(context.Background(), widget(t, ""), "v2"); !errors.Is(err, custom.ErrNoConverter) {
		t.Errorf("without a converter: %v", err)
	}
	if _, err := r.Convert(context.Background(), widget(t, ""), "v1"); err != nil {
		t.Errorf("without a conversion: %v", err)
	}
}
