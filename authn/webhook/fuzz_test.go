package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	clientgo "k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/webhook"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/rest"
)

const secret = "the-token-of-jane"

// wire answers every request the same.
type wire struct {
	code        int
	contentType string
	body        []byte
}

func (w wire) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		Request: r, StatusCode: w.code, Header: http.Header{"Content-Type": {w.contentType}}, Body: io.NopCloser(bytes.NewReader(w.body)),
	}, nil
}

// over asks by a client, as a kubelet does.
func over(t *testing.T, answers wire) webhook.Reviewer {
	t.Helper()
	c, err := rest.New(&clientgo.Config{Host: "http://in.process", QPS: -1, Transport: answers}, scheme.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	target := client.Target{Resource: authenticationv1.SchemeGroupVersion.WithResource("tokenreviews")}
	return webhook.ReviewerFunc(func(ctx context.Context, r *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
		return client.As[*authenticationv1.TokenReview](c.Create(ctx, target, r, metav1.CreateOptions{}))
	})
}

// spelled reports whether all of a JSON text's keys that a case-blind reader takes for one of these are spelled so.
func spelled(body []byte, names ...string) bool {
	d := json.NewDecoder(bytes.NewReader(body))
	for {
		token, err := d.Token()
		if err != nil {
			return true
		}
		if s, ok := token.(string); ok && !slices.Contains(names, s) && slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, s) }) {
			return false
		}
	}
}

// FuzzAnswer: whatever comes back for a review, nobody is authenticated of whom the answer, read by encoding/json, does not say so, and
// as nobody else; an error is short and does not tell the token.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{
		`{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":true,"user":{"username":"jane","uid":"1","groups":["dev"],"extra":{"a":["b"]}},"audiences":["api"]}}`,
		`{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":false,"user":{"username":"jane"},"error":"no ` + secret + `"}}`,
		`{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1beta1","status":{"authenticated":true}}`,
		`{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":"true"}}`,
		`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"` + secret + ` is bad","code":403}`,
		`{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"error":"` + strings.Repeat("long ", 2000) + `"}}`,
		`{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":true,"user":null},"status":{}}`,
		`{"status":{"authenticated":true}}`, `null`, `[]`, ``, "k8s\x00\n", secret,
	} {
		for kind, code := range []int{http.StatusCreated, http.StatusOK, http.StatusForbidden} {
			f.Add([]byte(body), code, kind%2, kind == 0)
		}
	}
	types := []string{"application/json", "application/vnd.kubernetes.protobuf", "application/yaml", "text/plain", ""}
	f.Fuzz(func(t *testing.T, body []byte, code, kind int, audience bool) {
		if code < 200 || code > 599 {
			return
		}
		answers := wire{code: code, contentType: types[(kind%len(types)+len(types))%len(types)], body: body}
		var o webhook.Options
		if audience {
			o.Audiences = []string{"api"}
		}
		v := webhook.New(over(t, answers), o)
		id, err := v.Verify(t.Context(), secret)
		again, errAgain := v.Verify(t.Context(), secret)
		if (id == nil) == (err == nil) || (again == nil) != (id == nil) || errors.Is(err, authn.ErrNoCredentials) != errors.Is(errAgain, authn.ErrNoCredentials) {
			t.Fatalf("%v, %v; then %v, %v", id, err, again, errAgain)
		}
		if err != nil {
			if errors.Is(err, webhook.ErrReview) == errors.Is(err, authn.ErrNoCredentials) {
				t.Errorf("neither a failure nor a refusal: %v", err)
			}
			if text := err.Error(); len(text) > 4096 || strings.Contains(text, secret) {
				t.Errorf("an error of %d bytes: %.5000s", len(text), text)
			}
			return
		}
		if answers.contentType == types[1] && bytes.HasPrefix(body, []byte("k8s\x00")) || !spelled(body, "status", "authenticated", "user", "username", "uid", "groups", "audiences") {
			return
		}
		var want authenticationv1.TokenReview
		if err := json.Unmarshal(body, &want); err != nil || answers.contentType == "application/yaml" {
			t.Fatalf("%+v by %q: %v", id, body, err)
		}
		s := want.Status
		if answers.code < 200 || answers.code > 299 || !s.Authenticated || id.Name != s.User.Username || id.UID != s.User.UID || !slices.Equal(id.Groups, s.User.Groups) ||
			audience && !slices.Contains(s.Audiences, "api") {
			t.Errorf("%+v by %d %q", id, answers.code, body)
		}
	})
}
