package authentication_test

import (
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/apis/core"
	upstream "k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/serviceaccount"
)

// claims are the claims of a random token, usually with at most one flaw.
func (d dice) claims() []byte {
	now := time.Now().Unix()
	set := func(m map[string]any, key string, v any) {
		if v != nil {
			m[key] = v
		}
	}
	ref := func() any {
		name := d.name("aaabcde")
		return map[string]any{"name": name, "uid": d.pick("uid-"+name, "uid-"+name, "uid-"+name, "uid-"+name, "other")}
	}
	about := map[string]any{"namespace": d.pick("ns", "ns", "ns", "ns", "elsewhere"), "serviceaccount": ref()}
	if d.one(2) {
		about["pod"] = ref()
	}
	if d.one(5) {
		about["secret"] = ref()
	}
	if d.one(3) {
		about["node"] = d.pick(ref(), ref(), map[string]any{"name": "gone"})
	}
	set(about, "warnafter", d.pick(nil, now-10, now+10))
	p := map[string]any{"kubernetes.io": about}
	set(p, "iss", d.pick(issuer, issuer, issuer, issuer, issuer, "https://old", "https://other", nil))
	set(p, "aud", d.pick([]string{"api"}, []string{"api"}, []string{"api", "vault"}, "api", "vault", []string{}, nil, []string{"also", "api"}))
	set(p, "exp", d.pick(now+3600, now+3600, now+3600, now-30, now-120, nil, float64(now)+3600.9))
	set(p, "iat", d.pick(now, now, now, now+30, now+120, nil))
	set(p, "nbf", d.pick(now, now, now, now+30, now+120, nil))
	set(p, "jti", d.pick("jti", nil, ""))
	return must(json.Marshal(p))
}

// sign makes a token of claims, sometimes with another key, another key ID or a flaw.
func (d dice) sign(claims []byte, key, other *ecdsa.PrivateKey) string {
	id := must(serviceaccount.KeyID(key.Public()))
	if d.one(20) {
		key = other
	}
	signer := must(jose.NewSigner(jose.SigningKey{
		Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: d.pick(id, id, id, id, id, "", "unknown").(string)},
	}, nil))
	token := must(must(signer.Sign(claims)).CompactSerialize())
	if d.one(20) {
		at := d.IntN(len(token))
		token = token[:at] + d.name("A.{") + token[at+1:]
	}
	return token
}

func TestTokens(t *testing.T) {
	s, d, key, other := newState(), newDice(), newKey(), newKey()
	issuers, audiences := []string{issuer, "https://old"}, []string{"api", "also"}
	theirs := upstream.JWTTokenAuthenticator(issuers, must(upstream.StaticPublicKeysGetter([]any{&key.PublicKey})), audiences, upstream.NewValidator(s))
	ours := must(serviceaccount.NewVerifier(issuers, must(serviceaccount.NewKeys(key)), s.sources(), serviceaccount.Options{Audiences: audiences}))
	good, bad, foreign := 0, 0, 0
	for n := range *requests {
		claims := d.claims()
		token := d.sign(claims, key, other)
		up, our := t.Context(), t.Context()
		if d.one(4) {
			asked := d.pick([]string{"api"}, []string{"vault"}, []string{"x"}, []string{"vault", "api"}, []string{}).([]string)
			up, our = authenticator.WithAudiences(up, asked), authn.WithAudiences(our, asked)
		}
		response, ok, err := theirs.AuthenticateToken(up, token)
		for range 2 { // the second time, ours has cached the signature
			id, ourErr := ours.Verify(our, token)
			switch {
			case ok && err == nil:
				good++
				if ourErr != nil || !same(id, response.User, response.Audiences) {
					t.Fatalf("token %d, %s: upstream takes it for %+v %q, keelson for %+v, %v", n, claims, response.User, response.Audiences, id, ourErr)
				}
			case err != nil:
				bad++
				if ourErr == nil || !alike(err.Error(), ourErr.Error()) {
					t.Fatalf("token %d, %s: upstream says %v, keelson %v", n, claims, err, ourErr)
				}
			default:
				foreign++
				if ourErr == nil || !strings.HasPrefix(ourErr.Error(), authn.ErrNoCredentials.Error()) {
					t.Fatalf("token %d, %s: upstream takes it for another's, keelson says %v", n, claims, ourErr)
				}
			}
		}
	}
	t.Logf("%d good, %d bad, %d of others", good, bad, foreign)
	if good == 0 || bad == 0 || foreign == 0 {
		t.Error("the tokens are too much alike")
	}
}

