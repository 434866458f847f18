package apiserver_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// versions are resource versions that no object has. None is a number of 64 bits that is refused; of
// the others none is reached.
var versions = []struct {
	version string
	none    string // what upstream's parser says of it
}{
	{version: "9223372036854775807"},
	{version: "9223372036854775808"},
	{version: "18446744073709551615"},
	{"18446744073709551616", "value out of range"},
	{"-1", "invalid syntax"},
	{" 1", "invalid syntax"},
	{"1 ", "invalid syntax"},
	{"0x10", "invalid syntax"},
	{"+1", "invalid syntax"},
	{"abc", "invalid syntax"},
}

// answerOf sends a request and returns the status that it was answered with: of a watch that fails, the one
// in its stream.
func answerOf(t *testing.T, config *rest.Config, method, path, contentType, body string) *metav1.Status {
	t.Helper()
	code, _, answer := do(t, config, method, path, contentType, body)
	var event struct {
		Type   string
		Object *metav1.Status
	}
	if json.Unmarshal([]byte(answer), &event) == nil && event.Type == "ERROR" && code == 200 {
		return event.Object
	}
	status := &metav1.Status{}
	if err := json.Unmarshal([]byte(answer), status); err != nil {
		t.Fatalf("%d %q: %v", code, answer, err)
	}
	if status.Kind != "Status" {
		status = &metav1.Status{Code: int32(code)}
	}
	if int(status.Code) != code {
		t.Errorf("code %d, but the body says %d", code, status.Code)
	}
	return status
}

func createMap(t *testing.T, config *rest.Config, name string) {
	t.Helper()
	if code, _, body := do(t, config, "POST", configMaps, "", fmt.Sprintf(`{"metadata":{"name":%q}}`, name)); code != 201 {
		t.Fatalf("create: %d %s", code, body)
	}
}

// TestReadAtNoVersion: a read at a version that cannot be is told what is wrong with it, wherever the version
// stands.
func TestReadAtNoVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a version that may come yet is waited for
		config := serve(t)
		createMap(t, config, "a")
		reads := map[string]string{
			"get": configMaps + "/a?", "list": configMaps + "?", "first page": configMaps + "?limit=1&",
			"exactly": configMaps + "?resourceVersionMatch=Exact&", "not older": configMaps + "?resourceVersionMatch=NotOlderThan&",
			"one": configMaps + "?fieldSelector=metadata.name%3Da&", "watch": configMaps + "?watch=1&", "watch one": configMaps + "/a?watch=1&",
			"watch from state": configMaps + "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&",
			"watch from there": configMaps + "?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&",
			"scale":            "/apis/apps/v1/namespaces/default/deployments/gone/scale?",
		}
		for read, path := range reads {
			for _, test := range versions {
				status := answerOf(t, config, "GET", path+"resourceVersion="+url.QueryEscape(test.version), "", "")
				code, reason, message := int32(504), metav1.StatusReasonTimeout, "Timeout: Too large resource version: "+test.version+", current: "
				if test.none != "" {
					code, reason = 400, metav1.StatusReasonBadRequest
					message = fmt.Sprintf("invalid resource version: resourceVersion: Invalid value: %q: strconv.ParseUint: parsing %q: %s", test.version, test.version, test.none)
				}
				if status.Code != code || status.Reason != reason || !strings.HasPrefix(status.Message, message) {
					t.Errorf("%s at %q: %d %s %q, want %d %q", read, test.version, status.Code, status.Reason, status.Message, code, message)
				}
				if code == 504 && (status.Details == nil || len(status.Details.Causes) != 1 || status.Details.Causes[0].Type != metav1.CauseTypeResourceVersionTooLarge) {
					t.Errorf("%s at %q: no cause in %+v", read, test.version, status.Details)
				}
			}
		}
		code, _, body := do(t, config, "DELETE", configMaps+"?resourceVersion=18446744073709551615", "", "")
		if code != 504 {
			t.Errorf("deletion of a list at a version: %d %s", code, body)
		}
	})
}

