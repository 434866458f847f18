package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/authztest"
	"github.com/keelson-dev/keelson/authz/webhook"
)

// answers decides by the verb.
func answers(_ context.Context, r *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
	var verb string
	if r.Spec.ResourceAttributes != nil {
		verb = r.Spec.ResourceAttributes.Verb
	} else {
		verb = r.Spec.NonResourceAttributes.Verb
	}
	answer := &authorizationv1.SubjectAccessReview{}
	switch verb {
	case "get":
		answer.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: true, Reason: "readers may"}
	case "delete":
		answer.Status = authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: "never"}
	case "both":
		answer.Status = authorizationv1.SubjectAccessReviewStatus{Denied: true, Allowed: true}
	case "fail":
		return nil, errors.New("connection refused")
	case "silence":
		return nil, nil
	}
	return answer, nil
}

func TestContract(t *testing.T) {
	jane := &authn.Identity{Name: "jane"}
	z := webhook.New(webhook.ReviewerFunc(answers), webhook.Options{})
	authztest.Run(t, z, []authztest.Case{
		{Name: "allowed", Attributes: authz.Attributes{User: jane, Verb: "get", Resource: "nodes", ResourceRequest: true}, Want: authz.Allow, Reason: "readers may"},
		{Name: "path", Attributes: authz.Attributes{User: jane, Verb: "get", Path: "/healthz"}, Want: authz.Allow},
		{Name: "no opinion", Attributes: authz.Attributes{User: jane, Verb: "create", Resource: "nodes", ResourceRequest: true}},
		{Name: "denied", Attributes: authz.Attributes{User: jane, Verb: "delete", Resource: "nodes", ResourceRequest: true}, Want: authz.Deny, Reason: "never"},
		{Name: "both", Attributes: authz.Attributes{User: jane, Verb: "both", Resource: "nodes", ResourceRequest: true}, Want: authz.Deny, Fails: true},
		{Name: "failure", Attributes: authz.Attributes{User: jane, Verb: "fail", Resource: "nodes", ResourceRequest: true}, Fails: true},
		{Name: "silence", Attributes: authz.Attributes{User: jane, Verb: "silence", Resource: "nodes", ResourceRequest: true}, Fails: true},
		{Name: "nobody", Attributes: authz.Attributes{Verb: "get", Resource: "nodes", ResourceRequest: true}, Fails: true},
	})
}

