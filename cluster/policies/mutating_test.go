package policies_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

func jsonPatch(expression string) registrationv1.Mutation {
	return registrationv1.Mutation{PatchType: registrationv1.PatchTypeJSONPatch, JSONPatch: &registrationv1.JSONPatch{Expression: expression}}
}

func apply(expression string) registrationv1.Mutation {
	return registrationv1.Mutation{PatchType: registrationv1.PatchTypeApplyConfiguration, ApplyConfiguration: &registrationv1.ApplyConfiguration{Expression: expression}}
}

// mutating returns a policy for creates and updates.
func mutating(name string, mutations ...registrationv1.Mutation) *registrationv1.MutatingAdmissionPolicy {
	p := &registrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: registrationv1.MutatingAdmissionPolicySpec{
			MatchConstraints: on("configmaps", registrationv1.Create, registrationv1.Update), Mutations: mutations,
			ReinvocationPolicy: registrationv1.NeverReinvocationPolicy,
		},
	}
	for _, resource := range []string{"pods", "widgets"} {
		p.Spec.MatchConstraints.ResourceRules = append(p.Spec.MatchConstraints.ResourceRules, on(resource, registrationv1.Create, registrationv1.Update).ResourceRules...)
	}
	return p
}

// boundMutating returns a binding of a policy, of the same name.
func boundMutating(policy string) *registrationv1.MutatingAdmissionPolicyBinding {
	return &registrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy}, Spec: registrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: policy},
	}
}

// mutated returns the data of the config map m, created with x=y, or the error.
func mutated(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	m := configMap("m", map[string]string{"x": "y"})
	got, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), m, metav1.CreateOptions{})
	if err != nil {
		return err.Error()
	}
	text, err := json.Marshal(got.Data)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

type (
	mutatingPolicy  = registrationv1.MutatingAdmissionPolicy
	mutatingBinding = registrationv1.MutatingAdmissionPolicyBinding
)

const added = `[JSONPatch{op: "add", path: "/data/a", value: "b"}]`

const failed = `policy 'p' with binding 'p' denied request: `

