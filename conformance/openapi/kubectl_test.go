package openapi_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/openapi/cached"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/rest"
	explain "k8s.io/kubectl/pkg/explain/v2"
	kubectlopenapi "k8s.io/kubectl/pkg/util/openapi"
	"k8s.io/kubectl/pkg/validation"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/openapi"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/memory"
)

// serve starts a server in this process, and returns its client configuration.
func serve(t *testing.T) *rest.Config {
	t.Helper()
	all := kinds()
	r, err := registry.New(memory.New(memory.Options{}), all, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := apiserver.New(r, apiserver.Options{Authorizer: alwaysallow.New(), Paths: openapi.New(all, openapi.Options{}).Paths()})
	transport := apiserver.NewTransport(s, nil)
	t.Cleanup(transport.Close)
	return &rest.Config{Host: "http://server", Transport: transport}
}

func client(t *testing.T, config *rest.Config) *discovery.DiscoveryClient {
	t.Helper()
	c, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestFieldValidation: kubectl create and apply find that the server validates fields of each kind.
func TestFieldValidation(t *testing.T) {
	config := serve(t)
	c := client(t, config)
	d, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	v := resource.NewQueryParamVerifierV3(d, cached.NewClient(c.OpenAPIV3()), resource.QueryParamFieldValidation)
	_, lists, err := c.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, list := range lists {
		for _, r := range list.APIResources {
			if !contains(r.Verbs, "patch") || strings.Contains(r.Name, "/") {
				continue
			}
			gvk := schema.FromAPIVersionAndKind(list.GroupVersion, r.Kind)
			if err := v.HasSupport(gvk); err != nil {
				t.Errorf("%s: %v", gvk, err)
			}
			checked++
		}
	}
	if checked < 20 {
		t.Errorf("only %d kinds", checked)
	}
}

func contains(verbs metav1.Verbs, verb string) bool {
	for _, v := range verbs {
		if v == verb {
			return true
		}
	}
	return false
}

// TestExplain: kubectl explain shows types, documentation, enums and required fields.
func TestExplain(t *testing.T) {
	c := client(t, serve(t))
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	for _, e := range []struct {
		path []string
		want []string
	}{
		{nil, []string{"KIND:       Pod", "spec\t<PodSpec>", "Specification of the desired behavior of the pod."}},
		{[]string{"spec", "containers"}, []string{"FIELD: containers <[]Container>", "name\t<string> -required-", "List of containers belonging to the pod."}},
		{[]string{"spec", "containers", "ports", "protocol"}, []string{"FIELD: protocol <string>", "ENUM:\n    SCTP\n    TCP\n    UDP"}},
		{[]string{"spec", "containers", "resources", "limits"}, []string{"FIELD: limits <map[string]Quantity>"}},
		{[]string{"metadata", "creationTimestamp"}, []string{"FIELD: creationTimestamp <string>"}},
	} {
		var out bytes.Buffer
		if err := explain.PrintModelDescription(e.path, &out, c.OpenAPIV3(), pods, false, -1, "plaintext"); err != nil {
			t.Errorf("%v: %v", e.path, err)
		}
		for _, want := range e.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%v: %q is not in\n%s", e.path, want, out.String())
			}
		}
	}
}

const (
	original = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"template":{"spec":{"containers":[{"name":"one","image":"1","ports":[{"containerPort":80}]},{"name":"two","image":"2"}]}}}}`
	modified = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"template":{"spec":{"containers":[{"name":"one","image":"1.1","ports":[{"containerPort":80}]}]}}}}`
	// current is original with additions of others.
	current = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"one","image":"1","ports":[{"containerPort":80}],"env":[{"name":"E"}]},{"name":"two","image":"2"},{"name":"three","image":"3"}]}}}}`
	patch   = `{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"one"}],"containers":[{"image":"1.1","name":"one"},{"$patch":"delete","name":"two"}]}}}}`
)

// TestMergeKeys: kubectl apply finds the merge keys of lists in both documents.
func TestMergeKeys(t *testing.T) {
	c := client(t, serve(t))
	deployments := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	spec, err := openapi3.NewRoot(c.OpenAPIV3()).GVSpec(deployments.GroupVersion())
	if err != nil {
		t.Fatal(err)
	}
	all := spec.Components.Schemas
	v3 := strategicpatch.PatchMetaFromOpenAPIV3{Schema: all["io.k8s.api.apps.v1.Deployment"], SchemaList: all}
	parsed, err := kubectlopenapi.NewOpenAPIParser(kubectlopenapi.NewOpenAPIGetter(c)).Parse()
	if err != nil {
		t.Fatal(err)
	}
	v2 := strategicpatch.NewPatchMetaFromOpenAPI(parsed.LookupResource(deployments))
	for name, meta := range map[string]strategicpatch.LookupPatchMeta{"v2": v2, "v3": v3} {
		got, err := strategicpatch.CreateThreeWayMergePatch([]byte(original), []byte(modified), []byte(current), meta, true)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(value(t, patch), value(t, string(got))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func value(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// resources implements the parser under the name that the validation uses.
type resources struct {
	*kubectlopenapi.CachedOpenAPIParser
}

func (r resources) OpenAPISchema() (kubectlopenapi.Resources, error) { return r.Parse() }

// TestValidation: kubectl's own validation, based on the v2 document, accepts valid objects and reports errors in
// others.
func TestValidation(t *testing.T) {
	c := client(t, serve(t))
	v := validation.NewSchemaValidation(resources{kubectlopenapi.NewOpenAPIParser(kubectlopenapi.NewOpenAPIGetter(c))})
	if err := v.ValidateBytes([]byte(original)); err == nil || !strings.Contains(err.Error(), `missing required field "selector"`) {
		t.Errorf("without a selector: %v", err)
	}
	right := strings.Replace(original, `"spec":{"template"`, `"spec":{"selector":{},"template"`, 1)
	if err := v.ValidateBytes([]byte(right)); err != nil {
		t.Error(err)
	}
	wrong := strings.Replace(right, `"containerPort":80`, `"containerPort":"x"`, 1)
	if err := v.ValidateBytes([]byte(wrong)); err == nil || !strings.Contains(err.Error(), `invalid type for io.k8s.api.core.v1.ContainerPort.containerPort: got "string", expected "integer"`) {
		t.Errorf("a port that is a word: %v", err)
	}
}

// TestPreferred: kubectl api-versions prints the same as with upstream's clusters, in order.
func TestPreferred(t *testing.T) {
	groups, err := client(t, serve(t)).ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range groups.Groups {
		got = append(got, g.PreferredVersion.GroupVersion)
	}
	want := []string{
		"v1", "apps/v1", "events.k8s.io/v1", "authentication.k8s.io/v1", "authorization.k8s.io/v1", "networking.k8s.io/v1", "policy/v1",
		"rbac.authorization.k8s.io/v1", "storage.k8s.io/v1", "scheduling.k8s.io/v1", "coordination.k8s.io/v1", "discovery.k8s.io/v1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