func TestReview(t *testing.T) {
	var got authorizationv1.SubjectAccessReviewSpec
	z := webhook.New(webhook.ReviewerFunc(func(ctx context.Context, r *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
		got = r.Spec
		return answers(ctx, r)
	}), webhook.Options{})
	_, err := z.Authorize(t.Context(), authz.Attributes{
		User: &authn.Identity{Name: "jane", UID: "1", Groups: []string{"dev"}, Extra: map[string][]string{"a": {"b"}}},
		Verb: "get", Version: "v1", Resource: "pods", Subresource: "log", Namespace: "ns", Name: "p", ResourceRequest: true,
		FieldSelector: []authz.Requirement{{Key: "f", Operator: "=", Values: []string{"x"}}, {Key: "g", Operator: "!=", Values: []string{"y"}}},
		LabelSelector: []authz.Requirement{
			{Key: "l", Operator: "in", Values: []string{"x", "y"}}, {Key: "m", Operator: "!"}, {Key: "n", Operator: "exists"}, {Key: "o", Operator: "gt", Values: []string{"1"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"resourceAttributes":{"namespace":"ns","verb":"get","version":"v1","resource":"pods","subresource":"log","name":"p",` +
		`"fieldSelector":{"requirements":[{"key":"f","operator":"In","values":["x"]},{"key":"g","operator":"NotIn","values":["y"]}]},` +
		`"labelSelector":{"requirements":[{"key":"l","operator":"In","values":["x","y"]},{"key":"m","operator":"DoesNotExist"},{"key":"n","operator":"Exists"}]}},` +
		`"user":"jane","groups":["dev"],"extra":{"a":["b"]},"uid":"1"}`
	data, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Error(diff)
	}
}

// TestKept: what is allowed is kept for longer than what is not, failures not at all.
func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		z := webhook.New(webhook.ReviewerFunc(func(ctx context.Context, r *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
			asked++
			return answers(ctx, r)
		}), webhook.Options{})
		ask := func(verb, name string, want int) {
			t.Helper()
			for range 2 {
				_, _ = z.Authorize(t.Context(), authz.Attributes{User: &authn.Identity{Name: "jane"}, Verb: verb, Resource: "nodes", Name: name, ResourceRequest: true})
			}
			if asked != want {
				t.Errorf("%s %s: asked %d times, want %d", verb, name, asked, want)
			}
		}
		ask("get", "n", 1)
		ask("create", "n", 2)
		ask("get", "m", 3)
		time.Sleep(31 * time.Second)
		ask("get", "n", 3)
		ask("create", "n", 4)
		time.Sleep(5 * time.Minute)
		ask("get", "n", 5)
		ask("fail", "n", 7)
		ask("get", strings.Repeat("n", 20000), 9)
	})
}

// TestReviewSaysNoMore: what the attributes leave out the review leaves out.
func TestReviewSaysNoMore(t *testing.T) {
	for want, a := range map[string]authz.Attributes{
		`{"nonResourceAttributes":{"path":"/x","verb":"get"},"user":"jane"}`: {Verb: "get", Path: "/x", Resource: "pods"},
		`{"resourceAttributes":{"verb":"get","resource":"pods"},"user":"jane"}`: {Verb: "get", Resource: "pods", ResourceRequest: true,
			LabelSelector: []authz.Requirement{{Key: "o", Operator: "gt", Values: []string{"1"}}}, FieldSelector: []authz.Requirement{{Key: "o", Operator: "gt", Values: []string{"1"}}}},
	} {
		var got []byte
		z := webhook.New(webhook.ReviewerFunc(func(ctx context.Context, r *authorizationv1.SubjectAccessReview) (answer *authorizationv1.SubjectAccessReview, err error) {
			if got, err = json.Marshal(r.Spec); err != nil {
				return nil, err
			}
			return answers(ctx, r)
		}), webhook.Options{})
		a.User = &authn.Identity{Name: "jane"}
		if _, err := z.Authorize(t.Context(), a); err != nil || string(got) != want {
			t.Errorf("asked %s, want %s: %v", got, want, err)
		}
	}
}

// TestTimeout: a review may take ten seconds, unless told otherwise.
func TestTimeout(t *testing.T) {
	for o, want := range map[time.Duration]time.Duration{0: 10 * time.Second, -time.Second: 10 * time.Second, time.Minute: time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			z := webhook.New(webhook.ReviewerFunc(func(ctx context.Context, _ *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}), webhook.Options{Timeout: o})
			began := time.Now()
			_, err := z.Authorize(t.Context(), authz.Attributes{User: &authn.Identity{Name: "jane"}, Verb: "get", Path: "/x"})
			if !errors.Is(err, webhook.ErrReview) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != want {
				t.Errorf("%v: %v after %v", o, err, time.Since(began))
			}
		})
	}
}

// TestRoom: what is long, or not to be kept, takes no room from what is kept.
func TestRoom(t *testing.T) {
	asked, size := 0, 0
	z := webhook.New(webhook.ReviewerFunc(func(ctx context.Context, r *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
		asked++
		data, err := json.Marshal(r.Spec)
		size = len(data)
		if err != nil {
			return nil, err
		}
		return answers(ctx, r)
	}), webhook.Options{KeepOthers: -1})
	ask := func(verb, name string) int {
		asked = 0
		for range 2 {
			_, _ = z.Authorize(t.Context(), authz.Attributes{User: &authn.Identity{Name: "jane"}, Verb: verb, Resource: "nodes", Name: name, ResourceRequest: true})
		}
		return asked
	}
	ask("get", "n")
	longest := 10000 - size + 1
	if got := ask("get", strings.Repeat("n", longest)); got != 1 || size != 10000 {
		t.Errorf("asked %d times with %d bytes", got, size)
	}
	if got := ask("get", strings.Repeat("n", longest+1)); got != 2 {
		t.Errorf("asked %d times with %d bytes", got, size)
	}
	for i := range 10000 {
		if got := ask("create", strconv.Itoa(i)); got != 2 {
			t.Fatalf("asked %d times what is not to be kept", got)
		}
	}
	if got := ask("get", "n"); got != 0 {
		t.Errorf("asked %d times what is kept", got)
	}
}

// TestWords: of what a server says at length only the beginning is passed on.
func TestWords(t *testing.T) {
	for _, tt := range []struct{ says, want string }{
		{strings.Repeat("é", 512), strings.Repeat("é", 512)},
		{strings.Repeat("é", 513), strings.Repeat("é", 512) + "..."},
		{"x" + strings.Repeat("é", 512), "x" + strings.Repeat("é", 511) + "..."},
	} {
		var fails error
		z := webhook.New(webhook.ReviewerFunc(func(context.Context, *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
			return &authorizationv1.SubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Reason: tt.says}}, fails
		}), webhook.Options{KeepOthers: -1})
		attributes := authz.Attributes{User: &authn.Identity{Name: "ann"}, Verb: "get", Path: "/x"}
		if d, err := z.Authorize(t.Context(), attributes); err != nil || d.Reason != tt.want {
			t.Errorf("%d bytes of reason, %v", len(d.Reason), err)
		}
		fails = errors.New(tt.says)
		if _, err := z.Authorize(t.Context(), attributes); !errors.Is(err, webhook.ErrReview) || err.Error() != "access review failed: "+tt.want {
			t.Errorf("%v", err)
		}
	}
}