// TestContinueAtNoVersion: tokens have the version as a number of 63 bits.
func TestContinueAtNoVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := serve(t)
		for version, want := range map[string]int32{
			"9223372036854775807": 504, "9223372036854775808": 400, "18446744073709551615": 400, "18446744073709551616": 400,
			`" 1"`: 400, `"0x10"`: 400, "+1": 400, "1e3": 400, "1.5": 400, "-1": 200, "0": 400,
		} {
			token := base64.RawURLEncoding.EncodeToString([]byte(`{"v":"meta.k8s.io/v1","rv":` + version + `,"start":"a"}`))
			if status := answerOf(t, config, "GET", configMaps+"?limit=1&continue="+token, "", ""); status.Code != want {
				t.Errorf("%s: %d %q, want %d", version, status.Code, status.Message, want)
			}
		}
	})
}

// TestWriteAtNoVersion: a write that expects a version that the object does not have is a conflict, one that
// expects none that could be is invalid; neither is a failure of the server.
func TestWriteAtNoVersion(t *testing.T) {
	config := serve(t)
	createMap(t, config, "a")
	const patched = `{"metadata":{"resourceVersion":%s}}`
	writes := map[string]struct{ method, contentType, body string }{
		"update":          {"PUT", "", `{"metadata":{"name":"a","resourceVersion":%s}}`},
		"merge patch":     {"PATCH", "application/merge-patch+json", patched},
		"strategic patch": {"PATCH", "application/strategic-merge-patch+json", patched},
		"json patch":      {"PATCH", "application/json-patch+json", `[{"op":"replace","path":"/metadata/resourceVersion","value":%s}]`},
		"apply":           {"PATCH", "application/apply-patch+yaml", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","resourceVersion":%s}}`},
	}
	for name, w := range writes {
		for _, test := range versions {
			quoted, _ := json.Marshal(test.version)
			status := answerOf(t, config, w.method, configMaps+"/a?fieldManager=m", w.contentType, fmt.Sprintf(w.body, quoted))
			code, message := int32(409), `Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to the latest version and try again`
			if test.none != "" {
				code, message = 422, fmt.Sprintf(`ConfigMap "a" is invalid: metadata.resourceVersion: Invalid value: %q: strconv.ParseUint: parsing %q: %s`, test.version, test.version, test.none)
			}
			if status.Code != code || status.Message != message {
				t.Errorf("%s of %q: %d %q, want %d %q", name, test.version, status.Code, status.Message, code, message)
			}
		}
	}
	for _, test := range versions { // a precondition is a text, as upstream has it
		quoted, _ := json.Marshal(test.version)
		status := answerOf(t, config, "DELETE", configMaps+"/a", "", fmt.Sprintf(`{"preconditions":{"resourceVersion":%s}}`, quoted))
		if status.Code != 409 || status.Reason != metav1.StatusReasonConflict {
			t.Errorf("delete at %q: %d %q", test.version, status.Code, status.Message)
		}
	}
}

// TestUpdateAtSameNumber: versions are numbers, however they are written.
func TestUpdateAtSameNumber(t *testing.T) {
	config := serve(t)
	createMap(t, config, "a")
	_, _, body := do(t, config, "GET", configMaps+"/a", "", "")
	var now metav1.PartialObjectMetadata
	if err := json.Unmarshal([]byte(body), &now); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"00" + now.ResourceVersion, "0", "000", ""} {
		status := answerOf(t, config, "PUT", configMaps+"/a", "", fmt.Sprintf(`{"metadata":{"name":"a","resourceVersion":%q}}`, version))
		if status.Code != 200 {
			t.Errorf("update at %q: %d %q", version, status.Code, status.Message)
		}
	}
}

