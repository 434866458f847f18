package customresources_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

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
		"unconditional":   {"PUT", "/some/scale", `{"metadata":{"name":"some"},"spec":{"replicas":4}}`, 200, `"spec":{"replicas":4}`},
		"elsewhere":       {"PUT", "/some/scale", `{"metadata":{"name":"some","namespace":"other"},"spec":{"replicas":4}}`, 400, `"message":"the namespace of the provided object does not match the namespace sent on the request"`},
		"malformed":       {"PUT", "/some/scale", `{"metadata":{"name":"some"},"spec":{"replicas":"4"}}`, 400, `"message":"no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\""`},
		"fewer than none": {"PATCH", "/some/scale", `{"spec":{"replicas":-1}}`, 422, `"kind":"Backup","causes":[{"reason":"FieldValueInvalid","message":"Invalid value: -1: should be a non-negative integer","field":".spec.replicas"}]`},
		"strict, no type": {"POST", "?fieldValidation=Strict", `{"kind":"Backup","metadata":{"name":"x"},"spec":{"copies":1,"copies":2}}`, 400, `"message":"Object 'apiVersion' is missing in 'object has no apiVersion field'"`},
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

// An object may say that it is of another type. It is found invalid where it would be stored, and is no object where its type
// cannot be read.
func TestOtherTypes(t *testing.T) {
	c := start(t, cluster.Options{})
	a, ctx := clients(t, c.Config()), t.Context()
	a.define(backup(func(crd *definition) {
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties["phase"] = apiextensionsv1.JSONSchemaProps{
			Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"New"`)},
		}
	}))
	a.established("backups.example.com")
	version := a.create(a.backups("default"), object("some")).GetResourceVersion()
	raw := rawClient(t, c.Config())
	const path = "/apis/example.com/v1/namespaces/default/backups/some"
	const other = `Other.example.com \"some\" is invalid: kind: Invalid value: \"Other\": must be Backup`
	body := func(kind, fields string) string {
		return `{"apiVersion":"example.com/v1","kind":"` + kind + `","metadata":{"name":"some","resourceVersion":"` + version + `"}` + fields + `}`
	}
	for name, tt := range map[string]struct {
		verb, path, body string
		code             int
		want             string
	}{
		"update":                    {"PUT", "", body("Other", ""), 422, other},
		"update, older":             {"PUT", "", strings.Replace(body("Other", ""), version, "1", 1), 409, "the object has been modified"},
		"status":                    {"PUT", "/status", body("Other", `,"status":{"copies":2}`), 200, `"kind":"Backup","apiVersion":"example.com/v1","metadata":{"creationTimestamp":`},
		"status keeps owners":       {"PUT", "/status", body("Other", `,"status":{"copies":2}`), 200, `"f:spec":{".":{},"f:copies":{},"f:target":{}}`},
		"invalid status":            {"PUT", "/status", body("Other", `,"status":{"copies":"2"}`), 422, `Other.example.com \"some\" is invalid: status.copies:`},
		"patch":                     {"PATCH", "", `{"kind":"Other"}`, 422, other},
		"patch of the status":       {"PATCH", "/status", `{"kind":"Other","status":{}}`, 200, `"status":{"phase":"New"}`},
		"patch of the version":      {"PATCH", "", `{"apiVersion":"other.com/v1"}`, 422, `Backup.other.com \"some\" is invalid: apiVersion: Invalid value: \"other.com/v1\": must be example.com/v1`},
		"patch without a version":   {"PATCH", "/status", `{"apiVersion":""}`, 422, "Object 'apiVersion' is missing in"},
		"patch without a kind":      {"PATCH", "", `{"kind":null}`, 422, "Object 'Kind' is missing in"},
		"patch with no version":     {"PATCH", "", `{"apiVersion":null}`, 422, "Object 'apiVersion' is missing in"},
		"update with null":          {"PUT", "", strings.Replace(body("Backup", ""), `"example.com/v1"`, "null", 1), 400, `Backup in version \"\" cannot be handled as a Backup: .apiVersion accessor error`},
		"update with another group": {"PUT", "", strings.Replace(body("Backup", ""), "example.com", "other.com", 1), 400, "the API version in the data (other.com/v1) does not match"},
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

// An update tells of malformed metadata as often as upstream's server does: three times.
func TestMalformedMetadata(t *testing.T) {
	c := start(t, cluster.Options{})
	a := clients(t, c.Config())
	a.define(backup())
	a.established("backups.example.com")
	u := a.create(a.backups("default"), object("some"))
	u.SetLabels(map[string]string{"$": "x"})
	_, err := a.backups("default").Update(t.Context(), u, metav1.UpdateOptions{})
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) != 3 {
		t.Errorf("%v", err)
	}
}

// A number that is written as 1e2 is an integer once it is stored: nothing changes when it is sent back.
func TestStoredNumbers(t *testing.T) {
	c := start(t, cluster.Options{})
	a, ctx := clients(t, c.Config()), t.Context()
	a.define(backup(func(crd *definition) {
		keeps := true
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.XPreserveUnknownFields = &keeps
	}))
	a.established("backups.example.com")
	raw := rawClient(t, c.Config())
	const path = "/apis/example.com/v1/namespaces/default/backups"
	body := `{"apiVersion":"example.com/v1","kind":"Backup","metadata":{"name":"some"},"n":[1e2,{"a":1e2,"b":-0.0,"c":1e20,"d":1.5}]}`
	if err := raw.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(ctx).Error(); err != nil {
		t.Fatal(err)
	}
	u, err := a.backups("default").Patch(ctx, "some", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	if err != nil || u.GetGeneration() != 1 {
		t.Errorf("%v, %v", u, err)
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