// TestMutations is about one policy and one binding, by the data of a config map that is created with x=y.
func TestMutations(t *testing.T) {
	for name, tt := range map[string]struct {
		mutations []registrationv1.Mutation
		change    func(p *mutatingPolicy, b *mutatingBinding)
		want      string
	}{
		"patch":       {[]registrationv1.Mutation{jsonPatch(`[JSONPatch{op: "add", path: "/data/a", value: "b"}, JSONPatch{op: "remove", path: "/data/x"}]`)}, nil, `{"a":"b"}`},
		"patch moves": {[]registrationv1.Mutation{jsonPatch(`[JSONPatch{op: "move", from: "/data/x", path: "/data/z"}]`)}, nil, `{"z":"y"}`},
		"patch, escaped": {[]registrationv1.Mutation{jsonPatch(`[JSONPatch{op: "add", path: "/metadata/annotations", value: {}},
			JSONPatch{op: "add", path: "/metadata/annotations/" + jsonpatch.escapeKey("a.b/c"), value: "d"},
			JSONPatch{op: "copy", from: "/metadata/annotations/a.b~1c", path: "/data/a"}]`)}, nil, `{"a":"d","x":"y"}`},
		"patch by object": {[]registrationv1.Mutation{jsonPatch(`[JSONPatch{op: "add", path: "/metadata", value: Object.metadata{name: object.metadata.name, namespace: object.metadata.namespace, labels: {"a": "b"}}},
			JSONPatch{op: "copy", from: "/metadata/labels/a", path: "/data/a"}]`)}, nil, `{"a":"b","x":"y"}`},
		"test passes":   {[]registrationv1.Mutation{jsonPatch(`[JSONPatch{op: "test", path: "/data/x", value: "y"}, JSONPatch{op: "replace", path: "/data/x", value: "z"}]`)}, nil, `{"x":"z"}`},
		"test fails":    {[]registrationv1.Mutation{jsonPatch(`[JSONPatch{op: "replace", path: "/data/x", value: "z"}, JSONPatch{op: "test", path: "/data/x", value: "y"}]`)}, nil, `{"x":"y"}`},
		"no path":       {[]registrationv1.Mutation{jsonPatch(`[JSONPatch{op: "remove", path: "/data/none"}]`)}, nil, failed + `JSON Patch: error in remove for path: '/data/none': Unable to remove nonexistent key: none: missing value`},
		"unknown field": {[]registrationv1.Mutation{jsonPatch(`[JSONPatch{op: "add", path: "/datum", value: "b"}]`)}, nil, `Internal error occurred: strict decoding error: unknown field "datum"`},
		"apply":         {[]registrationv1.Mutation{apply(`Object{data: {"a": object.data.x}}`)}, nil, `{"a":"y","x":"y"}`},
		"apply a type":  {[]registrationv1.Mutation{apply(`Object{metadata: Object.metadata{labels: {"a": "b"}}}`), jsonPatch(`[JSONPatch{op: "copy", from: "/metadata/labels/a", path: "/data/a"}]`)}, nil, `{"a":"b","x":"y"}`},
		"apply a wrong type": {[]registrationv1.Mutation{apply(`Object{metadata: Object.spec{labels: {"a": "b"}}}`)}, nil,
			failed + "type mismatch: unexpected type name \"Object.spec\", expected \"Object.metadata\", which matches field name path from root Object type"},
		"apply an unknown field": {[]registrationv1.Mutation{apply(`Object{datum: "a"}`)}, nil,
			failed + "error applying patch: failed to convert patch object to typed object: .datum: field not declared in schema"},
		"in order": {[]registrationv1.Mutation{jsonPatch(added), jsonPatch(`[JSONPatch{op: "add", path: "/data/c", value: object.data.a + "c"}]`)}, nil, `{"a":"b","c":"bc","x":"y"}`},
		"fails":    {[]registrationv1.Mutation{jsonPatch(`[JSONPatch{op: "add", path: "/data/a", value: object.data.none}]`)}, nil, failed + `expression '[JSONPatch{op: "add", path: "/data/a", value: object.data.none}]' resulted in error: no such key: none`},
		"fails, ignored": {[]registrationv1.Mutation{jsonPatch(`[JSONPatch{op: "add", path: "/data/a", value: object.data.none}]`), jsonPatch(added)},
			func(p *mutatingPolicy, _ *mutatingBinding) { p.Spec.FailurePolicy = new(registrationv1.Ignore) }, `{"a":"b","x":"y"}`},
		"variables and the rest": {[]registrationv1.Mutation{jsonPatch(`[JSONPatch{op: "add", path: "/data/a", value: variables.a + request.operation + namespaceObject.metadata.name + string(authorizer.requestResource.check("get").allowed())}]`)},
			func(p *mutatingPolicy, _ *mutatingBinding) {
				p.Spec.Variables = []registrationv1.Variable{{Name: "a", Expression: "object.data.x"}}
			}, `{"a":"yCREATEdefaulttrue","x":"y"}`},
		"condition not met": {[]registrationv1.Mutation{jsonPatch(added)},
			func(p *mutatingPolicy, _ *mutatingBinding) {
				p.Spec.MatchConditions = []registrationv1.MatchCondition{{Name: "a", Expression: "object.data.x != 'y'"}}
			}, `{"x":"y"}`},
		"condition fails": {[]registrationv1.Mutation{jsonPatch(added)}, func(p *mutatingPolicy, _ *mutatingBinding) {
			p.Spec.MatchConditions = []registrationv1.MatchCondition{{Name: "a", Expression: "object.data.none != 'y'"}}
		}, failed + "expression 'object.data.none != 'y'' resulted in error: no such key: none"},
		"condition fails, ignored": {[]registrationv1.Mutation{jsonPatch(added)}, func(p *mutatingPolicy, _ *mutatingBinding) {
			p.Spec.MatchConditions = []registrationv1.MatchCondition{{Name: "a", Expression: "object.data.none != 'y'"}}
			p.Spec.FailurePolicy = new(registrationv1.Ignore)
		}, `{"x":"y"}`},
		"another name": {[]registrationv1.Mutation{jsonPatch(added)},
			func(_ *mutatingPolicy, b *mutatingBinding) {
				b.Spec.MatchResources = on("configmaps", "*")
				b.Spec.MatchResources.ResourceRules[0].ResourceNames = []string{"n"}
			}, `{"x":"y"}`},
		"no parameters": {[]registrationv1.Mutation{jsonPatch(added)}, func(p *mutatingPolicy, b *mutatingBinding) {
			p.Spec.ParamKind = &registrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
			b.Spec.ParamRef = &registrationv1.ParamRef{Name: "none", ParameterNotFoundAction: new(registrationv1.DenyAction)}
		}, failed + "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"},
		"unknown kind": {[]registrationv1.Mutation{jsonPatch(added)}, func(p *mutatingPolicy, _ *mutatingBinding) {
			p.Spec.ParamKind = &registrationv1.ParamKind{APIVersion: "v1", Kind: "Nothing"}
		}, `policy "p" denied request: failed to configure policy: failed to find resource referenced by paramKind: '/v1, Kind=Nothing'`},
		"the type of a parameter is not known": {[]registrationv1.Mutation{jsonPatch(`[JSONPatch{op: "add", path: "/data/a", value: string(has(params.kind)) + params.data.p}]`)}, func(p *mutatingPolicy, b *mutatingBinding) {
			p.Spec.ParamKind = &registrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
			b.Spec.ParamRef = &registrationv1.ParamRef{Name: "p1", ParameterNotFoundAction: new(registrationv1.DenyAction)}
		}, `{"a":"false1","x":"y"}`},
		"parameters, one after the other": {[]registrationv1.Mutation{jsonPatch(`[JSONPatch{op: "replace", path: "/data/x", value: object.data.x + params.data.p}]`)}, func(p *mutatingPolicy, b *mutatingBinding) {
			p.Spec.ParamKind = &registrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
			b.Spec.ParamRef = &registrationv1.ParamRef{Selector: &metav1.LabelSelector{}, ParameterNotFoundAction: new(registrationv1.DenyAction)}
		}, `{"x":"y12"}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := clientOf(t, start(t, nil).Config())
				store(t, client, configMap("p1", map[string]string{"p": "1"}), configMap("p2", map[string]string{"p": "2"}))
				p, b := mutating("p", tt.mutations...), boundMutating("p")
				if tt.change != nil {
					tt.change(p, b)
				}
				store(t, client, p, b)
				if got := mutated(t, client); got != tt.want {
					t.Errorf("got  %s\nwant %s", got, tt.want)
				}
			})
		})
	}
}

// The Status of a refusal has the first message, and all as causes.
func TestMutationStatus(t *testing.T) {
	client := clientOf(t, start(t, nil).Config())
	broken := jsonPatch(`[JSONPatch{op: "add", path: "/data/a", value: object.data.none}]`)
	store(t, client, mutating("p", broken, jsonPatch(`[JSONPatch{op: "remove", path: "/data/none"}]`)), boundMutating("p"), mutating("q", broken), boundMutating("q"))
	_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("m", map[string]string{"x": "y"}), metav1.CreateOptions{})
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatal(err)
	}
	s := status.Status()
	if s.Reason != metav1.StatusReasonInvalid || s.Code != 403 || s.Details.Name != "m" || len(s.Details.Causes) != 3 || s.Message != s.Details.Causes[0].Message ||
		!strings.HasPrefix(s.Details.Causes[1].Message, "policy 'p' with binding 'p' denied request: JSON Patch: error in remove") ||
		!strings.HasPrefix(s.Details.Causes[2].Message, "policy 'q' with binding 'q' denied request: expression") {
		t.Errorf("%+v", s)
	}
}

// Policies run by name. Those that ask for it run again, once, on what all have left; the others do not.
func TestReinvocation(t *testing.T) {
	again := func(name string, m registrationv1.Mutation) *mutatingPolicy {
		p := mutating(name, m)
		p.Spec.ReinvocationPolicy = registrationv1.IfNeededReinvocationPolicy
		return p
	}
	add := func(text string) registrationv1.Mutation {
		return jsonPatch(`[JSONPatch{op: "replace", path: "/data/x", value: object.data.x + "` + text + `"}]`)
	}
	for name, tt := range map[string]struct {
		policies []*mutatingPolicy
		want     string
	}{
		"by name":             {[]*mutatingPolicy{mutating("b", add("b")), mutating("a", add("a"))}, `{"x":"yab"}`},
		"one runs again":      {[]*mutatingPolicy{again("a", add("a")), mutating("b", add("b"))}, `{"x":"yaba"}`},
		"both run again":      {[]*mutatingPolicy{again("a", add("a")), again("b", add("b"))}, `{"x":"yabab"}`},
		"also after its own":  {[]*mutatingPolicy{again("a", add("a"))}, `{"x":"yaa"}`},
		"sees what came next": {[]*mutatingPolicy{again("a", jsonPatch(`"b" in object.data ? [JSONPatch{op: "add", path: "/data/a", value: object.data.b}] : []`)), mutating("b", jsonPatch(`[JSONPatch{op: "add", path: "/data/b", value: "b"}]`))}, `{"a":"b","b":"b","x":"y"}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := clientOf(t, start(t, nil).Config())
				for _, p := range tt.policies {
					store(t, client, p, boundMutating(p.Name))
				}
				if got := mutated(t, client); got != tt.want {
					t.Errorf("got  %s\nwant %s", got, tt.want)
				}
			})
		})
	}
}

