package serviceaccount_test

import (
	"context"
	"crypto/elliptic"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/serviceaccount"
	"github.com/keelson-dev/keelson/authn/token"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/authentication"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/storage/memory"
)

// startServer runs an API server that issues and accepts tokens, and knows the administrator's.
func startServer(t *testing.T) string {
	t.Helper()
	keys := must(serviceaccount.NewKeys(newEC(t, elliptic.P256())))(t)
	issuer := must(serviceaccount.NewIssuer(issuerURL, keys))(t)
	var chain authn.Authenticator // it reads the registry, whose kinds ask it
	kinds := append(core.Kinds(core.Options{Tokens: core.Tokens{Issuer: issuer, Audiences: []string{issuerURL}}}),
		authentication.Kinds(authn.Func(func(r *http.Request) (*authn.Identity, error) { return chain.Authenticate(r) }),
			authentication.Options{Audiences: []string{issuerURL}})...)
	r := must(registry.New(memory.New(memory.Options{}), kinds, registry.Options{}))(t)
	verifier := must(serviceaccount.NewVerifier([]string{issuerURL}, keys, serviceaccount.Sources{
		ServiceAccounts: must(registry.NewLive[*corev1.ServiceAccount](r, corev1.Resource("serviceaccounts")))(t),
		Pods:            must(registry.NewLive[*corev1.Pod](r, corev1.Resource("pods")))(t),
		Secrets:         must(registry.NewLive[*corev1.Secret](r, corev1.Resource("secrets")))(t),
		Nodes:           must(registry.NewLive[*corev1.Node](r, corev1.Resource("nodes")))(t),
	}, serviceaccount.Options{}))(t)
	admin := token.Static(map[string]*authn.Identity{"admin": {Name: "admin"}})
	chain = authn.WithGroup(authn.Union(token.New(token.Union(admin, verifier))), authn.GroupAuthenticated)
	server := apiserver.New(r, apiserver.Options{
		Authenticator: authn.AnonymousFallback(chain), Authorizer: alwaysallow.New(),
		Paths: must(serviceaccount.NewDiscovery(issuerURL, issuerURL+serviceaccount.JWKSPath, keys))(t).Handlers(),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	listener := httptest.NewServer(server)
	t.Cleanup(func() {
		listener.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if err := r.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	return listener.URL
}

// A client asks for a token, in JSON and in protobuf, and uses it until its pod is gone.
func TestServer(t *testing.T) {
	url := startServer(t)
	for _, contentType := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		t.Run(contentType, func(t *testing.T) {
			as := func(tok string) kubernetes.Interface {
				return must(kubernetes.NewForConfig(&rest.Config{Host: url, BearerToken: tok, ContentConfig: rest.ContentConfig{ContentType: contentType}}))(t)
			}
			admin := as("admin")
			namespace := strings.NewReplacer("/", "-", ".", "-").Replace(contentType)
			account := must(admin.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{}))(t)
			pod := must(admin.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "web-0"},
				Spec:       corev1.PodSpec{ServiceAccountName: "web", Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
			}, metav1.CreateOptions{}))(t)
			request := func(name string, audiences ...string) string {
				r := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
				if name != "" {
					r.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: name}
				}
				got := must(admin.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "web", r, metav1.CreateOptions{}))(t)
				if got.Name != "web" || got.UID != account.UID || *got.Spec.ExpirationSeconds != 3600 || got.Status.Token == "" {
					t.Errorf("answer %+v", got)
				}
				return got.Status.Token
			}
			whoAmI := func(tok string) (*authenticationv1.SelfSubjectReview, error) {
				return as(tok).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			}
			review := func(tok string, audiences ...string) authenticationv1.TokenReviewStatus {
				spec := authenticationv1.TokenReviewSpec{Token: tok, Audiences: audiences}
				return must(admin.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{Spec: spec}, metav1.CreateOptions{}))(t).Status
			}

			bound, vault := request("web-0"), request("", "vault")
			me := must(whoAmI(bound))(t).Status.UserInfo
			if me.Username != "system:serviceaccount:"+namespace+":web" || me.UID != string(account.UID) ||
				strings.Join(me.Groups, " ") != "system:serviceaccounts system:serviceaccounts:"+namespace+" system:authenticated" ||
				len(me.Extra["authentication.kubernetes.io/pod-uid"]) != 1 || me.Extra["authentication.kubernetes.io/pod-uid"][0] != string(pod.UID) {
				t.Errorf("I am %+v", me)
			}
			if _, err := whoAmI(vault); !apierrors.IsUnauthorized(err) {
				t.Errorf("with a token for another audience: %v", err)
			}
			if _, err := whoAmI("nonsense"); !apierrors.IsUnauthorized(err) {
				t.Errorf("with a token of nobody: %v", err)
			}
			if s := review(vault, "vault", "x"); !s.Authenticated || strings.Join(s.Audiences, " ") != "vault" || s.User.Username != me.Username {
				t.Errorf("review for its audience: %+v", s)
			}
			if s := review(vault); s.Authenticated || s.Error != `token audiences ["vault"] is invalid for the target audiences ["`+issuerURL+`"]` {
				t.Errorf("review for the server: %+v", s)
			}
			if s := review("admin", "vault"); s.Authenticated {
				t.Errorf("review of a token without an audience for another's: %+v", s)
			}
			now := int64(0)
			if err := admin.CoreV1().Pods(namespace).Delete(t.Context(), "web-0", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
				t.Fatal(err)
			}
			if _, err := whoAmI(bound); !apierrors.IsUnauthorized(err) {
				t.Errorf("after its pod: %v", err)
			}
			if s := review(bound); s.Authenticated || s.Error != "service account token has been invalidated: pod "+namespace+"/web-0 does not exist" {
				t.Errorf("review after its pod: %+v", s)
			}
		})
	}
	for path, want := range map[string]string{serviceaccount.ConfigPath: "application/json", serviceaccount.JWKSPath: "application/jwk-set+json"} {
		resp := must(http.Get(url + path))(t)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != want || resp.Header.Get("Cache-Control") != "public, max-age=3600" {
			t.Errorf("%s: %s %v", path, resp.Status, resp.Header)
		}
	}
}
