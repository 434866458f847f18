package core_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

// signer signs nothing, and records what it was asked to sign.
type signer struct {
	claims authn.Claims
	err    error
}

func (s *signer) Issue(_ context.Context, c authn.Claims) (string, error) {
	s.claims = c
	return "signed", s.err
}

// tokenWorld has an account, web, pods with and without nodes, a node and a secret.
type tokenWorld struct {
	signer   signer
	tokens   core.Tokens
	registry *registry.Registry
	uid      map[string]string
	warned   []string
	noted    []string
}

func newTokenWorld(t *testing.T) *tokenWorld {
	t.Helper()
	w := &tokenWorld{uid: map[string]string{}, registry: running(t)}
	w.tokens = core.Tokens{
		Issuer: &w.signer, Audiences: []string{"api", "also"},
		Annotate: func(_ context.Context, key, value string) { w.noted = append(w.noted, key+"="+value) },
	}
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
	known := func(obj registry.Object) { w.uid[obj.GetName()] = string(obj.GetUID()) }
	known(create(t, w.registry, &corev1.ServiceAccount{ObjectMeta: named("web")}))
	known(create(t, w.registry, &corev1.Secret{ObjectMeta: named("hold")}))
	known(create(t, w.registry, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}))
	for _, p := range [][3]string{{"web-0", "web", "node-0"}, {"web-1", "web", ""}, {"web-2", "web", "gone"}, {"db-0", "db", ""}} {
		of := pod(p[0])
		of.Spec.ServiceAccountName, of.Spec.NodeName = p[1], p[2]
		known(create(t, w.registry, of))
	}
	return w
}

// ask requests a token for an account as a client would.
func (w *tokenWorld) ask(t *testing.T, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	t.Helper()
	w.warned, w.noted, w.signer.claims = nil, nil, authn.Claims{}
	action := registrytest.Find(t, core.Kinds(core.Options{Tokens: w.tokens}), "serviceaccounts").Sub.Actions["token"]
	action.Default(request)
	at := registry.ObjectKey{Resource: corev1.Resource("serviceaccounts"), Namespace: "default", Name: account}
	ctx := registry.WithWarnings(t.Context(), func(text string) { w.warned = append(w.warned, text) })
	answer, err := action.Run(ctx, w.registry.Access(), at, request, false)
	if err != nil {
		return nil, err
	}
	return answer.(*authenticationv1.TokenRequest), nil
}

// requestFor returns a request for a token, bound to an object unless kind is empty.
func requestFor(apiVersion, kind, name, uid string) *authenticationv1.TokenRequest {
	r := &authenticationv1.TokenRequest{}
	if kind != "" {
		r.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(uid)}
	}
	return r
}

func TestTokenRequestDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTokenWorld(t)
		got, err := w.ask(t, "web", &authenticationv1.TokenRequest{})
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		if got.Name != "web" || got.Namespace != "default" || string(got.UID) != w.uid["web"] || !got.CreationTimestamp.Time.Equal(now) {
			t.Errorf("metadata %+v", got.ObjectMeta)
		}
		if *got.Spec.ExpirationSeconds != 3600 || strings.Join(got.Spec.Audiences, " ") != "api also" {
			t.Errorf("spec %+v", got.Spec)
		}
		if got.Status.Token != "signed" || !got.Status.ExpirationTimestamp.Time.Equal(now.Add(time.Hour)) {
			t.Errorf("status %+v", got.Status)
		}
		c := w.signer.claims
		if c.ID == "" || c.Namespace != "default" || c.ServiceAccount != (authn.Ref{Name: "web", UID: w.uid["web"]}) || c.Pod != nil || c.Node != nil || c.Secret != nil ||
			!c.IssuedAt.Equal(now) || !c.Expires.Equal(now.Add(time.Hour)) || !c.WarnAfter.IsZero() || strings.Join(c.Audiences, " ") != "api also" {
			t.Errorf("claims %+v", c)
		}
		if want := "authentication.kubernetes.io/issued-credential-id=JTI=" + c.ID; len(w.noted) != 1 || w.noted[0] != want {
			t.Errorf("audit annotations %q, want %q", w.noted, want)
		}
	})
}