// alike reports whether keelson's error is upstream's, perhaps with more text. For signatures, upstream returns its
// library's error.
func alike(theirs, ours string) bool {
	if strings.Contains(theirs, "error in cryptographic primitive") || strings.HasPrefix(theirs, "invalid signature") {
		return strings.HasPrefix(ours, "invalid signature")
	}
	return strings.HasPrefix(ours, theirs)
}

func same(id *authn.Identity, u user.Info, audiences []string) bool {
	extra := u.GetExtra()
	return id.Name == u.GetName() && id.UID == u.GetUID() && reflect.DeepEqual(id.Groups, u.GetGroups()) &&
		(len(extra)+len(id.Extra) == 0 || reflect.DeepEqual(map[string][]string(extra), id.Extra)) &&
		strings.Join(id.Audiences, " ") == strings.Join(audiences, " ")
}

// A token is equal byte for byte except for its signature, and each side accepts the other's.
func TestFormat(t *testing.T) {
	key := newKey()
	keys := must(serviceaccount.NewKeys(key))
	own := must(serviceaccount.NewIssuer(issuer, keys))
	generator := must(upstream.JWTTokenGenerator(issuer, key))
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid-a"}
	}
	ref := &authn.Ref{Name: "a", UID: "uid-a"}
	pod, node, secret := &core.Pod{ObjectMeta: meta("a")}, &core.Node{ObjectMeta: meta("a")}, &core.Secret{ObjectMeta: meta("a")}
	for name, c := range map[string]struct {
		pod    *core.Pod
		secret *core.Secret
		node   *core.Node
		warn   int64
		claims authn.Claims
	}{
		"bound to nothing": {claims: authn.Claims{Audiences: []string{"api"}}},
		"to a pod":         {pod: pod, node: node, warn: 3607, claims: authn.Claims{Audiences: []string{"api", "vault"}, Pod: ref, Node: ref}},
		"to a lost node":   {pod: pod, node: &core.Node{ObjectMeta: metav1.ObjectMeta{Name: "gone"}}, claims: authn.Claims{Pod: ref, Node: &authn.Ref{Name: "gone"}}},
		"to a secret":      {secret: secret, claims: authn.Claims{Audiences: []string{"<&>"}, Secret: ref}},
		"to a node":        {node: node, claims: authn.Claims{Audiences: []string{"api"}, Node: ref}},
	} {
		public, private, err := upstream.Claims(core.ServiceAccount{ObjectMeta: meta("a")}, c.pod, c.secret, c.node, nil, nil, 3600, c.warn, c.claims.Audiences, nil)
		if err != nil {
			t.Fatal(err)
		}
		theirs := must(generator.GenerateToken(t.Context(), public, private))
		c.claims.ID, c.claims.Namespace, c.claims.ServiceAccount = public.ID, "ns", *ref
		c.claims.IssuedAt, c.claims.Expires = public.IssuedAt.Time(), public.Expiry.Time()
		if c.warn != 0 {
			c.claims.WarnAfter = c.claims.IssuedAt.Add(time.Duration(c.warn) * time.Second)
		}
		ours := must(own.Issue(t.Context(), c.claims))
		if said(theirs) != said(ours) {
			t.Errorf("%s: upstream makes %s, keelson %s", name, theirs, ours)
		}
	}
}

// said returns the signed part of a token.
func said(token string) string { return token[:strings.LastIndex(token, ".")] }

func TestDiscovery(t *testing.T) {
	key, old := newKey(), newKey()
	keys := must(serviceaccount.NewKeys(key, old.Public()))
	theirs := must(upstream.NewOpenIDMetadataProvider(issuer, "", "192.0.2.1:6443", must(upstream.StaticPublicKeysGetter([]any{key.Public(), old.Public()}))))
	ours := must(serviceaccount.NewDiscovery(issuer, "https://192.0.2.1:6443"+upstream.JWKSPath, keys)).Handlers()
	config, _ := theirs.GetConfigJSON()
	keyset, _ := theirs.GetKeysetJSON()
	for path, want := range map[string][]byte{upstream.OpenIDConfigPath: config, upstream.JWKSPath: keyset} {
		w := httptest.NewRecorder()
		ours[path].ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), "GET", path, nil))
		if got := w.Body.String(); got != string(want) {
			t.Errorf("%s: upstream serves\n%s\nkeelson\n%s", path, want, got)
		}
	}
}
