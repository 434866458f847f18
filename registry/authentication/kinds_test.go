package authentication_test

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/inprocess"
	"github.com/keelson-dev/keelson/authn/token"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/authentication"
)

func answer(t *testing.T, auth authn.Authenticator, o authentication.Options, asker *authn.Identity, obj runtime.Object, plural string) (runtime.Object, error) {
	t.Helper()
	for _, k := range authentication.Kinds(auth, o) {
		if k.Plural != plural {
			continue
		}
		if k.Namespaced || reflect.TypeOf(k.NewRequest()) != reflect.TypeOf(obj) {
			t.Fatalf("kind %+v", k)
		}
		ctx := t.Context()
		if asker != nil {
			ctx = inprocess.Attach(authn.NewContext(ctx, asker), asker)
		}
		return k.Answer(ctx, nil, "", obj)
	}
	t.Fatalf("no kind %s", plural)
	return nil, nil
}

func TestTokenReview(t *testing.T) {
	ann := &authn.Identity{Name: "ann", UID: "7", Groups: []string{"dev"}, Extra: map[string][]string{"k": {"v"}}}
	auth := authn.Union(inprocess.New(), token.New(token.Static(map[string]*authn.Identity{"s3cret": ann})))
	user := authenticationv1.UserInfo{Username: "ann", UID: "7", Groups: []string{"dev"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}
	api := authentication.Options{Audiences: []string{"api", "https://kubernetes"}}
	for name, c := range map[string]struct {
		auth    authn.Authenticator
		options authentication.Options
		spec    authenticationv1.TokenReviewSpec
		want    authenticationv1.TokenReviewStatus
	}{
		"good":             {auth, authentication.Options{}, authenticationv1.TokenReviewSpec{Token: "s3cret"}, authenticationv1.TokenReviewStatus{Authenticated: true, User: user}},
		"bad":              {auth, authentication.Options{}, authenticationv1.TokenReviewSpec{Token: "guess"}, authenticationv1.TokenReviewStatus{Error: "invalid bearer token"}},
		"the server's":     {auth, api, authenticationv1.TokenReviewSpec{Token: "s3cret"}, authenticationv1.TokenReviewStatus{Authenticated: true, User: user, Audiences: api.Audiences}},
		"one audience":     {auth, api, authenticationv1.TokenReviewSpec{Token: "s3cret", Audiences: []string{"x", "api"}}, authenticationv1.TokenReviewStatus{Authenticated: true, User: user, Audiences: []string{"api"}}},
		"another audience": {auth, api, authenticationv1.TokenReviewSpec{Token: "s3cret", Audiences: []string{"x"}}, authenticationv1.TokenReviewStatus{Error: "invalid bearer token"}},
		"no authenticator": {nil, api, authenticationv1.TokenReviewSpec{Token: "s3cret"}, authenticationv1.TokenReviewStatus{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := answer(t, c.auth, c.options, &authn.Identity{Name: "asker"}, &authenticationv1.TokenReview{Spec: c.spec}, "tokenreviews")
			if err != nil || !reflect.DeepEqual(got.(*authenticationv1.TokenReview).Status, c.want) {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
	_, err := answer(t, auth, api, nil, &authenticationv1.TokenReview{}, "tokenreviews")
	var refusal *registry.Error
	if !errors.As(err, &refusal) || !errors.Is(err, registry.ErrBadRequest) || refusal.Message != "token is required for TokenReview in authentication" {
		t.Errorf("without a token: %v", err)
	}
}

// Tokens that name their audience are valid for reviews that ask for it.
func TestTokenReviewAudiences(t *testing.T) {
	vault := authn.Func(func(r *http.Request) (*authn.Identity, error) {
		asked, ok := authn.Audiences(r.Context())
		if !ok || !slices.Contains(asked, "vault") {
			return nil, fmt.Errorf("not for %q", asked)
		}
		return &authn.Identity{Name: "ann", Audiences: []string{"vault"}}, nil
	})
	api := authentication.Options{Audiences: []string{"api"}}
	user := authenticationv1.UserInfo{Username: "ann"}
	for name, c := range map[string]struct {
		auth  authn.Authenticator
		asked []string
		want  authenticationv1.TokenReviewStatus
	}{
		"asked for":       {vault, []string{"x", "vault"}, authenticationv1.TokenReviewStatus{Authenticated: true, User: user, Audiences: []string{"vault"}}},
		"another's":       {vault, []string{"x"}, authenticationv1.TokenReviewStatus{Error: `not for ["x"]`}},
		"the server's":    {vault, nil, authenticationv1.TokenReviewStatus{Error: `not for ["api"]`}},
		"everybody knows": {authn.AnonymousFallback(inprocess.New()), nil, authenticationv1.TokenReviewStatus{Error: "invalid bearer token"}},
		"nobody knows":    {inprocess.New(), nil, authenticationv1.TokenReviewStatus{Error: "invalid bearer token"}},
	} {
		t.Run(name, func(t *testing.T) {
			review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "s3cret", Audiences: c.asked}}
			got, err := answer(t, c.auth, api, &authn.Identity{Name: "asker"}, review, "tokenreviews")
			if err != nil || !reflect.DeepEqual(got.(*authenticationv1.TokenReview).Status, c.want) {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

// The caller's own identity travels in the context; it must not become the owner of an unknown token.
func TestTokenReviewIgnoresCaller(t *testing.T) {
	var seen *http.Request
	auth := authn.Func(func(r *http.Request) (*authn.Identity, error) {
		seen = r
		return inprocess.New().Authenticate(r)
	})
	got, err := answer(t, auth, authentication.Options{}, &authn.Identity{Name: "asker"}, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "guess"}}, "tokenreviews")
	if err != nil || got.(*authenticationv1.TokenReview).Status.Authenticated {
		t.Errorf("got %+v, %v", got, err)
	}
	if asked, ok := authn.Audiences(seen.Context()); ok {
		t.Errorf("asked for audiences %q though the review names none", asked)
	}
	if authn.FromContext(seen.Context()) != nil || seen.Header.Get("Authorization") != "Bearer guess" {
		t.Errorf("asked about %+v", seen)
	}
}

func TestSelfSubjectReview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ann := &authn.Identity{Name: "ann", Groups: []string{"dev"}}
		got, err := answer(t, nil, authentication.Options{}, ann, &authenticationv1.SelfSubjectReview{}, "selfsubjectreviews")
		if err != nil {
			t.Fatal(err)
		}
		review := got.(*authenticationv1.SelfSubjectReview)
		if u := review.Status.UserInfo; u.Username != "ann" || !reflect.DeepEqual(u.Groups, ann.Groups) || !review.CreationTimestamp.Time.Equal(time.Now()) {
			t.Errorf("got %+v", review)
		}
		if _, err := answer(t, nil, authentication.Options{}, nil, &authenticationv1.SelfSubjectReview{}, "selfsubjectreviews"); !errors.Is(err, registry.ErrBadRequest) {
			t.Errorf("nobody asks: %v", err)
		}
	})
}
