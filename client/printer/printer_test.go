package printer_test

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/client/printer"
)

// printed is what a printer writes of objects, one after the other.
func printed(t *testing.T, form string, o printer.Options, objects ...runtime.Object) string {
	t.Helper()
	p, err := printer.New(form, o)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, obj := range objects {
		before := obj.DeepCopyObject()
		if err := p.Print(&out, obj); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, obj); diff != "" {
			t.Errorf("printing changed the object: %s", diff)
		}
	}
	return out.String()
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"app": name}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
	}}
}

func TestTypedObjects(t *testing.T) {
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](3)}}
	list := &corev1.PodList{Items: []corev1.Pod{*pod("b"), *pod("a")}}
	kinds := printer.Options{Kinds: scheme.Scheme}
	created := printer.Options{Kinds: scheme.Scheme, Operation: "created (dry run)"}
	for name, test := range map[string]struct {
		form    string
		options printer.Options
		obj     runtime.Object
		want    string
	}{
		"operation":               {"", created, web, "deployment.apps/web created (dry run)\n"},
		"operation and name":      {"name", created, web, "deployment.apps/web\n"},
		"operation and a path":    {"jsonpath={.kind}", created, web, "Deployment"},
		"no name":                 {"name", kinds, &corev1.Pod{}, "pod/<unknown>\n"},
		"yaml":                    {"yaml", kinds, pod("a"), "apiVersion: v1\nkind: Pod\nmetadata:\n  labels:\n    app: a\n  name: a\nspec:\n  containers: null\nstatus: {}\n"},
		"path of numbers":         {"jsonpath={.spec.replicas}", kinds, web, "3"},
		"template":                {"go-template={{.spec.replicas}}", kinds, web, "3"},
		"columns":                 {"custom-columns=N:.metadata.name,R:.spec.replicas,X:.x", kinds, web, "N     R     X\nweb   3     <none>\n"},
		"columns of a list":       {"custom-columns=N:.metadata.name", kinds, list, "N\nb\na\n"},
		"sorted":                  {"custom-columns=N:.metadata.name", printer.Options{SortBy: "metadata.name"}, list, "N\na\nb\n"},
		"table of other things":   {"", printer.Options{Table: printer.Table{Labels: []string{"app"}, ShowLabels: true, Namespaces: true}}, list, "NAMESPACE   NAME   AGE         APP   LABELS\n            b      <unknown>   b     app=b\n            a      <unknown>   a     app=a\n"},
		"with the kind":           {"", printer.Options{Table: printer.Table{ShowKind: true, Kind: schema.GroupKind{Group: "apps", Kind: "Deployment"}}}, web, "NAME                  AGE\ndeployment.apps/web   <unknown>\n"},
		"status":                  {"", printer.Options{}, &metav1.Status{Status: "Failure", Reason: "Gone", Message: "it is"}, "STATUS    REASON   MESSAGE\nFailure   Gone     it is\n"},
		"status, with namespaces": {"", printer.Options{Table: printer.Table{Namespaces: true}}, &metav1.Status{Status: "Failure"}, "NAMESPACE   STATUS    REASON   MESSAGE\n            Failure            \n"},
		"raw JSON":                {"json", printer.Options{}, &runtime.Unknown{Raw: []byte(`{"a":1}`)}, "{\n    \"a\": 1\n}\n"},
		"raw YAML":                {"yaml", printer.Options{}, &runtime.Unknown{Raw: []byte(`{"a":1}`)}, "a: 1\n"},
		"raw KYAML":               {"kyaml", printer.Options{}, &runtime.Unknown{Raw: []byte(`{"a":1}`)}, "---\n{\n  a: 1,\n}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, printed(t, test.form, test.options, test.obj)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestYAMLSeparates(t *testing.T) {
	got := printed(t, "yaml", printer.Options{Kinds: scheme.Scheme}, &corev1.Namespace{}, &corev1.Namespace{})
	if n := strings.Count(got, "\n---\napiVersion: v1\nkind: Namespace"); n != 1 || strings.HasPrefix(got, "---") {
		t.Error(got)
	}
}

func TestHeadersComeAgainWithAnotherForm(t *testing.T) {
	status := &metav1.Status{Status: "Failure"}
	got := printed(t, "", printer.Options{}, pod("a"), pod("b"), status, status)
	want := "NAME   AGE\na      <unknown>\nb     <unknown>\n\nSTATUS    REASON   MESSAGE\nFailure            \nFailure         \n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	columns := func(name string) *metav1.Table {
		return &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{{Name: name, Type: "string"}}, Rows: []metav1.TableRow{{Cells: []any{"x"}}}}
	}
	if diff := cmp.Diff("A\nx\nx\nB\nx\n", printed(t, "", printer.Options{}, columns("a"), columns("a"), columns("b"))); diff != "" {
		t.Error(diff)
	}
}

func TestAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		obj := pod("a")
		obj.CreationTimestamp = metav1.Now()
		time.Sleep(90 * time.Minute)
		if got := printed(t, "", printer.Options{Table: printer.Table{NoHeaders: true}}, obj); got != "a     90m\n" {
			t.Errorf("%q", got)
		}
	})
}

func TestAligned(t *testing.T) {
	var out bytes.Buffer
	a := printer.NewAligned(&out)
	p, err := printer.New("custom-columns=N:.metadata.name,A:.metadata.labels.app", printer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range []runtime.Object{pod("a"), pod("a-longer-name")} {
		if err := p.Print(a, obj); err != nil {
			t.Fatal(err)
		}
	}
	if out.Len() > 0 {
		t.Errorf("written before Flush: %q", out.String())
	}
	if err := a.Flush(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("N               A\na               a\na-longer-name   a-longer-name\n", out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestPrintErrors(t *testing.T) {
	secret := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, StringData: map[string]string{"password": "s3cr3t"}}
	table := &metav1.Table{Rows: []metav1.TableRow{{}, {}}}
	mixed, err := printer.List(
		&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "A", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"x": "y"}}},
		&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "A", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: map[string]string{"x": "z"}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		form    string
		options printer.Options
		obj     runtime.Object
		want    string
	}{
		"no kind, JSON":    {"json", printer.Options{}, pod("a"), "missing apiVersion or kind"},
		"no kind, YAML":    {"yaml", printer.Options{}, pod("a"), "missing apiVersion or kind"},
		"no kind, KYAML":   {"kyaml", printer.Options{}, pod("a"), "missing apiVersion or kind"},
		"no kind, name":    {"name", printer.Options{}, pod("a"), "missing apiVersion or kind"},
		"unknown kind":     {"name", printer.Options{Kinds: runtime.NewScheme()}, pod("a"), "missing apiVersion or kind and cannot assign it"},
		"a typed list":     {"name", printer.Options{}, &corev1.PodList{}, "list types are not supported by name printing: *v1.PodList"},
		"a key":            {"go-template={{.x}}", printer.Options{StrictKeys: true}, secret, `map has no entry for key "x"`},
		"a path":           {"jsonpath={.x}", printer.Options{StrictKeys: true}, secret, "x is not found"},
		"a panic":          {"go-template={{index .metadata 1 2}}", printer.Options{}, secret, "error executing template"},
		"sort, no objects": {"", printer.Options{SortBy: ".a"}, table, "includeObject=Object"},
		"sort, no field":   {"json", printer.Options{SortBy: ".a"}, mixed, "couldn't find any field with path"},
		"sort, maps":       {"json", printer.Options{SortBy: ".metadata.labels"}, mixed, "unsortable type: map[string]interface"},
		"sort, syntax":     {"json", printer.Options{SortBy: ".a["}, mixed, "sorting error: unterminated array"},
		"not an object":    {"", printer.Options{}, &metav1.APIVersions{}, "object does not implement the Object interfaces"},
		"damaged table":    {"", printer.Options{}, &metav1.Table{Rows: []metav1.TableRow{{Object: runtime.RawExtension{Raw: []byte("{")}}}}, "the object of row 0: "},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := printer.New(test.form, test.options)
			if err != nil {
				t.Fatal(err)
			}
			err = p.Print(new(bytes.Buffer), test.obj)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q in it", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("a secret in %v", err)
			}
		})
	}
	if _, err := printer.List(pod("a")); err == nil {
		t.Error("a list of what does not say its kind: no error")
	}
}

