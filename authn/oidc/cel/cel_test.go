package cel_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/oidc"
	"github.com/keelson-dev/keelson/authn/oidc/cel"
)

const claims = `{"sub":"ann","roles":["a","b"],"text":"x,y","n":1,"t":true,"null":null,"a.b":{"c.d":"deep"},"list":[{"e.f":"far"}],"email":"e","empty":[]}`

func variables(t testing.TB) oidc.Variables {
	t.Helper()
	var all oidc.Claims
	if err := json.Unmarshal([]byte(claims), &all); err != nil {
		t.Fatal(err)
	}
	return oidc.Variables{Claims: all}
}

func TestClaims(t *testing.T) {
	c := cel.New()
	for text, want := range map[string]any{
		`claims.sub`:                         "ann",
		`"oidc:" + claims.sub`:               "oidc:ann",
		`claims.roles`:                       []any{"a", "b"},
		`["x", string(claims.sub)]`:          []any{"x", "ann"},
		`dyn(claims.roles).map(r, "g:" + r)`: []any{"g:a", "g:b"},
		`claims.empty`:                       []any{},
		`claims["null"]`:                     nil,
		`claims.t`:                           true,
		`claims.a__dot__b.c__dot__d`:         "deep",
		`claims["a.b"]["c.d"]`:               "deep",
		`claims.list[0].e__dot__f`:           "far",
		`claims.?absent.orValue("or")`:       "or",
		`has(claims.sub) ? "y" : "n"`:        "y",
	} {
		e, err := c.Claims(text, false)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := e.Evaluate(t.Context(), variables(t)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v", text, got, err)
		}
	}
	// A list of Go strings is no list of values: upstream refuses it, too, unless a map makes another of it.
	e, err := c.Claims(`"x,y".split(",")`, false)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := e.Evaluate(t.Context(), variables(t)); err != nil || reflect.TypeOf(got) == reflect.TypeFor[[]any]() {
		t.Errorf("%#v, %v", got, err)
	}
	e, err = c.Claims(`claims.absent`, false)
	if err != nil {
		t.Fatal(err)
	}
	broken := oidc.Variables{Claims: oidc.Claims{"absent": json.RawMessage("{")}}
	if _, err := e.Evaluate(t.Context(), broken); err == nil || !strings.Contains(err.Error(), `claim "absent" failed to unmarshal: unexpected end of JSON input`) {
		t.Error(err)
	}
	if _, err := e.Evaluate(t.Context(), variables(t)); err == nil || err.Error() != "expression 'claims.absent' resulted in error: no such key: absent" {
		t.Error(err)
	}
}

func TestUser(t *testing.T) {
	c := cel.New()
	who := oidc.Variables{User: &authn.Identity{Name: "ann", UID: "u", Groups: []string{"g"}, Extra: map[string][]string{"example.com/x": {"y"}}}}
	for text, want := range map[string]bool{
		`user.username == "ann" && user.uid == "u"`:        true,
		`!user.username.startsWith("system:")`:             true,
		`user.groups.all(g, !g.startsWith("g"))`:           false,
		`user.extra["example.com/x"] == ["y"]`:             true,
		`user.extra.example__dot__com__slash__x[0] == "y"`: true,
	} {
		e, err := c.User(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := e.Evaluate(t.Context(), who); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

func TestWrong(t *testing.T) {
	c := cel.New()
	for text, want := range map[string]string{
		"claims.":      "compilation failed: ERROR: <input>:1:8: Syntax error",
		"user.name":    "compilation failed: ERROR: <input>:1:1: undeclared reference to 'user'",
		`"condition!"`: "must evaluate to bool",
	} {
		if _, err := c.Claims(text, true); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := c.User("user.nothing == ''"); err == nil || !strings.Contains(err.Error(), "undefined field 'nothing'") {
		t.Error(err)
	}
}

func TestSelects(t *testing.T) {
	c := cel.New()
	for text, want := range map[string]bool{
		`claims.email`:                                    true,
		`claims.?email.orValue("")`:                       true,
		`[1].exists(i, claims.email == "x")`:              true,
		`{"x": claims.email}.x`:                           true,
		`has(claims.email)`:                               true,
		`claims["email"]`:                                 false, // as upstream
		`claims.other.email`:                              false,
		`claims.other.?email.orValue("")`:                 false,
		`claims.?sub.orValue("")`:                         false,
		`[{"email": 1}].exists(c, c.email == 1)`:          false,
		`dyn(claims.list).exists(c, c.?email.hasValue())`: false,
		`claims.email_verified`:                           false,
		`"claims.email"`:                                  false,
		`claims.sub + string(claims.email.size)`:          true,
	} {
		e, err := c.Claims(text, false)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := e.Selects("email"); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func ExampleNew() {
	e, err := cel.New().Claims(`"oidc:" + claims.sub`, false)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Selects("sub"))
	// Output: true
}
