package policies_test

import (
	"testing"
	"testing/synctest"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/custom"
)

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {
      size: {type: integer}, color: {type: string, default: red}, tags: {type: array, x-kubernetes-list-type: set, items: {type: string}},
      parts: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {type: object, required: [name], properties: {name: {type: string}, size: {type: integer}}}},
      whole: {type: array, items: {type: string}}}}}}}}
  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}, color: {type: string}}}}}}}
`

// widgets is the kind of the definition.
func widgets(t *testing.T) registry.Kind {
	t.Helper()
	crds, err := custom.Read([]byte(definition))
	if err != nil {
		t.Fatal(err)
	}
	resource, err := custom.New(crds[0], custom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return resource.Kind()
}

func widget(version, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/" + version, "kind": "Widget", "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

var widgetsV = func(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "example.com", Version: version, Resource: "widgets"}
}

// TestParams is about the parameters of a policy, by the answer to the creation of the config map m with data x=y.
func TestParams(t *testing.T) {
	ref := func(of registrationv1.ParamRef) *registrationv1.ParamRef {
		if of.ParameterNotFoundAction == nil {
			of.ParameterNotFoundAction = new(registrationv1.DenyAction)
		}
		return &of
	}
	kind := func(apiVersion, kind string) *registrationv1.ParamKind {
		return &registrationv1.ParamKind{APIVersion: apiVersion, Kind: kind}
	}
	labelled := &metav1.LabelSelector{MatchLabels: map[string]string{"param": "yes"}}
	configMaps, namespaces := kind("v1", "ConfigMap"), kind("v1", "Namespace")
	const binding = "failed to configure binding: "
	for name, tt := range map[string]struct {
		kind       *registrationv1.ParamKind
		ref        *registrationv1.ParamRef
		expression string
		want       string
	}{
		"by name":                    {configMaps, ref(registrationv1.ParamRef{Name: "one", Namespace: "params"}), "params.data.x == object.data.x", ""},
		"its type":                   {configMaps, ref(registrationv1.ParamRef{Name: "one", Namespace: "params"}), "params.kind == 'ConfigMap' && params.apiVersion == 'v1' && params.metadata.namespace == 'params'", ""},
		"of the object's namespace":  {configMaps, ref(registrationv1.ParamRef{Name: "one"}), "params.data.x == 'of default'", ""},
		"refused by it":              {configMaps, ref(registrationv1.ParamRef{Name: "two", Namespace: "params"}), "params.data.x == object.data.x", "failed expression: params.data.x == object.data.x"},
		"missing":                    {configMaps, ref(registrationv1.ParamRef{Name: "none", Namespace: "params"}), "true", binding + "no params found for policy binding with `Deny` parameterNotFoundAction"},
		"missing, allowed":           {configMaps, ref(registrationv1.ParamRef{Name: "none", Namespace: "params", ParameterNotFoundAction: new(registrationv1.AllowAction)}), "false", ""},
		"by selector, each of them":  {configMaps, ref(registrationv1.ParamRef{Selector: labelled, Namespace: "params"}), "params.data.x == object.data.x", "failed expression: params.data.x == object.data.x"},
		"by selector":                {configMaps, ref(registrationv1.ParamRef{Selector: labelled, Namespace: "params"}), "params.metadata.name in ['one', 'two']", ""},
		"all of the namespace":       {configMaps, ref(registrationv1.ParamRef{Selector: &metav1.LabelSelector{}, Namespace: "params"}), "params.metadata.name in ['one', 'two']", "failed expression: params.metadata.name in ['one', 'two']"},
		"none selected":              {configMaps, ref(registrationv1.ParamRef{Selector: labelled, Namespace: "default"}), "false", binding + "no params found for policy binding with `Deny` parameterNotFoundAction"},
		"none selected, allowed":     {configMaps, ref(registrationv1.ParamRef{Selector: labelled, Namespace: "default", ParameterNotFoundAction: new(registrationv1.AllowAction)}), "false", ""},
		"without a reference":        {configMaps, nil, "params == null", ""},
		"cluster-scoped":             {namespaces, ref(registrationv1.ParamRef{Name: "params"}), "params.metadata.labels.a == 'b'", ""},
		"cluster-scoped by selector": {namespaces, ref(registrationv1.ParamRef{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}), "params.metadata.name == 'params'", ""},
		"cluster-scoped, namespace":  {namespaces, ref(registrationv1.ParamRef{Name: "params", Namespace: "params"}), "true", binding + "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"},
		"custom":                     {kind("example.com/v1", "Widget"), ref(registrationv1.ParamRef{Name: "w", Namespace: "params"}), "params.spec.size == 3 && params.kind == 'Widget' && params.apiVersion == 'example.com/v1'", ""},
		"custom, in another version": {kind("example.com/v2", "Widget"), ref(registrationv1.ParamRef{Selector: &metav1.LabelSelector{}, Namespace: "params"}), "params.spec.size == 3 && params.apiVersion == 'example.com/v2'", ""},
		"unknown kind":               {kind("example.com/v1", "Gadget"), ref(registrationv1.ParamRef{Name: "w", Namespace: "params"}), "true", "failed to configure policy: failed to find resource referenced by paramKind: 'example.com/v1, Kind=Gadget'"},
		"a reference, but no kind":   {nil, ref(registrationv1.ParamRef{Name: "none", Namespace: "params"}), "true", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := start(t, nil, widgets(t))
				client := clientOf(t, c.Config())
				all, err := dynamic.NewForConfig(c.Config())
				if err != nil {
					t.Fatal(err)
				}
				store(t, client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "params", Labels: map[string]string{"a": "b"}}}, configMap("one", map[string]string{"x": "of default"}))
				for name, x := range map[string]string{"one": "y", "two": "z", "three": "y"} {
					m := configMap(name, map[string]string{"x": x})
					if name != "three" {
						m.Labels = map[string]string{"param": "yes"}
					}
					if _, err := client.CoreV1().ConfigMaps("params").Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := all.Resource(widgetsV("v1")).Namespace("params").Create(t.Context(), widget("v1", "w", map[string]any{"size": int64(3)}), metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				p, b := validating("p", tt.expression), bound("p")
				p.Spec.ParamKind, b.Spec.ParamRef = tt.kind, tt.ref
				store(t, client, p, b)
				want := ""
				if tt.want != "" {
					want = denied + tt.want
					if tt.kind != nil && tt.kind.Kind == "Gadget" {
						want = `configmaps "m" is forbidden: ValidatingAdmissionPolicy 'p' denied request: ` + tt.want
					}
				}
				if got := attempt(t, client); got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			})
		})
	}
}

// A cluster-scoped object has no namespace to look for parameters in.
func TestParamsOfClusterScoped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := clientOf(t, start(t, nil).Config())
		p, b := validating("p", "true"), bound("p")
		p.Spec.MatchConstraints = on("nodes", "*")
		p.Spec.ParamKind = &registrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
		b.Spec.ParamRef = &registrationv1.ParamRef{Name: "one", ParameterNotFoundAction: new(registrationv1.AllowAction)}
		store(t, client, p, b)
		_, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
		want := `nodes "n" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: failed to configure binding: cannot use namespaced paramRef in policy binding that matches cluster-scoped resources`
		if err == nil || err.Error() != want {
			t.Errorf("got %v", err)
		}
		// It has no namespace object either.
		p.Name, p.Spec.ParamKind, p.Spec.Validations[0].Expression = "q", nil, "namespaceObject == null"
		if err := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		p.Spec.MatchConstraints = on("*", registrationv1.Create)
		store(t, client, p, bound("q"))
		if _, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		store(t, client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "own"}}) // it is not in itself
	})
}
