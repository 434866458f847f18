package customresources_test

import (
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/keelson-dev/keelson/cluster"
)

// scaled gives backups the scale subresource, and takes their status subresource.
func scaled(crd *definition) {
	crd.Spec.Names.ListKind = "Archive"
	crd.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{
		Scale: &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.copies"},
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	spec.Properties["replicas"] = apiextensionsv1.JSONSchemaProps{Type: "integer"}
}

// What upstream's server says of custom resources and of no others: of subresources that they do not have, of scales
// without or with bad replicas, and in lists.
func TestAnswers(t *testing.T) {
	c := start(t, cluster.Options{})
	a, ctx := clients(t, c.Config()), t.Context()
	a.define(backup(scaled))
	a.established("backups.example.com")
	a.create(a.backups("default"), object("none"))
	a.create(a.backups("default"), object("some", func(u *unstructured.Unstructured) {
		u.Object["spec"] = map[string]any{"replicas": int64(3)}
	}))
	raw := rawClient(t, c.Config())
	const path = "/apis/example.com/v1/namespaces/default/backups"
	for name, tt := range map[string]struct {
		verb, path, body string
		code             int
		want             string
	}{
		"no status":       {"GET", "/some/status", "", 404, `"message":"backups.example.com \"some\" not found","reason":"NotFound","details":{"name":"some","group":"example.com","kind":"backups"}`},
		"not a resource":  {"PUT", "/nobody/bogus", "{}", 404, `backups.example.com \"nobody\" not found`},
		"scale":           {"GET", "/some/scale", "", 200, `"spec":{"replicas":3}`},
		"no replicas":     {"GET", "/none/scale", "", 500, `Internal error occurred: the spec replicas field \".spec.replicas\" does not exist`},
		"first replicas":  {"PATCH", "/none/scale", `{"spec":{"replicas":2}}`, 200, `"spec":{"replicas":2}`},
		"fewer than none": {"PATCH", "/some/scale", `{"spec":{"replicas":-1}}`, 422, `"kind":"Backup","causes":[{"reason":"FieldValueInvalid","message":"Invalid value: -1: should be a non-negative integer","field":".spec.replicas"}]`},
		"list":            {"GET", "", "", 200, `"items":[{"kind":"Backup","apiVersion":"example.com/v1",`},
		"list's metadata": {"GET", "?limit=500", "", 200, `"continue":""}`},
		"the rest":        {"GET", "?limit=1", "", 200, `"remainingItemCount":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			var code int
			answer, err := raw.Verb(tt.verb).RequestURI(path+tt.path+dry(tt.path)).SetHeader("Content-Type", contentType(tt.verb)).
				Body([]byte(tt.body)).Do(ctx).StatusCode(&code).Raw()
			if code != tt.code || !strings.Contains(string(answer), tt.want) {
				t.Errorf("%d, %v, %s", code, err, answer)
			}
		})
	}
}

// A warning is about the version that is deprecated, even if that is the stored one.
func TestDeprecation(t *testing.T) {
	c := start(t, cluster.Options{})
	a := clients(t, c.Config())
	a.define(backup(func(crd *definition) {
		second := crd.Spec.Versions[0]
		second.Name, second.Storage = "v2", false
		crd.Spec.Versions[0].Deprecated = true
		crd.Spec.Versions = append(crd.Spec.Versions, second)
	}))
	a.established("backups.example.com")
	raw := rawClient(t, c.Config())
	for version, want := range map[string][]string{"v1": {"example.com/v1 Backup is deprecated; use example.com/v2 Backup"}, "v2": nil} {
		told := &warnings{}
		if err := raw.Get().RequestURI("/apis/example.com/" + version + "/backups").WarningHandler(told).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(told.texts, want) {
			t.Errorf("%s: %q, want %q", version, told.texts, want)
		}
	}
}

func dry(path string) string {
	if strings.Contains(path, "?") {
		return ""
	}
	return "?dryRun=All"
}

func contentType(verb string) string {
	if verb == "PATCH" {
		return "application/merge-patch+json"
	}
	return "application/json"
}
