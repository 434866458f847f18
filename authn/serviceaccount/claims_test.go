package serviceaccount_test

import (
	"context"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/serviceaccount"
)

// Times that other issuers with the same key may write, or leave away.
func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := newEC(t, elliptic.P256())
		w := newWorld(t, key)
		signer := must(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil))(t)
		now := time.Now()
		at := func(d time.Duration) string { return fmt.Sprint(now.Add(d).Unix()) }
		for name, c := range map[string]struct {
			times string // claims, with a comma behind each
			want  error
		}{
			"none":                     {"", nil},
			"all":                      {`"iat":` + at(0) + `,"nbf":` + at(0) + `,"exp":` + at(0) + `,`, nil},
			"a clock ahead":            {`"iat":` + at(time.Minute) + `,`, nil},
			"issued in the future":     {`"iat":` + at(time.Minute+time.Second) + `,`, serviceaccount.ErrIssuedInFuture},
			"nearly valid":             {`"nbf":` + at(time.Minute) + `,`, nil},
			"not yet valid":            {`"nbf":` + at(time.Minute+time.Second) + `,`, serviceaccount.ErrNotYetValid},
			"just expired":             {`"exp":` + at(-time.Minute) + `,`, nil},
			"expired":                  {`"exp":` + at(-time.Minute-time.Second) + `,`, serviceaccount.ErrExpired},
			"a fraction of a second":   {`"exp":` + at(-time.Minute) + `.9,`, nil},
			"no number":                {`"exp":"tomorrow",`, serviceaccount.ErrMalformed},
			"beyond what can be added": {`"exp":1152921504606846976,`, serviceaccount.ErrMalformed},
			"as far before":            {`"iat":-1152921504606846976,`, serviceaccount.ErrMalformed},
		} {
			body := `{` + c.times + `"iss":"` + issuerURL + `","aud":["api"],"kubernetes.io":{"namespace":"default",` +
				`"serviceaccount":{"name":"web","uid":"sa-1"}},"sub":"system:serviceaccount:default:web"}`
			signed := must(signer.Sign([]byte(body)))(t)
			if _, err := w.verifier.Verify(t.Context(), must(signed.CompactSerialize())(t)); !errors.Is(err, c.want) {
				t.Errorf("%s: got %v, want %v", name, err, c.want)
			}
		}
	})
}

// A node that other issuers with the same key name without a name, or without a UID.
func TestNamelessNode(t *testing.T) {
	key := newEC(t, elliptic.P256())
	w := newWorld(t, key)
	signer := must(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil))(t)
	for node, want := range map[string]map[string][]string{
		`{"name":"","uid":"node-1"}`: {serviceaccount.PodName: {"web-0"}, serviceaccount.PodUID: {"pod-1"}},
		`{"name":"node-0"}`:          {serviceaccount.PodName: {"web-0"}, serviceaccount.PodUID: {"pod-1"}, serviceaccount.NodeName: {"node-0"}},
	} {
		signed := must(signer.Sign([]byte(`{"iss":"` + issuerURL + `","aud":["api"],"kubernetes.io":{"namespace":"default","node":` + node +
			`,"pod":{"name":"web-0","uid":"pod-1"},"serviceaccount":{"name":"web","uid":"sa-1"}},"sub":"system:serviceaccount:default:web"}`)))(t)
		id, err := w.verifier.Verify(t.Context(), must(signed.CompactSerialize())(t))
		if err != nil || !reflect.DeepEqual(id.Extra, want) {
			t.Errorf("%s: %+v, %v; want %v", node, id, err, want)
		}
	}
}

// Times that are not set are not written.
func TestUnsetTimes(t *testing.T) {
	w := newWorld(t, newEC(t, elliptic.P256()))
	c := claims()
	c.IssuedAt, c.Expires = time.Time{}, time.Time{}
	data := must(base64.RawURLEncoding.DecodeString(strings.Split(w.issue(t, c), ".")[1]))(t)
	var written map[string]json.RawMessage
	if err := json.Unmarshal(data, &written); err != nil {
		t.Fatal(err)
	}
	for _, claim := range []string{"exp", "iat", "nbf"} {
		if value, ok := written[claim]; ok {
			t.Errorf("%s is %s", claim, value)
		}
	}
	if strings.Contains(string(data), "warnafter") {
		t.Errorf("%s has a warning", data)
	}
}

