package apiserver_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	jsonPatch      = "application/json-patch+json"
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
)

// doubling is a JSON patch whose operations double what is at a place, which they make.
func doubling(at string, times int) string {
	patch := fmt.Sprintf(`[{"op":"add","path":%q,"value":{"b":"xxxxxxxxxx"}}`, at)
	for i := range times {
		patch += fmt.Sprintf(`,{"op":"copy","from":%q,"path":"%s/c%d"}`, at, at, i)
	}
	return patch + "]"
}

// TestCopiesOfPatches: a patch of 40 copies, which would be a terabyte, is answered in upstream's words wherever it
// is sent, and the server goes on.
func TestCopiesOfPatches(t *testing.T) {
	config := serve(t)
	createMap(t, config, "a")
	const deployment = `{"metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
	if code, _, body := do(t, config, "POST", "/apis/apps/v1/namespaces/default/deployments", "", deployment); code != 201 {
		t.Fatalf("create: %d %s", code, body)
	}
	const message = "the server rejected our request due to an error in our request"
	for _, path := range []string{
		configMaps + "/a", configMaps + "/a?dryRun=All", "/apis/apps/v1/namespaces/default/deployments/a",
		"/apis/apps/v1/namespaces/default/deployments/a/status", "/apis/apps/v1/namespaces/default/deployments/a/scale",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		code, _, body := do(t, config, "PATCH", path, jsonPatch, doubling("/metadata/annotations", 40))
		runtime.ReadMemStats(&after)
		var status metav1.Status
		if err := json.Unmarshal([]byte(body), &status); err != nil {
			t.Fatal(err)
		}
		if code != 422 || status.Reason != metav1.StatusReasonInvalid || status.Message != message {
			t.Errorf("%s: %d %s", path, code, body)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 100<<20 {
			t.Errorf("%s: %d MiB were allocated", path, used>>20)
		}
		if code, _, body := do(t, config, "GET", strings.TrimSuffix(path, "?dryRun=All"), "", ""); code != 200 || strings.Contains(body, "xxxxxxxxxx") {
			t.Errorf("%s afterwards: %d %.200s", path, code, body)
		}
	}
	if code, _, body := do(t, config, "PATCH", configMaps+"/a", jsonPatch, `[{"op":"add","path":"/data","value":{"a":"b"}},{"op":"copy","from":"/data/a","path":"/data/c"}]`); code != 200 {
		t.Errorf("a copy: %d %s", code, body)
	}
}

// TestOperationsOfPatches: a patch has at most 10,000 operations.
func TestOperationsOfPatches(t *testing.T) {
	config := serve(t)
	createMap(t, config, "a")
	patch := func(n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(`{"op":"add","path":"/data","value":{}},`, n), ",") + "]"
	}
	if code, _, body := do(t, config, "PATCH", configMaps+"/a", jsonPatch, patch(10000)); code != 200 {
		t.Errorf("10,000: %d %.200s", code, body)
	}
	status := answerOf(t, config, "PATCH", configMaps+"/a", jsonPatch, patch(10001))
	const want = "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
	if status.Code != 413 || status.Reason != metav1.StatusReasonRequestEntityTooLarge || status.Message != want {
		t.Errorf("10,001: %d %s %q", status.Code, status.Reason, status.Message)
	}
}

// TestDeepPatches: a patch may be as deep as JSON may be, and costs no more than a flat one.
func TestDeepPatches(t *testing.T) {
	config := serve(t)
	createMap(t, config, "a")
	payload := strings.Repeat("x", 300<<10)
	deep := func(n int) string {
		return `{"data":` + strings.Repeat(`{"a":`, n) + `"` + payload + `"` + strings.Repeat("}", n) + "}"
	}
	for _, test := range []struct {
		form    string
		levels  int
		code    int32
		message string
	}{
		{mergePatch, 9990, 422, ""},
		{strategicPatch, 9990, 422, ""},
		{mergePatch, 10001, 400, "invalid JSON patch"},
		{strategicPatch, 10001, 400, "invalid JSON patch"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		status := answerOf(t, config, "PATCH", configMaps+"/a?fieldValidation=Ignore", test.form, deep(test.levels))
		runtime.ReadMemStats(&after)
		if status.Code != test.code || test.message != "" && status.Message != test.message {
			t.Errorf("%s of %d levels: %d %.200s", test.form, test.levels, status.Code, status.Message)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 200<<20 {
			t.Errorf("%s of %d levels: %d MiB were allocated", test.form, test.levels, used>>20)
		}
	}
}

// TestLongOrders: an order of thousands of items is as good as one of two.
func TestLongOrders(t *testing.T) {
	config := serve(t)
	const n, accounts = 20000, "/api/v1/namespaces/default/serviceaccounts"
	list := func(at func(i int) int) string {
		var items strings.Builder
		for i := range n {
			fmt.Fprintf(&items, `,{"name":"s%05d"}`, at(i))
		}
		return "[" + items.String()[1:] + "]"
	}
	if code, _, body := do(t, config, "POST", accounts, "", `{"metadata":{"name":"a"},"secrets":`+list(func(i int) int { return i })+`}`); code != 201 {
		t.Fatalf("create: %d %.200s", code, body)
	}
	reverse := list(func(i int) int { return n - 1 - i })
	code, _, body := do(t, config, "PATCH", accounts+"/a", strategicPatch, `{"secrets":`+reverse+`,"$setElementOrder/secrets":`+reverse+`}`)
	var account corev1.ServiceAccount
	if err := json.Unmarshal([]byte(body), &account); err != nil || code != 200 {
		t.Fatalf("patch: %d %.200s", code, body)
	}
	if s := account.Secrets; len(s) != n || s[0].Name != "s19999" || s[n-1].Name != "s00000" {
		t.Errorf("%d items, from %s to %s", len(s), s[0].Name, s[len(s)-1].Name)
	}
}
