package apiserver_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/memory"
)

// TestUnreadable: a record that does not decode fails the requests for its object, not those for others; who may
// deletes it all the same.
func TestUnreadable(t *testing.T) {
	store := memory.New(memory.Options{})
	may := false
	config := serveStore(t, store, registry.Options{}, apiserver.Options{
		Authorizer: authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, error) {
			if a.Verb == "unsafe-delete-ignore-read-errors" && !may {
				return authz.Decision{Reason: "too dangerous"}, nil
			}
			return authz.Decision{Verdict: authz.Allow}, nil
		}),
	})
	const path = "/api/v1/namespaces/default/configmaps"
	const bad, ignore = path + "/bad", `{"ignoreStoreReadErrorWithClusterBreakingPotential":true}`
	if _, err := store.Create(t.Context(), "/registry/configmaps/default/bad", []byte("k8s\x00garbage")); err != nil {
		t.Fatal(err)
	}
	expect := func(method, path, body string, want int, text string) {
		t.Helper()
		code, header, answer := do(t, config, method, path, "", body)
		if all := answer + strings.Join(header.Values("Warning"), " "); code != want || !strings.Contains(all, text) {
			t.Errorf("%s %s: %d %s, want %d and %q", method, path, code, all, want, text)
		}
	}
	const corrupt = "Internal error occurred: StorageError: corrupt object, Code: 7, Key: /registry/configmaps/default/bad, ResourceVersion: 0, AdditionalErrorMsg: object not decodable revision="
	expect("POST", path, `{"metadata":{"name":"good"}}`, http.StatusCreated, "")
	expect("GET", path, "", http.StatusOK, "not in this list: ")
	expect("GET", path, "", http.StatusOK, `"name":"good"`)
	expect("GET", bad, "", http.StatusInternalServerError, corrupt)
	expect("PUT", bad, `{"metadata":{"name":"bad"}}`, http.StatusInternalServerError, corrupt)
	expect("POST", path, `{"metadata":{"name":"bad"}}`, http.StatusConflict, "already exists")
	expect("DELETE", bad, "", http.StatusInternalServerError, corrupt)
	expect("DELETE", bad, ignore, http.StatusForbidden,
		`configmaps \"bad\" is forbidden: not permitted to do \"unsafe-delete-ignore-read-errors\", reason: too dangerous`)
	may = true
	expect("DELETE", path+"/good", ignore, http.StatusConflict, "unsafe deletion is not allowed because the object is decodable from storage")
	expect("DELETE", bad, `{"gracePeriodSeconds":1,`+ignore[1:], http.StatusUnprocessableEntity, "cannot be set together with .gracePeriodSeconds")
	expect("DELETE", path, ignore, http.StatusUnprocessableEntity, "is not allowed with DELETECOLLECTION, try again after removing the option")
	expect("DELETE", path, "", http.StatusInternalServerError, corrupt)
	expect("GET", path+"/good", "", http.StatusNotFound, "not found")
	expect("DELETE", bad, `{"dryRun":["All"],`+ignore[1:], http.StatusOK, "Success")
	expect("DELETE", bad, ignore, http.StatusOK, `"status":"Success","details":{"name":"bad","kind":"ConfigMap"}`)
	expect("GET", bad, "", http.StatusNotFound, "not found")
	expect("DELETE", bad, ignore, http.StatusNotFound, "not found")
}