// applyConfiguration merges lists as a server-side apply does, and then defaults the object.
func TestApplyToPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := clientOf(t, start(t, nil).Config())
		store(t, client, mutating("p", apply(`Object{metadata: Object.metadata{annotations: {"a": "b"}}, spec: Object.spec{
			containers: [Object.spec.containers{name: "main", env: [Object.spec.containers.env{name: "A", value: "B"}]}],
			initContainers: [Object.spec.initContainers{name: "side", image: "side:1", restartPolicy: "Always"}]}}`)), boundMutating("p"))
		send := func(name string) (*corev1.Pod, error) {
			return client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"c": "d"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main:1", Env: []corev1.EnvVar{{Name: "C", Value: "D"}}}, {Name: "other", Image: "other"}}},
			}, metav1.CreateOptions{})
		}
		got, err := send("a")
		if err != nil {
			t.Fatal(err)
		}
		if c := got.Spec.Containers; len(c) != 2 || c[0].Image != "main:1" || len(c[0].Env) != 2 || c[0].Env[1].Name+c[0].Env[1].Value != "AB" || c[1].Name != "other" {
			t.Errorf("containers %+v", c)
		}
		if c := got.Spec.InitContainers; len(c) != 1 || c[0].Name != "side" || c[0].ImagePullPolicy != corev1.PullIfNotPresent {
			t.Errorf("init containers %+v", c)
		}
		if len(got.Annotations) != 2 || len(got.ManagedFields) == 0 {
			t.Errorf("metadata %+v", got.ObjectMeta)
		}
		// What a schema replaces as a whole may not be set.
		store(t, client, mutating("q", apply(`Object{spec: Object.spec{containers: [Object.spec.containers{name: "main", command: ["a"]}], nodeSelector: {"a": "b"}}}`)), boundMutating("q"))
		_, err = send("b")
		want := "policy 'q' with binding 'q' denied request: error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.containers[0].command, .spec.nodeSelector"
		other := "policy 'q' with binding 'q' denied request: error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.nodeSelector, .spec.containers[0].command"
		if err == nil || err.Error() != want && err.Error() != other {
			t.Errorf("got %v", err)
		}
	})
}

