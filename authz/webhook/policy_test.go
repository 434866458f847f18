package webhook_test

import (
	"context"
	"errors"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/webhook"
)

// TestFailurePolicy: what cannot be reviewed may be denied.
func TestFailurePolicy(t *testing.T) {
	errDown := errors.New("it is down")
	ann := authz.Attributes{User: &authn.Identity{Name: "ann"}, Verb: "get", Path: "/x"}
	for name, tt := range map[string]struct {
		o      webhook.Options
		fails  error
		want   authz.Verdict
		wrong  bool
		review int
	}{
		"allowed":              {webhook.Options{OnError: authz.Deny}, nil, authz.Allow, false, 1},
		"down":                 {webhook.Options{}, errDown, authz.NoOpinion, true, 1},
		"down and denied":      {webhook.Options{OnError: authz.Deny}, errDown, authz.Deny, true, 1},
		"does not match":       {webhook.Options{OnError: authz.Deny, Match: match(false, nil)}, errDown, authz.NoOpinion, false, 0},
		"matches":              {webhook.Options{Match: match(true, nil)}, nil, authz.Allow, false, 1},
		"match fails":          {webhook.Options{Match: match(false, errDown)}, nil, authz.NoOpinion, true, 0},
		"match fails, denied":  {webhook.Options{OnError: authz.Deny, Match: match(false, errDown)}, nil, authz.Deny, true, 0},
		"no answer and denied": {webhook.Options{OnError: authz.Deny}, errNone, authz.Deny, true, 1},
	} {
		reviews, told := 0, 0
		var said error
		tt.o.Reviewed = func(_ time.Duration, err error) { told, said = told+1, err }
		z := webhook.New(webhook.ReviewerFunc(func(context.Context, *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
			reviews++
			if errors.Is(tt.fails, errNone) {
				return nil, nil
			}
			return &authorizationv1.SubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}, tt.fails
		}), tt.o)
		got, err := z.Authorize(t.Context(), ann)
		if got.Verdict != tt.want || (err != nil) != tt.wrong || err != nil && !errors.Is(err, webhook.ErrReview) || reviews != tt.review || told != reviews || (said != nil) != (tt.fails != nil && reviews > 0) {
			t.Errorf("%s: %+v, %v after %d reviews, of which %d were told with %v", name, got, err, reviews, told, said)
		}
	}
	rules, err := webhook.New(nil, webhook.Options{}).(authz.RuleResolver).RulesFor(t.Context(), ann.User, "ns")
	if !rules.Incomplete || !errors.Is(err, webhook.ErrNoRules) {
		t.Errorf("%+v, %v", rules, err)
	}
}

var errNone = errors.New("nothing")

func match(matches bool, err error) webhook.Conditions {
	return func(_ context.Context, spec *authorizationv1.SubjectAccessReviewSpec) (bool, error) {
		return matches && spec.User == "ann", err
	}
}