// TestCreateWithVersion: the version is the last thing that is looked at, and counts only where upstream's
// store looks at it.
func TestCreateWithVersion(t *testing.T) {
	const (
		refused = "resourceVersion should not be set on objects to be created"
		dry     = "&dryRun=All"
		applied = "application/apply-patch+yaml"
		leases  = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
	)
	config := serve(t)
	createMap(t, config, "taken")
	configMap := func(name, version string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"resourceVersion":%q}}`, name, version)
	}
	lease := func(name, version string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":%q}}`, name, version)
	}
	for _, test := range []struct {
		name, method, path, contentType, body string
		code                                  int32
		message                               string
		shown                                 string // the version in the answer; "-" any
	}{
		{"create", "POST", configMaps + "?", "", configMap("a", "5"), 500, refused, ""},
		{"create beyond 63 bits", "POST", configMaps + "?", "", configMap("a", "18446744073709551615"), 500, refused, ""},
		{"create with a generated name", "POST", configMaps + "?", "", `{"metadata":{"generateName":"a-","resourceVersion":"5"}}`, 500, refused, ""},
		{"invalid", "POST", configMaps + "?", "", configMap("A_B", "5"), 422, `ConfigMap "A_B" is invalid: metadata.name: Invalid value: "A_B"`, ""},
		{"taken", "POST", configMaps + "?", "", configMap("taken", "5"), 500, refused, ""},
		{"taken, dry run", "POST", configMaps + "?" + dry, "", configMap("taken", "5"), 409, `configmaps "taken" already exists`, ""},
		{"dry run", "POST", configMaps + "?" + dry, "", configMap("a", "5"), 201, "", "5"},
		{"dry run, invalid", "POST", configMaps + "?" + dry, "", configMap("A_B", "5"), 422, `ConfigMap "A_B" is invalid`, ""},
		{"zero", "POST", configMaps + "?", "", configMap("zero", "0"), 201, "", "-"},
		{"no number", "POST", configMaps + "?", "", configMap("none", "abc"), 201, "", "-"},
		{"beyond 64 bits", "POST", configMaps + "?", "", configMap("beyond", "18446744073709551616"), 201, "", "-"},
		{"apply", "PATCH", configMaps + "/applied?fieldManager=m", applied, configMap("applied", "5"), 201, "", "-"},
		{"apply, dry run", "PATCH", configMaps + "/dry?fieldManager=m" + dry, applied, configMap("dry", "5"), 201, "", "5"},
		{"apply of no number", "PATCH", configMaps + "/b?fieldManager=m", applied, configMap("b", "abc"), 422, `ConfigMap "b" is invalid: metadata.resourceVersion: Invalid value: "abc"`, ""},
		{"put", "PUT", leases + "/put?", "", lease("put", "5"), 201, "", "-"},
		{"put beyond 63 bits", "PUT", leases + "/far?", "", lease("far", "9223372036854775808"), 201, "", "-"},
		{"put, dry run", "PUT", leases + "/dry?" + dry, "", lease("dry", "5"), 201, "", "5"},
		{"put of no number", "PUT", leases + "/no?", "", lease("no", "18446744073709551616"), 422, `Lease.coordination.k8s.io "no" is invalid: metadata.resourceVersion: Invalid value: "18446744073709551616"`, ""},
	} {
		code, _, body := do(t, config, test.method, test.path, test.contentType, test.body)
		var answer struct {
			Metadata metav1.ObjectMeta
			Message  string
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatal(err)
		}
		if int32(code) != test.code || !strings.HasPrefix(answer.Message, test.message) {
			t.Errorf("%s: %d %q, want %d %q", test.name, code, answer.Message, test.code, test.message)
		}
		if shown := answer.Metadata.ResourceVersion; test.shown == "-" && shown == "" || test.shown != "-" && shown != test.shown {
			t.Errorf("%s: shows version %q, want %q", test.name, shown, test.shown)
		}
	}
}