// What should be said of the account, and of one object only.
func TestBadClaims(t *testing.T) {
	w := newWorld(t, newEC(t, elliptic.P256()))
	secret := &authn.Ref{Name: "hold", UID: "secret-1"}
	for name, change := range map[string]func(*authn.Claims){
		"no namespace":      func(c *authn.Claims) { c.Namespace = "" },
		"no name":           func(c *authn.Claims) { c.ServiceAccount.Name = "" },
		"a secret and pod":  func(c *authn.Claims) { c.Secret, c.Node = secret, nil },
		"a secret and node": func(c *authn.Claims) { c.Secret, c.Pod = secret, nil },
	} {
		c := podClaims()
		change(&c)
		if tok, err := w.issuer.Issue(t.Context(), c); !errors.Is(err, serviceaccount.ErrClaims) || tok != "" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Whoever keeps no audit has no one to warn, and no warning is due of a token without a time for it.
func TestWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newEC(t, elliptic.P256()))
		var told []string
		auditing := must(serviceaccount.NewVerifier([]string{issuerURL}, w.keys, w.sources(), serviceaccount.Options{
			Audiences: []string{"api"}, Annotate: func(_ context.Context, _, value string) { told = append(told, value) }}))(t)
		late, epoch := claims(), claims()
		late.WarnAfter, epoch.WarnAfter = time.Now().Add(-5*time.Second), time.Unix(0, 0)
		for _, c := range []authn.Claims{claims(), late, epoch} {
			tok := w.issue(t, c)
			for _, v := range []*serviceaccount.Verifier{w.verifier, auditing} {
				if _, err := v.Verify(t.Context(), tok); err != nil {
					t.Error(err)
				}
			}
		}
		if len(told) != 1 || !strings.HasSuffix(told[0], "warning threshold: 5") {
			t.Errorf("told %q", told)
		}
	})
}

// Claims that are not JSON are nobody's, and no more is said of them.
func TestNotJSON(t *testing.T) {
	w := newWorld(t, newEC(t, elliptic.P256()))
	tok := "e30." + base64.RawURLEncoding.EncodeToString([]byte("claims")) + ".c2ln"
	if _, err := w.verifier.Verify(t.Context(), tok); !errors.Is(err, authn.ErrNoCredentials) || err.Error() != authn.ErrNoCredentials.Error() {
		t.Errorf("got %v", err)
	}
}

// A token is for the audiences that the request asks for, and else for the server's.
func TestAudiencesAsked(t *testing.T) {
	w := newWorld(t, newEC(t, elliptic.P256()))
	for name, c := range map[string]struct{ token, asked, want []string }{
		"the server's":            {list("api", "vault"), nil, list("api")},
		"another's":               {list("api", "vault"), list("vault"), list("vault")},
		"both":                    {list("api", "vault"), list("vault", "api", "none"), list("vault", "api")},
		"not another's":           {list("api"), list("vault"), nil},
		"nobody's":                {list("api"), list(), nil},
		"of a token for nobody":   {nil, list("also"), list("also")},
		"no one else's than that": {nil, list("vault"), nil},
	} {
		claims := claims()
		claims.Audiences = c.token
		ctx := t.Context()
		if c.asked != nil {
			ctx = authn.WithAudiences(ctx, c.asked)
		}
		id, err := w.verifier.Verify(ctx, w.issue(t, claims))
		switch {
		case c.want == nil && !errors.Is(err, serviceaccount.ErrAudience):
			t.Errorf("%s: got %v, %v", name, id, err)
		case c.want != nil && (err != nil || !slices.Equal(id.Audiences, c.want)):
			t.Errorf("%s: got %v, %v", name, id, err)
		}
	}
}

func list(values ...string) []string { return append([]string{}, values...) }

// What is refused has nothing of the document, and says what would be accepted.
func TestDiscoveryRefuses(t *testing.T) {
	keys := must(serviceaccount.NewKeys(newEC(t, elliptic.P384()), newEC(t, elliptic.P256()).Public(), rsaKey().Public(), newEC(t, elliptic.P256()).Public()))(t)
	handlers := must(serviceaccount.NewDiscovery(issuerURL, issuerURL+serviceaccount.JWKSPath, keys))(t).Handlers()
	ask := func(method, accept string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, serviceaccount.ConfigPath, nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		handlers[serviceaccount.ConfigPath].ServeHTTP(w, r)
		return w
	}
	if w := ask(http.MethodPost, ""); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET" || strings.Contains(w.Body.String(), "issuer") {
		t.Errorf("POST: %d, Allow %q: %s", w.Code, w.Header().Get("Allow"), w.Body)
	}
	if w := ask(http.MethodGet, "text/html"); w.Code != http.StatusNotAcceptable || strings.Contains(w.Body.String(), "issuer") {
		t.Errorf("HTML: %d: %s", w.Code, w.Body)
	}
	// The algorithms are there once each, in order.
	if w := ask(http.MethodGet, ""); !strings.Contains(w.Body.String(), `["ES256","ES384","RS256"]`) {
		t.Errorf("got %s", w.Body)
	}
}