func TestTokenRequestBound(t *testing.T) {
	w := newTokenWorld(t)
	for name, c := range map[string]struct {
		apiVersion, kind, object string
		pod, node, secret        string // the names in the claims
	}{
		"pod":               {"v1", "Pod", "web-0", "web-0", "node-0", ""},
		"pod of no version": {"", "Pod", "web-0", "web-0", "node-0", ""},
		"pod on no node":    {"v1", "Pod", "web-1", "web-1", "", ""},
		"pod, node gone":    {"v1", "Pod", "web-2", "web-2", "gone", ""},
		"node":              {"v1", "Node", "node-0", "", "node-0", ""},
		"secret":            {"v1", "Secret", "hold", "", "", "hold"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, uid := range []string{"", w.uid[c.object]} {
				if _, err := w.ask(t, "web", requestFor(c.apiVersion, c.kind, c.object, uid)); err != nil {
					t.Fatal(err)
				}
				for what, pair := range map[string]struct {
					got  *authn.Ref
					want string
				}{"pod": {w.signer.claims.Pod, c.pod}, "node": {w.signer.claims.Node, c.node}, "secret": {w.signer.claims.Secret, c.secret}} {
					if (pair.got == nil) != (pair.want == "") || pair.got != nil && *pair.got != (authn.Ref{Name: pair.want, UID: w.uid[pair.want]}) {
						t.Errorf("%s %+v, want %q", what, pair.got, pair.want)
					}
				}
			}
		})
	}
}

// A pod's token for the server remains valid after its time, unless Strict is set.
func TestTokenRequestExpiration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTokenWorld(t)
		const year = 365 * 24 * time.Hour
		for name, c := range map[string]struct {
			pod       string
			asked     int64
			audiences []string
			change    func(*core.Tokens)
			told      time.Duration // in the response
			life      time.Duration // in the token, if different
			warned    string
		}{
			"as asked":              {asked: 600, told: 10 * time.Minute},
			"the longest":           {asked: 1 << 32, told: 1 << 32 * time.Second},
			"a pod's":               {pod: "web-0", asked: 3607, told: 3607 * time.Second, life: year},
			"a pod's, for both":     {pod: "web-0", asked: 3607, audiences: []string{"also", "api"}, told: 3607 * time.Second, life: year},
			"a pod's, for another":  {pod: "web-0", asked: 3607, audiences: []string{"api", "vault"}, told: 3607 * time.Second},
			"a pod's, by choice":    {pod: "web-0", asked: 3600, told: time.Hour},
			"of no pod":             {asked: 3607, told: 3607 * time.Second},
			"a pod's, strictly":     {pod: "web-0", asked: 3607, change: func(o *core.Tokens) { o.Strict = true }, told: 3607 * time.Second},
			"too long":              {asked: 90000, change: func(o *core.Tokens) { o.MaxExpiration = 2 * time.Hour }, told: 2 * time.Hour, warned: "requested expiration of 90000 seconds shortened to 7200 seconds"},
			"not too long":          {asked: 7200, change: func(o *core.Tokens) { o.MaxExpiration = 2 * time.Hour }, told: 2 * time.Hour},
			"a pod's, under a most": {pod: "web-0", asked: 3607, change: func(o *core.Tokens) { o.MaxExpiration = 2 * time.Hour }, told: 3607 * time.Second, life: year},
		} {
			before := w.tokens
			if c.change != nil {
				c.change(&w.tokens)
			}
			request := requestFor("v1", "", "", "")
			if c.pod != "" {
				request = requestFor("v1", "Pod", c.pod, "")
			}
			request.Spec.ExpirationSeconds, request.Spec.Audiences = &c.asked, c.audiences
			got, err := w.ask(t, "web", request)
			w.tokens = before
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			life, warnAfter := c.told, time.Time{}
			if c.life != 0 {
				life, warnAfter = c.life, time.Now().Add(c.told)
			}
			claims := w.signer.claims
			if told := time.Until(got.Status.ExpirationTimestamp.Time); told != c.told || time.Duration(*got.Spec.ExpirationSeconds)*time.Second != c.told {
				t.Errorf("%s: told %v and %d s, want %v", name, told, *got.Spec.ExpirationSeconds, c.told)
			}
			if !claims.Expires.Equal(time.Now().Add(life)) || !claims.WarnAfter.Equal(warnAfter) {
				t.Errorf("%s: expires %v, warns after %v; want a life of %v", name, claims.Expires, claims.WarnAfter, life)
			}
			if strings.Join(w.warned, "\n") != c.warned {
				t.Errorf("%s: warnings %q, want %q", name, w.warned, c.warned)
			}
		}
	})
}

