package abac_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/abac"
	"github.com/keelson-dev/keelson/authz/authztest"
)

const versioned = `{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":`

func parse(t testing.TB, lines ...string) abac.Policies {
	t.Helper()
	all, err := abac.Parse(strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func user(name string, groups ...string) *authn.Identity {
	return &authn.Identity{Name: name, Groups: append(groups, authn.GroupAuthenticated)}
}

// about is a request about a resource; the group stands behind a dot.
func about(who *authn.Identity, verb, namespace, resource string) authz.Attributes {
	name, group, _ := strings.Cut(resource, ".")
	return authz.Attributes{User: who, Verb: verb, Namespace: namespace, Resource: name, Group: group, Version: "v1", ResourceRequest: true}
}

func at(who *authn.Identity, verb, path string) authz.Attributes {
	return authz.Attributes{User: who, Verb: verb, Path: path}
}

func TestAuthorize(t *testing.T) {
	z := parse(t,
		"# upstream's example, and more", "", "  ",
		versioned+`{"user":"admin","namespace":"*","resource":"*","apiGroup":"*"}}`,
		versioned+`{"user":"scheduler","namespace":"*","resource":"pods","readonly":true}}`,
		versioned+`{"group":"dev","namespace":"team","resource":"deployments","apiGroup":"apps"}}`,
		versioned+`{"user":"both","group":"dev","namespace":"both","resource":"pods"}}`,
		versioned+`{"user":"*","namespace":"open","resource":"*","apiGroup":"*","readonly":true}}`,
		versioned+`{"group":"*","nonResourcePath":"/api/*","readonly":true}}`,
		versioned+`{"user":"paths","nonResourcePath":"/exact"}}`,
		versioned+`{"user":"every","nonResourcePath":"*"}}`,
		versioned+`{"user":"nodes","resource":"nodes"}}`,
		`{"user":"old"}`,
		`{"user":"older","namespace":"ns"}`,
		`{"user":"oldest","resource":"pods","readonly":true}`,
		`{"apiVersion":"abac.authorization.kubernetes.io/v0","kind":"Policy","group":"ancient","resource":"pods"}`,
	)
	anonymous := &authn.Identity{Name: authn.Anonymous, Groups: []string{authn.GroupUnauthenticated}}
	cases := map[string]struct {
		a    authz.Attributes
		want authz.Verdict
	}{
		"admin":                          {about(user("admin"), "delete", "x", "secrets"), authz.Allow},
		"admin, cluster-wide":            {about(user("admin"), "delete", "", "nodes.x"), authz.Allow},
		"admin, no path":                 {at(user("admin"), "get", "/metrics"), authz.NoOpinion},
		"reads":                          {about(user("scheduler"), "watch", "x", "pods"), authz.Allow},
		"lists":                          {about(user("scheduler"), "list", "x", "pods"), authz.Allow},
		"gets":                           {about(user("scheduler"), "get", "x", "pods"), authz.Allow},
		"writes":                         {about(user("scheduler"), "update", "x", "pods"), authz.NoOpinion},
		"another resource":               {about(user("scheduler"), "get", "x", "secrets"), authz.NoOpinion},
		"another group's resource":       {about(user("scheduler"), "get", "x", "pods.metrics.k8s.io"), authz.NoOpinion},
		"a member":                       {about(user("ann", "ops", "dev"), "create", "team", "deployments.apps"), authz.Allow},
		"a stranger":                     {about(user("dev"), "create", "team", "deployments.apps"), authz.NoOpinion},
		"another namespace":              {about(user("ann", "dev"), "create", "x", "deployments.apps"), authz.NoOpinion},
		"user and member":                {about(user("both", "dev"), "create", "both", "pods"), authz.Allow},
		"user, not member":               {about(user("both"), "create", "both", "pods"), authz.NoOpinion},
		"member, another user":           {about(user("ann", "dev"), "create", "both", "pods"), authz.NoOpinion},
		"everybody":                      {about(user("x"), "get", "open", "pods"), authz.Allow},
		"everybody, but writes":          {about(user("x"), "create", "open", "pods"), authz.NoOpinion},
		"nobody in particular":           {about(anonymous, "get", "open", "pods"), authz.NoOpinion},
		"below a path":                   {at(user("x"), "get", "/api/v1"), authz.Allow},
		"the path without its slash":     {at(user("x"), "get", "/api"), authz.NoOpinion},
		"writes below a path":            {at(user("x"), "post", "/api/v1"), authz.NoOpinion},
		"anonymous below a path":         {at(anonymous, "get", "/api/v1"), authz.NoOpinion},
		"a path":                         {at(user("paths"), "post", "/exact"), authz.Allow},
		"more than a path":               {at(user("paths"), "post", "/exact/ly"), authz.NoOpinion},
		"no path":                        {at(user("nodes"), "get", ""), authz.NoOpinion},
		"every path":                     {at(user("every"), "post", "/x"), authz.Allow},
		"every path, but resources":      {about(user("every"), "get", "", "x"), authz.NoOpinion},
		"without a namespace":            {about(user("nodes"), "delete", "", "nodes"), authz.Allow},
		"in a namespace":                 {about(user("nodes"), "delete", "x", "nodes"), authz.NoOpinion},
		"an old line":                    {about(user("old"), "delete", "x", "y.z"), authz.Allow},
		"an old line, paths":             {at(user("old"), "delete", "/x"), authz.Allow},
		"an old line with a namespace":   {about(user("older"), "delete", "ns", "y.z"), authz.Allow},
		"and another":                    {about(user("older"), "delete", "x", "y.z"), authz.NoOpinion},
		"and paths":                      {at(user("older"), "get", "/x"), authz.NoOpinion},
		"an old line with a resource":    {about(user("oldest"), "get", "ns", "pods.x"), authz.Allow},
		"and writes":                     {about(user("oldest"), "delete", "ns", "pods.x"), authz.NoOpinion},
		"and its paths":                  {at(user("oldest"), "get", "/x"), authz.NoOpinion},
		"an old line with an apiVersion": {about(user("ann", "ancient"), "delete", "x", "pods"), authz.Allow},
	}
	all := make([]authztest.Case, 0, len(cases))
	for name, c := range cases {
		reason := ""
		if c.want == authz.NoOpinion {
			reason = "No policy matched."
		}
		all = append(all, authztest.Case{Name: name, Attributes: c.a, Want: c.want, Reason: reason})
	}
	authztest.Run(t, z, all)
	authztest.Check(t, z, authztest.Case{Fails: true})
	if d, err := (abac.Policies{{APIGroup: "*", Resource: "*", Namespace: "*", NonResourcePath: "*"}}).Authorize(t.Context(), at(user("x"), "get", "/")); d.Verdict != authz.NoOpinion || err != nil {
		t.Errorf("a policy about nobody: %v, %v", d, err)
	}
	if d, err := abac.Policies(nil).Authorize(t.Context(), at(user("x"), "get", "/")); d.Verdict != authz.NoOpinion || err != nil {
		t.Errorf("without policies: %v, %v", d, err)
	}
}

// Who is meant by a line of the old form.
func TestOldSubjects(t *testing.T) {
	for line, want := range map[string]abac.Policy{
		`{}`:                         {Group: authn.GroupAuthenticated, APIGroup: "*", Resource: "*", Namespace: "*", NonResourcePath: "*"},
		`{"user":"*"}`:               {Group: authn.GroupAuthenticated, APIGroup: "*", Resource: "*", Namespace: "*", NonResourcePath: "*"},
		`{"user":"a","group":"*"}`:   {Group: authn.GroupAuthenticated, APIGroup: "*", Resource: "*", Namespace: "*", NonResourcePath: "*"},
		`{"user":"a","group":"b"}`:   {User: "a", Group: "b", APIGroup: "*", Resource: "*", Namespace: "*", NonResourcePath: "*"},
		`{"User":"a"}`:               {Group: authn.GroupAuthenticated, APIGroup: "*", Resource: "*", Namespace: "*", NonResourcePath: "*"},
		`{"user":"a","resource":""}`: {User: "a", APIGroup: "*", Resource: "*", Namespace: "*", NonResourcePath: "*"},
	} {
		if got := parse(t, line); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %+v, want %+v", line, got, want)
		}
	}
}

func TestRulesFor(t *testing.T) {
	z := parse(t,
		versioned+`{"user":"ann","namespace":"ns","resource":"pods","readonly":true}}`,
		versioned+`{"user":"ann","namespace":"*","resource":"*","apiGroup":"apps","nonResourcePath":"/x"}}`,
		versioned+`{"user":"ann","namespace":"other","resource":"secrets"}}`,
		versioned+`{"user":"bob","namespace":"*","resource":"*"}}`,
		versioned+`{"user":"ann","namespace":"ns","nonResourcePath":"/y","readonly":true}}`,
	)
	read, every := []string{"get", "list", "watch"}, []string{"*"}
	want := authz.Rules{
		Resources: []authz.ResourceRule{{Verbs: read, Groups: []string{""}, Resources: []string{"pods"}}, {Verbs: every, Groups: []string{"apps"}, Resources: every}},
		Paths:     []authz.PathRule{{Verbs: every, Paths: []string{"/x"}}, {Verbs: read, Paths: []string{"/y"}}},
	}
	if got, err := z.RulesFor(t.Context(), user("ann"), "ns"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	if _, err := z.RulesFor(t.Context(), nil, "ns"); !errors.Is(err, authz.ErrNoUser) {
		t.Errorf("without a user: %v", err)
	}
}

func TestBadLines(t *testing.T) {
	for line, want := range map[string]string{
		`{"user":"a"`:       "unexpected end of JSON input",
		`[]`:                "cannot unmarshal array",
		`{"kind":"Policy"}`: "neither apiVersion",
		`{"apiVersion":"abac.authorization.kubernetes.io/v1","kind":"Policy"}`:     "neither apiVersion",
		`{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Rules"}`: "neither apiVersion",
		versioned + `{"resource":"pods"}}`:                                         "spec.user or spec.group is required",
		versioned + `1}`:                                                           "spec: ",
		`{"user":1}`:                                                               "cannot unmarshal number",
		`{"apiVersion":1,"user":"a"}`:                                              "apiVersion: ",
		`{"kind":[],"user":"a"}`:                                                   "kind: ",
		`{"apiVersion":"abac.authorization.kubernetes.io/v0","user":"a"}`:          "neither apiVersion",
		versioned + `{"user":1}}`:                                                  "user: json: cannot unmarshal number",
	} {
		_, err := abac.Parse(strings.NewReader("# first\n\n" + line + "\n" + `{"user":"b"}`))
		var wrong *abac.LineError
		if !errors.As(err, &wrong) || wrong.Line != 3 || wrong.Text != line || !strings.HasPrefix(err.Error(), "line 3: "+line+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
	if _, err := abac.Parse(strings.NewReader(strings.Repeat(" ", 1<<17))); err == nil {
		t.Error("a line has no limit")
	}
}

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.jsonl")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"user":"a"}` + "\n" + `{"user":"b"}`)
	if all, err := abac.Open(path); err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
	write("\nx")
	if _, err := abac.Open(path); err == nil || !strings.HasPrefix(err.Error(), "error reading policy file "+path+", line 2: x: ") {
		t.Errorf("a bad line: %v", err)
	}
	write(strings.Repeat(" ", 1<<17))
	if _, err := abac.Open(path); err == nil || !strings.HasPrefix(err.Error(), "error reading policy file "+path+": ") {
		t.Errorf("a long line: %v", err)
	}
	if _, err := abac.Open(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// FuzzParse: no file makes a panic, and what is read decides about any request.
func FuzzParse(f *testing.F) {
	f.Add(`{"user":"a"}`, "a", "/x")
	f.Add(versioned+`{"group":"*","nonResourcePath":"/a**"}}`, "b", "/a")
	f.Fuzz(func(t *testing.T, text, name, path string) {
		all, err := abac.Parse(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, a := range []authz.Attributes{at(user(name), "get", path), about(user(name), "get", path, "pods")} {
			if d, err := all.Authorize(t.Context(), a); err != nil || d.Verdict == authz.Deny {
				t.Errorf("%+v, %v", d, err)
			}
		}
	})
}

func Example() {
	policies, err := abac.Parse(strings.NewReader(`{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"bob","namespace":"team","resource":"*","apiGroup":"*","readonly":true}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, verb := range []string{"get", "delete"} {
		d, err := policies.Authorize(context.Background(), authz.Attributes{User: &authn.Identity{Name: "bob"}, Verb: verb, Namespace: "team", Resource: "pods", ResourceRequest: true})
		fmt.Println(verb, d.Verdict == authz.Allow, err)
	}
	// Output:
	// get true <nil>
	// delete false <nil>
}
