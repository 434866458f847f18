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

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	clientgo "k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/webhook"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/rest"
)

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
	target := client.Target{Resource: authorizationv1.SchemeGroupVersion.WithResource("subjectaccessreviews")}
	return webhook.ReviewerFunc(func(ctx context.Context, r *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
		return client.As[*authorizationv1.SubjectAccessReview](c.Create(ctx, target, r, metav1.CreateOptions{}))
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

// FuzzAnswer: whatever comes back for a review, nothing is allowed of which the answer, read by encoding/json, does not say so, and what
// it denies is denied; what is kept and passed on of its reason is short.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{
		`{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true,"reason":"because"}}`,
		`{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true,"denied":true}}`,
		`{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"denied":true,"evaluationError":"x"}}`,
		`{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":false,"reason":"` + strings.Repeat("long ", 2000) + `"}}`,
		`{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1beta1","status":{"allowed":true}}`,
		`{"kind":"LocalSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`,
		`{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":"true"}}`,
		`{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","allowed":true,"status":null}`,
		`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","code":403}`,
		`{"status":{"allowed":true}}`, `null`, `[]`, ``, "k8s\x00\n",
	} {
		for kind, code := range []int{http.StatusCreated, http.StatusOK, http.StatusForbidden} {
			f.Add([]byte(body), code, kind%2)
		}
	}
	types := []string{"application/json", "application/vnd.kubernetes.protobuf", "application/yaml", "text/plain", ""}
	f.Fuzz(func(t *testing.T, body []byte, code, kind int) {
		if code < 200 || code > 599 {
			return
		}
		answers := wire{code: code, contentType: types[(kind%len(types)+len(types))%len(types)], body: body}
		z := webhook.New(over(t, answers), webhook.Options{})
		a := authz.Attributes{User: &authn.Identity{Name: "jane"}, Verb: "get", Resource: "nodes", ResourceRequest: true}
		d, err := z.Authorize(t.Context(), a)
		again, errAgain := z.Authorize(t.Context(), a)
		if d != again || (err == nil) != (errAgain == nil) {
			t.Fatalf("%v, %v; then %v, %v", d, err, again, errAgain)
		}
		if len(d.Reason) > 4096 {
			t.Errorf("a reason of %d bytes", len(d.Reason))
		}
		if err != nil && (d.Verdict == authz.Allow || !errors.Is(err, webhook.ErrReview) || len(err.Error()) > 4096) {
			t.Errorf("%v with an error of %d bytes: %.5000s", d, len(err.Error()), err)
		}
		if answers.contentType == types[1] && bytes.HasPrefix(body, []byte("k8s\x00")) || !spelled(body, "status", "allowed", "denied") {
			return
		}
		var want authorizationv1.SubjectAccessReview
		failed := json.Unmarshal(body, &want) != nil || answers.contentType == "application/yaml" || answers.code > 299
		if d.Verdict == authz.Allow && (failed || !want.Status.Allowed || want.Status.Denied) || err == nil && want.Status.Denied && d.Verdict != authz.Deny {
			t.Errorf("%v, %v by %d %s %q", d, err, answers.code, answers.contentType, body)
		}
	})
}