func TestTokenRequestRefused(t *testing.T) {
	w := newTokenWorld(t)
	with := func(r *authenticationv1.TokenRequest, change func(*authenticationv1.TokenRequest)) *authenticationv1.TokenRequest {
		change(r)
		return r
	}
	lives := func(seconds int64) *authenticationv1.TokenRequest {
		return with(requestFor("", "", "", ""), func(r *authenticationv1.TokenRequest) { r.Spec.ExpirationSeconds = &seconds })
	}
	attest := func(apiVersion string, attestations map[string]authenticationv1.AttestationValue) *authenticationv1.TokenRequest {
		return with(requestFor(apiVersion, "ValidatingWebhookConfiguration", "x", ""), func(r *authenticationv1.TokenRequest) {
			r.Spec.Attestations, r.Spec.Audiences = attestations, []string{"hook"}
		})
	}
	const hooks = "admissionregistration.k8s.io/v1"
	type values = map[string]authenticationv1.AttestationValue
	for name, c := range map[string]struct {
		account string
		request *authenticationv1.TokenRequest
		is      error
		want    string
	}{
		"no account":         {"nobody", requestFor("", "", "", ""), registry.ErrNotFound, `serviceaccounts "nobody": not found`},
		"another name":       {"web", with(requestFor("", "", "", ""), func(r *authenticationv1.TokenRequest) { r.Name = "x" }), registry.ErrInvalid, `metadata.name: Invalid value: "x": must match the service account name if specified`},
		"another namespace":  {"web", with(requestFor("", "", "", ""), func(r *authenticationv1.TokenRequest) { r.Namespace = "x" }), registry.ErrInvalid, `metadata.namespace: Invalid value: "x": must match the service account namespace if specified`},
		"another UID":        {"web", with(requestFor("", "", "", ""), func(r *authenticationv1.TokenRequest) { r.UID = "x" }), registry.ErrConflict, `TokenRequest.authentication.k8s.io "web": conflict: the UID in the token request (x) does not match the UID of the service account (` + w.uid["web"] + `)`},
		"too short":          {"web", lives(599), registry.ErrInvalid, "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"},
		"too long":           {"web", lives(1<<32 + 1), registry.ErrInvalid, "spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds"},
		"no pod":             {"web", requestFor("v1", "Pod", "x", ""), registry.ErrNotFound, `pods "x": not found`},
		"no secret":          {"web", requestFor("v1", "Secret", "x", ""), registry.ErrNotFound, `secrets "x": not found`},
		"no node":            {"web", requestFor("v1", "Node", "x", ""), registry.ErrNotFound, `nodes "x": not found`},
		"pod of another":     {"web", requestFor("v1", "Pod", "db-0", ""), registry.ErrBadRequest, `cannot bind token for serviceaccount "web" to pod running with different serviceaccount name.`},
		"another life":       {"web", requestFor("v1", "Pod", "web-0", "x"), registry.ErrConflict, `Pod "web-0": conflict: the UID in the bound object reference (x) does not match the UID in record. The object might have been deleted and then recreated`},
		"a config map":       {"web", requestFor("v1", "ConfigMap", "x", ""), registry.ErrBadRequest, "cannot bind token to object of type /v1, Kind=ConfigMap"},
		"a pod of elsewhere": {"web", requestFor("apps/v1", "Pod", "x", ""), registry.ErrBadRequest, "cannot bind token to object of type apps/v1, Kind=Pod"},
		"secret elsewhere":   {"web", requestFor("apps/v1", "Secret", "x", ""), registry.ErrBadRequest, "cannot bind token to object of type apps/v1, Kind=Secret"},
		"node elsewhere":     {"web", requestFor("apps/v1", "Node", "x", ""), registry.ErrBadRequest, "cannot bind token to object of type apps/v1, Kind=Node"},
		"a webhook":          {"web", attest(hooks, values{"admissionReviewAPIGroups": {"apps"}}), registry.ErrBadRequest, "cannot bind token to object of type admissionregistration.k8s.io/v1, Kind=ValidatingWebhookConfiguration (feature gate APIServerWebhookAuthenticationToken is disabled)"},
		"an old webhook":     {"web", attest("admissionregistration.k8s.io/v1beta1", nil), registry.ErrBadRequest, "cannot bind token to object of type admissionregistration.k8s.io/v1beta1, Kind=ValidatingWebhookConfiguration"},
		"attests nothing":    {"web", attest(hooks, nil), registry.ErrInvalid, "webhook bound requests require exactly one admissionReviewAPIGroups attestation"},
		"attests otherwise":  {"web", attest(hooks, values{"x": {"y"}}), registry.ErrInvalid, `spec.attestations[x]: Unsupported value: "x": supported values: "admissionReviewAPIGroups"`},
		"attests twice":      {"web", attest(hooks, values{"admissionReviewAPIGroups": {"a", "b"}}), registry.ErrInvalid, "must specify a single value"},
		"attests emptiness":  {"web", attest(hooks, values{"admissionReviewAPIGroups": {""}}), registry.ErrInvalid, "may not be an empty string"},
		"attests a bad name": {"web", attest(hooks, values{"admissionReviewAPIGroups": {"A"}}), registry.ErrInvalid, `"A": must specify a valid API Group: `},
		"attests for a pod":  {"web", attest("", values{"admissionReviewAPIGroups": {"apps"}}), registry.ErrInvalid, "attestations may only be specified with a webhook bound object reference"},
		"two audiences": {"web", with(attest(hooks, values{"admissionReviewAPIGroups": {"*"}}), func(r *authenticationv1.TokenRequest) { r.Spec.Audiences = nil }),
			registry.ErrInvalid, `spec.audiences: Invalid value: ["api","also"]: must be length 1 when bound to a webhook config`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := w.ask(t, c.account, c.request)
			if got != nil || !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v; want %v", got, err, c.want)
			}
			if w.signer.claims.ID != "" || w.noted != nil {
				t.Error("a token was signed")
			}
		})
	}
	w.signer.err = errors.New("the key is gone")
	if _, err := w.ask(t, "web", requestFor("", "", "", "")); !errors.Is(err, w.signer.err) || err.Error() != "failed to generate token: the key is gone" {
		t.Errorf("signing fails: %v", err)
	}
}

func TestNoTokensWithoutAnIssuer(t *testing.T) {
	if actions := registrytest.Find(t, core.Kinds(core.Options{}), "serviceaccounts").Sub.Actions; len(actions) > 0 {
		t.Errorf("actions %v", actions)
	}
}

// TestTokenRequestWithoutTime: a request that lost its duration on its way, in admission, gets the default one.
func TestTokenRequestWithoutTime(t *testing.T) {
	w := newTokenWorld(t)
	run := registrytest.Find(t, core.Kinds(core.Options{Tokens: w.tokens}), "serviceaccounts").Sub.Actions["token"].Run
	at := registry.ObjectKey{Resource: corev1.Resource("serviceaccounts"), Namespace: "default", Name: "web"}
	got, err := run(t.Context(), w.registry.Access(), at, &authenticationv1.TokenRequest{}, false)
	if err != nil || *got.(*authenticationv1.TokenRequest).Spec.ExpirationSeconds != 3600 {
		t.Errorf("%+v, %v", got, err)
	}
}
