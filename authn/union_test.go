package authn_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/authntest"
)

var (
	errBad   = errors.New("bad password")
	errWorse = errors.New("worse certificate")
)

func is(name string, groups ...string) authn.Authenticator {
	return authn.Func(func(*http.Request) (*authn.Identity, error) {
		return &authn.Identity{Name: name, UID: "u1", Groups: groups, Extra: map[string][]string{"k": {"v"}}}, nil
	})
}

func fails(err error) authn.Authenticator {
	return authn.Func(func(*http.Request) (*authn.Identity, error) { return nil, err })
}

func TestUnion(t *testing.T) {
	abstain := fails(authn.ErrNoCredentials)
	for name, c := range map[string]struct {
		chain  []authn.Authenticator
		want   string
		errs   []error
		absent []error
	}{
		"empty":                         {errs: []error{authn.ErrNoCredentials}},
		"all abstain":                   {chain: []authn.Authenticator{abstain, abstain}, errs: []error{authn.ErrNoCredentials}},
		"first success wins":            {chain: []authn.Authenticator{abstain, is("ann"), is("bob")}, want: "ann"},
		"success after failure":         {chain: []authn.Authenticator{fails(errBad), is("bob")}, want: "bob"},
		"every failure is told":         {chain: []authn.Authenticator{fails(errBad), abstain, fails(errWorse)}, errs: []error{errBad, errWorse}, absent: []error{authn.ErrNoCredentials}},
		"one alone":                     {chain: []authn.Authenticator{fails(errBad)}, errs: []error{errBad}},
		"nobody is not an identity":     {chain: []authn.Authenticator{fails(nil), is("ann")}, want: "ann"},
		"unions nest and still abstain": {chain: []authn.Authenticator{authn.Union(abstain, abstain), abstain}, errs: []error{authn.ErrNoCredentials}},
	} {
		t.Run(name, func(t *testing.T) {
			id, err := authn.Union(c.chain...).Authenticate(httptest.NewRequest(http.MethodGet, "/", nil))
			if c.want != "" {
				if err != nil || id == nil || id.Name != c.want {
					t.Fatalf("got %v, %v; want %s", id, err, c.want)
				}
				return
			}
			if id != nil || err == nil {
				t.Fatalf("got %v, %v; want an error", id, err)
			}
			for _, want := range c.errs {
				if !errors.Is(err, want) {
					t.Errorf("error %q does not tell %q", err, want)
				}
			}
			for _, no := range c.absent {
				if errors.Is(err, no) {
					t.Errorf("error %q is taken for %q", err, no)
				}
			}
		})
	}
}