// Custom objects are changed by their schema and get their defaults, whatever version was sent.
func TestCustomObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, nil, widgets(t))
		client := clientOf(t, c.Config())
		all, err := dynamic.NewForConfig(c.Config())
		if err != nil {
			t.Fatal(err)
		}
		p := mutating("p", apply(`Object{spec: Object.spec{size: object.spec.size + 1, parts: [Object.spec.parts{name: "b", size: 2}, Object.spec.parts{name: "c"}]}}`),
			jsonPatch(`[JSONPatch{op: "remove", path: "/spec/color"}]`))
		p.Spec.MatchConstraints.ResourceRules[2].APIVersions = []string{"v1"}
		p.Spec.MatchConditions = []registrationv1.MatchCondition{{Name: "kind", Expression: "object.apiVersion == 'example.com/v1' && object.kind == 'Widget'"}}
		store(t, client, p, boundMutating("p"))
		for _, version := range []string{"v1", "v2"} {
			sent := widget(version, "w"+version, map[string]any{"size": int64(1), "color": "blue"})
			want := `{"color":"red","parts":[{"name":"b","size":2},{"name":"c"}],"size":2}`
			if version == "v1" {
				sent.Object["spec"].(map[string]any)["parts"] = []any{map[string]any{"name": "a"}, map[string]any{"name": "b", "size": int64(1)}}
				want = `{"color":"red","parts":[{"name":"a"},{"name":"b","size":2},{"name":"c"}],"size":2}`
			}
			if _, err := all.Resource(widgetsV(version)).Namespace("default").Create(t.Context(), sent, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			got, err := all.Resource(widgetsV("v1")).Namespace("default").Get(t.Context(), "w"+version, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if spec, _ := json.Marshal(got.Object["spec"]); string(spec) != want {
				t.Errorf("%s: got %s, want %s", version, spec, want)
			}
		}
		store(t, client, mutating("q", apply(`Object{spec: Object.spec{whole: ["a"]}}`)), boundMutating("q"))
		_, err = all.Resource(widgetsV("v1")).Namespace("default").Create(t.Context(), widget("v1", "w", map[string]any{"size": int64(1), "color": "blue"}), metav1.CreateOptions{})
		if err == nil || !strings.HasSuffix(err.Error(), "may not mutate atomic arrays, maps or structs: .spec.whole") {
			t.Errorf("got %v", err)
		}
	})
}
