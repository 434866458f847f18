package bootstraptoken_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/authntest"
	"github.com/keelson-dev/keelson/authn/bootstraptoken"
	"github.com/keelson-dev/keelson/authn/token"
)

// secrets are a source by name.
type secrets map[string]*corev1.Secret

func (s secrets) Get(namespace, name string) (*corev1.Secret, bool) {
	secret, ok := s[name]
	return secret, ok && secret.Namespace == namespace
}

const good = "abcdef.0123456789abcdef"

func secret(changes ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-abcdef"}, Type: "bootstrap.kubernetes.io/token",
		Data: map[string][]byte{
			"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-authentication": []byte("true"),
		},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

func set(key, value string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Data[key] = []byte(value) }
}

func TestContract(t *testing.T) {
	request := func(token string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		return r
	}
	v := bootstraptoken.New(secrets{"bootstrap-token-abcdef": secret()})
	authntest.Run(t, token.New(v), authntest.Samples{
		Good: []authntest.Sample{{Request: request(good), Want: authn.Identity{Name: "system:bootstrap:abcdef", Groups: []string{"system:bootstrappers"}}}},
		Bad:  []*http.Request{request("abcdef.0123456789abcdeg"), request("x")},
	})
}

func TestVerify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		user := &authn.Identity{Name: "system:bootstrap:abcdef", Groups: []string{"system:bootstrappers"}}
		grouped := &authn.Identity{Name: "system:bootstrap:abcdef", Groups: []string{"system:bootstrappers", "system:bootstrappers:workers"}}
		for name, tt := range map[string]struct {
			token  string
			secret *corev1.Secret
			want   *authn.Identity
		}{
			"good":               {good, secret(), user},
			"of more groups":     {good, secret(set("auth-extra-groups", "system:bootstrappers:workers")), grouped},
			"of wrong groups":    {good, secret(set("auth-extra-groups", "system:masters")), nil},
			"no such token":      {"ghijkl.0123456789abcdef", secret(), nil},
			"another's":          {"abcdef.0123456789abcdeg", secret(), nil},
			"another kind":       {"ey.ey.x", secret(), nil},
			"not for users":      {good, secret(set("usage-bootstrap-authentication", "false")), nil},
			"lasts":              {good, secret(set("expiration", time.Now().Add(time.Second).Format(time.RFC3339))), user},
			"expired":            {good, secret(set("expiration", time.Now().Format(time.RFC3339))), nil},
			"no such secret":     {good, secret(func(s *corev1.Secret) { s.Namespace = "default" }), nil},
			"of another type":    {good, secret(func(s *corev1.Secret) { s.Type = "Opaque" }), nil},
			"being deleted":      {good, secret(func(s *corev1.Secret) { s.DeletionTimestamp = new(metav1.Now()) }), nil},
			"without its secret": {good, secret(set("token-secret", "")), nil},
		} {
			got, err := bootstraptoken.New(secrets{"bootstrap-token-abcdef": tt.secret}).Verify(t.Context(), tt.token)
			if !reflect.DeepEqual(got, tt.want) || (tt.want == nil) != errors.Is(err, authn.ErrNoCredentials) {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
	})
}

func Example() {
	v := bootstraptoken.New(secrets{"bootstrap-token-abcdef": secret()})
	id, err := v.Verify(context.Background(), "abcdef.0123456789abcdef")
	fmt.Println(id.Name, id.Groups, err)
	// Output: system:bootstrap:abcdef [system:bootstrappers] <nil>
}
