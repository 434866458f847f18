package components_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// record is an audit record of a request, as far as the tests use it.
type record struct {
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	User       struct {
		Username string   `json:"username"`
		Groups   []string `json:"groups"`
	} `json:"user"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Annotations map[string]string `json:"annotations"`
}

// rights checks that the programs had the rights they need, each under its own identity, and that only the
// administrator and the API server itself were members of system:masters. An object in a terminating namespace is refused for another reason.
func (w *world) rights(t *testing.T, users ...string) {
	t.Helper()
	log, err := os.Open(filepath.Join(w.dir, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	seen := map[string]bool{}
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("audit log: %v: %s", err, lines.Text())
		}
		seen[r.User.Username] = true
		if r.Annotations["authorization.k8s.io/decision"] != "allow" || r.ResponseStatus.Code == http.StatusUnauthorized {
			t.Errorf("%s was refused to %s %s: %d", r.User.Username, r.Verb, r.RequestURI, r.ResponseStatus.Code)
		}
		if slices.Contains(r.User.Groups, "system:masters") && !slices.Contains([]string{"kubernetes-admin", "system:apiserver"}, r.User.Username) {
			t.Errorf("%s is a member of system:masters", r.User.Username)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	for _, user := range users {
		if !seen[user] {
			t.Errorf("the audit log knows nothing of %s", user)
		}
	}
}
