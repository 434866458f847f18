package bootstraptoken_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/bootstraptoken"
)

func secret(data ...string) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-abcdef"}, Type: "bootstrap.kubernetes.io/token",
		Data: map[string][]byte{
			"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"),
			"usage-bootstrap-signing": []byte("true"), "usage-bootstrap-authentication": []byte("true"),
		},
	}
	for i := 0; i < len(data); i += 2 {
		s.Data[data[i]] = []byte(data[i+1])
	}
	return s
}

func TestIs(t *testing.T) {
	elsewhere, other := secret(), secret()
	elsewhere.Namespace, other.Type = "default", "Opaque"
	if !bootstraptoken.Is(secret()) || bootstraptoken.Is(elsewhere) || bootstraptoken.Is(other) {
		t.Error("secrets of tokens are told by their type and namespace")
	}
}

func TestSplit(t *testing.T) {
	for token, want := range map[string]string{
		"abcdef.0123456789abcdef": "abcdef 0123456789abcdef",
		"abcdef.0123456789abcde":  "", "abcde.0123456789abcdef": "", "abcdef-0123456789abcdef": "", "ABCDEF.0123456789abcdef": "",
		"abcdef.0123456789abcdef\n": "", "x.abcdef.0123456789abcdef": "",
	} {
		id, secret, ok := bootstraptoken.Split(token)
		got := ""
		if ok {
			got = id + " " + secret
		}
		if got != want {
			t.Errorf("%q: %q", token, got)
		}
	}
}

func TestRead(t *testing.T) {
	now := time.Unix(1e9, 0)
	renamed := secret()
	renamed.Name = "bootstrap-token-ghijkl"
	for name, tt := range map[string]struct {
		secret *corev1.Secret
		usage  bootstraptoken.Usage
		want   bool
	}{
		"signs":              {secret("usage-bootstrap-authentication", ""), bootstraptoken.Signing, true},
		"authenticates":      {secret("usage-bootstrap-signing", ""), bootstraptoken.Authentication, true},
		"does not sign":      {secret("usage-bootstrap-signing", "yes"), bootstraptoken.Signing, false},
		"is nobody":          {secret("usage-bootstrap-authentication", ""), bootstraptoken.Authentication, false},
		"lasts":              {secret("expiration", now.Add(time.Second).Format(time.RFC3339)), bootstraptoken.Signing, true},
		"has expired":        {secret("expiration", now.Format(time.RFC3339)), bootstraptoken.Signing, false},
		"expires sometime":   {secret("expiration", "sometime"), bootstraptoken.Signing, false},
		"has no secret":      {secret("token-secret", ""), bootstraptoken.Signing, false},
		"has no ID":          {secret("token-id", ""), bootstraptoken.Signing, false},
		"has an odd ID":      {secret("token-id", "abcde"), bootstraptoken.Signing, false},
		"has another's ID":   {secret("token-id", "ghijkl"), bootstraptoken.Signing, false},
		"has another's name": {renamed, bootstraptoken.Signing, false},
	} {
		id, text, ok := bootstraptoken.Read(tt.secret, tt.usage, now)
		if ok != tt.want || ok && (id != "abcdef" || text != "0123456789abcdef") {
			t.Errorf("%s: %q %q %t", name, id, text, ok)
		}
	}
	if left, expired := bootstraptoken.Expiration(secret("expiration", now.Add(time.Hour).UTC().Format(time.RFC3339)), now); left != time.Hour || expired {
		t.Errorf("%v %t", left, expired)
	}
	if left, expired := bootstraptoken.Expiration(secret(), now); left != 0 || expired {
		t.Errorf("%v %t", left, expired)
	}
}

func TestGroups(t *testing.T) {
	for extra, want := range map[string][]string{
		"": {"system:bootstrappers"},
		"system:bootstrappers:z,system:bootstrappers:a:b,system:bootstrappers:z": {"system:bootstrappers", "system:bootstrappers:a:b", "system:bootstrappers:z"},
		"system:masters":            nil,
		"system:bootstrappers:":     nil,
		"system:bootstrappers:a:":   nil,
		"system:bootstrappers:a, b": nil,
	} {
		got, err := bootstraptoken.Groups(secret("auth-extra-groups", extra))
		if !slices.Equal(got, want) || (err != nil) != (want == nil) {
			t.Errorf("%s: %q, %v", extra, got, err)
		}
	}
}

func Example() {
	id, _, ok := bootstraptoken.Split("abcdef.0123456789abcdef")
	fmt.Println(bootstraptoken.Name(id), ok)
	// Output: bootstrap-token-abcdef true
}
