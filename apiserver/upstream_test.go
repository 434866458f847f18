package apiserver_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/keelson-dev/keelson/admission/podsecurity"
	"github.com/keelson-dev/keelson/admission/serviceaccount"
	"github.com/keelson-dev/keelson/admission/taintnodesbycondition"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/token"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/internal/transcript"
)

// TestUpstream holds the answers to tables of raw requests to those that the API server of
// Kubernetes 1.37.1 gave. The module conformance/apiserver recorded them and records them anew.
func TestUpstream(t *testing.T) {
	files, err := filepath.Glob("testdata/upstream/*.http")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tables: %v", err)
	}
	known := intended()
	unused := maps.Clone(known)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".http")
		t.Run(name, func(t *testing.T) {
			want, err := transcript.Read(strings.TrimSuffix(file, ".http") + ".json")
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) { // watches that last a second take no time
				compare(t, file, want, func(step string) (string, bool) {
					reason, expected := known[name+"/"+step]
					delete(unused, name+"/"+step)
					return reason, expected
				})
			})
		})
	}
	if len(unused) > 0 && !t.Failed() {
		t.Errorf("differences of steps that do not exist: %v", slices.Sorted(maps.Keys(unused)))
	}
}

// compare plays a file of requests and reports where an answer is not the recorded one.
func compare(t *testing.T, file string, want []transcript.Answer, intended func(step string) (string, bool)) {
	c := startForUsers(t, cluster.Server{})
	got, err := transcript.PlayFile(t.Context(), transcript.NewPlayer(c.Anonymous().Transport, c.Anonymous().Host, "admin"), file)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Fatalf("%d steps, but %d are recorded: record anew", len(got), len(want))
	}
	for i := range want {
		onlyServed(want[i], got[i])
		diff := transcript.Diff(want[i], got[i])
		reason, expected := intended(want[i].Step)
		switch {
		case got[i].Step != want[i].Step:
			t.Fatalf("step %q was recorded as %q: record anew", got[i].Step, want[i].Step)
		case len(diff) > 0 && !expected:
			t.Errorf("%s\n\t%s", want[i].Step, strings.Join(diff, "\n\t"))
		case len(diff) == 0 && expected:
			t.Errorf("%s: answers as upstream, but is listed as different: %s", want[i].Step, reason)
		}
	}
}

// onlyServed leaves out of a recorded discovery document the kinds that are not served here.
func onlyServed(want, got transcript.Answer) {
	document, ok1 := want.Body.(map[string]any)
	here, ok2 := got.Body.(map[string]any)
	if !ok1 || !ok2 || document["kind"] != "APIResourceList" || here["kind"] != "APIResourceList" {
		return
	}
	served := map[string]bool{}
	for _, r := range here["resources"].([]any) {
		served[r.(map[string]any)["name"].(string)] = true
	}
	document["resources"] = slices.DeleteFunc(document["resources"].([]any), func(r any) bool {
		resource, _, _ := strings.Cut(r.(map[string]any)["name"].(string), "/")
		return !served[resource]
	})
}

// intended are the steps that are answered otherwise than by upstream, and why.
func intended() map[string]string {
	const (
		version  = "says what it is, not what upstream's build was"
		warnings = "pods are not searched for deprecated fields yet"
		rows     = "a table without rows has an empty list of them, never null"
		hidden   = "pods are not searched for variables that hide each other yet"
		mistake  = "a malformed version is the client's mistake, where upstream fails on it"
	)
	return map[string]string{
		"apply/duplicates by an update":               hidden,
		"apply/scaled":                                hidden,
		"apply/conflict with scaling":                 hidden,
		"apply/apply a scale":                         hidden,
		"access/anonymous version":                    version,
		"paths/version":                               version,
		"access/token review":                         "authenticators have no audiences yet",
		"tables/no roles as table":                    rows,
		"kinds/pod with old fields":                   warnings,
		"list/get malformed version":                  mistake,
		"update/malformed version":                    mistake,
		"watch/malformed version":                     mistake,
		"watch/malformed version with initial events": mistake,
		"patch/json whole document":                   "a document that lost its type is taken for the endpoint's; upstream reads its internal type, which knows no field",
	}
}

// startForUsers starts a control plane without components, and with upstream's users.
func startForUsers(t *testing.T, o cluster.Server) *cluster.Cluster {
	t.Helper()
	tokens := token.New(token.Static(map[string]*authn.Identity{
		"admin":  {Name: "admin", UID: "admin", Groups: []string{authn.GroupMasters}},
		"editor": {Name: "editor", UID: "editor"},
		"nobody": {Name: "nobody", UID: "nobody"},
	}))
	// What was recorded comes from an API server without these plugins.
	c, err := cluster.Start(t.Context(), cluster.Options{
		Components:     []cluster.Component{},
		Disable:        []string{serviceaccount.Name, taintnodesbycondition.Name, podsecurity.Name},
		Authenticators: []cluster.AuthenticatorStage{cluster.Ready[authn.Authenticator]("tokens", tokens)}, Server: o,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}