func TestNewErrors(t *testing.T) {
	files := fstest.MapFS{
		"path": {Data: []byte("{.kind}")}, "empty": {}, "headers": {Data: []byte("A B\n")}, "fewer": {Data: []byte("A B\n.a\n")}, "bad": {Data: []byte("A\n{\n")},
	}
	if got := printed(t, "jsonpath-file=path", printer.Options{FS: files, Kinds: scheme.Scheme}, pod("a")); got != "Pod" {
		t.Errorf("%q", got)
	}
	for form, want := range map[string]string{
		"custom-columns-file=empty":   "missing header line",
		"custom-columns-file=headers": "missing spec line",
		"custom-columns-file=fewer":   "number of headers (2) and field specifications (1) don't match",
		"custom-columns-file=bad":     "unexpected path string",
		"custom-columns=A:.a[":        "unterminated array",
		"go-template-file=none":       "error reading --template none, open none: file does not exist",
	} {
		if _, err := printer.New(form, printer.Options{FS: files}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", form, err, want)
		}
	}
	if _, err := printer.New("jsonpath-file=none", printer.Options{FS: files}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for _, form := range []string{"wide", "custom-columns=A:.a", "foo", "jsonpathx"} {
		_, err := printer.New(form, printer.Options{Operation: "created"})
		if !errors.Is(err, printer.ErrFormat) || strings.Contains(err.Error(), "wide,") {
			t.Errorf("%s: %v", form, err)
		}
	}
}

func TestSortTyped(t *testing.T) {
	request := func(name, cpu string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}},
		}}}}
	}
	list := &corev1.PodList{Items: []corev1.Pod{request("a", "2"), request("b", "1500m"), request("c", "10m")}}
	for i := range list.Items {
		list.Items[i].CreationTimestamp = metav1.NewTime(time.Unix(int64([]int{20, 30, 10}[i]), 0))
		list.Items[i].Spec.Priority = ptr.To[int32](int32([]int{3, 1, 2}[i]))
	}
	for by, want := range map[string]string{
		".spec.containers[0].resources.requests.cpu": "c b a ", ".metadata.creationTimestamp": "c a b ", ".spec.priority": "b c a ", ".metadata.name": "a b c ",
	} {
		if got := printed(t, "jsonpath={range .items[*]}{.metadata.name} {end}", printer.Options{SortBy: by}, list); got != want {
			t.Errorf("by %s: %s, want %s", by, got, want)
		}
	}
}

func FuzzForms(f *testing.F) {
	for _, seed := range []string{
		"", "wide", "json", "yaml", "kyaml", "name", "jsonpath={.a}", "jsonpath={range .items[?(@.a>1)]}{.b}{end}", "go-template={{.a}}",
		"go-template={{exists . 1}}", "custom-columns=A:.a[*].b,B:b", "jsonpath-as-json={..name}",
	} {
		f.Add(seed, ".metadata.name")
	}
	f.Fuzz(func(_ *testing.T, form, by string) {
		p, err := printer.New(form, printer.Options{Kinds: scheme.Scheme, FS: fstest.MapFS{}, SortBy: by})
		if err != nil {
			return
		}
		list := &corev1.PodList{Items: []corev1.Pod{*pod("a"), *pod("b")}}
		_ = p.Print(new(bytes.Buffer), list)
		_ = p.Print(new(bytes.Buffer), pod("c"))
	})
}