func TestUnionTellsAFailureOnce(t *testing.T) {
	_, err := authn.Union(fails(errBad), fails(errWorse), fails(errors.New("bad password"))).Authenticate(httptest.NewRequest(http.MethodGet, "/", nil))
	if want := "bad password\nworse certificate"; err == nil || err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

func TestWithGroup(t *testing.T) {
	for name, c := range map[string]struct {
		auth authn.Authenticator
		want []string
	}{
		"added":                   {is("ann", "dev"), []string{"dev", authn.GroupAuthenticated}},
		"already there":           {is("ann", authn.GroupAuthenticated, "dev"), []string{authn.GroupAuthenticated, "dev"}},
		"not to one of that name": {is(authn.Anonymous, "dev"), []string{"dev"}},
		"not to the anonymous":    {authn.AnonymousFallback(fails(authn.ErrNoCredentials)), []string{authn.GroupUnauthenticated}},
		"not to unauthenticated":  {is("probe", authn.GroupUnauthenticated), []string{authn.GroupUnauthenticated}},
	} {
		t.Run(name, func(t *testing.T) {
			id, err := authn.WithGroup(c.auth, authn.GroupAuthenticated).Authenticate(httptest.NewRequest(http.MethodGet, "/", nil))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(id.Groups, c.want) {
				t.Errorf("groups %q, want %q", id.Groups, c.want)
			}
		})
	}
	if _, err := authn.WithGroup(fails(errBad), "g").Authenticate(nil); !errors.Is(err, errBad) {
		t.Errorf("error %v, want %v", err, errBad)
	}
}

func TestWithGroupSharesNothing(t *testing.T) {
	stored := &authn.Identity{Name: "ann", Groups: append(make([]string, 0, 8), "dev")}
	auth := authn.Func(func(*http.Request) (*authn.Identity, error) { return stored, nil })
	a, _ := authn.WithGroup(auth, "a").Authenticate(nil)
	b, _ := authn.WithGroup(auth, "b").Authenticate(nil)
	if a.Groups[1] != "a" || b.Groups[1] != "b" || len(stored.Groups) != 1 {
		t.Errorf("identities share memory: %q %q %q", a.Groups, b.Groups, stored.Groups)
	}
}

func TestAnonymousFallback(t *testing.T) {
	if id, err := authn.AnonymousFallback(fails(authn.ErrNoCredentials)).Authenticate(nil); err != nil || !reflect.DeepEqual(id, authn.AnonymousIdentity()) {
		t.Errorf("got %v, %v; want the anonymous user", id, err)
	}
	if id, err := authn.AnonymousFallback(fails(errBad)).Authenticate(nil); id != nil || !errors.Is(err, errBad) {
		t.Errorf("bad credentials became %v, %v", id, err)
	}
	if id, err := authn.AnonymousFallback(is("ann")).Authenticate(nil); err != nil || id.Name != "ann" {
		t.Errorf("got %v, %v; want ann", id, err)
	}
}

// byHeader trusts a header: the smallest authenticator that obeys the contract.
func byHeader(r *http.Request) (*authn.Identity, error) {
	switch user := r.Header.Get("X-User"); user {
	case "":
		return nil, authn.ErrNoCredentials
	case "mallory":
		return nil, errBad
	default:
		return &authn.Identity{Name: user}, nil
	}
}

func TestContractHoldsForCombinators(t *testing.T) {
	with := func(user string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-User", user)
		return r
	}
	authntest.Run(t, authn.Union(fails(authn.ErrNoCredentials), authn.Func(byHeader)), authntest.Samples{
		Good: []authntest.Sample{{Request: with("ann"), Want: authn.Identity{Name: "ann"}}},
		Bad:  []*http.Request{with("mallory")},
	})
}

func TestContext(t *testing.T) {
	ctx := authn.NewContext(t.Context(), &authn.Identity{Name: "ann"})
	if id := authn.FromContext(ctx); id == nil || id.Name != "ann" {
		t.Errorf("got %v, want ann", id)
	}
	if id := authn.FromContext(t.Context()); id != nil {
		t.Errorf("got %v from a context that carries nobody", id)
	}
}

func TestAudiences(t *testing.T) {
	asked := []string{"api"}
	ctx := authn.WithAudiences(t.Context(), asked)
	asked[0] = "changed after the fact"
	if got, ok := authn.Audiences(ctx); !ok || !reflect.DeepEqual(got, []string{"api"}) {
		t.Errorf("got %q, %v", got, ok)
	}
	if got, ok := authn.Audiences(t.Context()); ok || got != nil {
		t.Errorf("got %q from a context that asks for nothing", got)
	}
	if _, ok := authn.Audiences(authn.WithAudiences(t.Context(), nil)); !ok {
		t.Error("asking for nobody is not the same as not asking")
	}
}

// What is no success is none, whatever else it says.
func TestAnswersThatContradictThemselves(t *testing.T) {
	both := authn.Func(func(*http.Request) (*authn.Identity, error) { return &authn.Identity{Name: "ann"}, errBad })
	if id, err := authn.Union(both, is("bob")).Authenticate(nil); err != nil || id.Name != "bob" {
		t.Errorf("union: got %v, %v", id, err)
	}
	if id, err := authn.Union(fails(nil), fails(nil)).Authenticate(nil); id != nil || err == nil || err.Error() != authn.ErrNoCredentials.Error() {
		t.Errorf("union of nobodies: got %v, %v", id, err)
	}
	if id, err := authn.WithGroup(both, "g").Authenticate(nil); !errors.Is(err, errBad) || id != nil && len(id.Groups) > 0 {
		t.Errorf("with a group: got %v, %v", id, err)
	}
	if id, err := authn.WithGroup(fails(nil), "g").Authenticate(nil); id != nil || err != nil {
		t.Errorf("nobody with a group: got %v, %v", id, err)
	}
}

// The anonymous user gets no group, even where it is in none.
func TestAnonymousGetsNoGroup(t *testing.T) {
	id, err := authn.WithGroup(is(authn.Anonymous), authn.GroupAuthenticated).Authenticate(nil)
	if err != nil || len(id.Groups) > 0 {
		t.Errorf("got %v, %v", id, err)
	}
}

// The authenticators are those that the union was made of.
func TestUnionKeepsItsAuthenticators(t *testing.T) {
	of := []authn.Authenticator{is("ann"), is("bob")}
	u := authn.Union(of...)
	of[0] = fails(errBad)
	if id, err := u.Authenticate(nil); err != nil || id.Name != "ann" {
		t.Errorf("got %v, %v", id, err)
	}
}

// TestFallback: who has no credentials may be nobody, or anonymous at some paths.
func TestFallback(t *testing.T) {
	none := fails(authn.ErrNoCredentials)
	for path, anonymous := range map[string]bool{"/healthz": true, "/healthz/": false, "/api": false, "/HEALTHZ": false} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		id, err := authn.Fallback(none, authn.AnonymousAt("/livez", "/healthz")).Authenticate(r)
		if anonymous != (err == nil && reflect.DeepEqual(id, authn.AnonymousIdentity())) || !anonymous && !errors.Is(err, authn.ErrNoCredentials) {
			t.Errorf("%s: %v, %v", path, id, err)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	if id, err := authn.Fallback(none, authn.Nobody()).Authenticate(r); id != nil || !errors.Is(err, authn.ErrNoCredentials) {
		t.Errorf("%v, %v", id, err)
	}
	if id, err := authn.Fallback(fails(errBad), authn.AnonymousAt()).Authenticate(r); id != nil || !errors.Is(err, errBad) {
		t.Errorf("%v, %v", id, err)
	}
	if id, err := authn.AnonymousAt("/x").Authenticate(&http.Request{}); id != nil || !errors.Is(err, authn.ErrNoCredentials) {
		t.Errorf("a request without a URL: %v, %v", id, err)
	}
}
