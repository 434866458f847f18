package authz_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/authz/alwaysdeny"
	"github.com/keelson-dev/keelson/authz/authztest"
	"github.com/keelson-dev/keelson/authz/superuser"
)

var (
	errLeft  = errors.New("left")
	errRight = errors.New("right")
)

func says(v authz.Verdict, reason string, err error) authz.Authorizer {
	return authz.Func(func(context.Context, authz.Attributes) (authz.Decision, error) {
		return authz.Decision{Verdict: v, Reason: reason}, err
	})
}

// verbose is a Reasoner.
type verbose struct{}

func (verbose) Reason(a authz.Attributes) string { return "it is about " + a.Resource }

func TestWhy(t *testing.T) {
	for want, d := range map[string]authz.Decision{
		"": {}, "said": {Reason: "said"}, "it is about pods": {Reasoner: verbose{}}, "first": {Reason: "first", Reasoner: verbose{}},
	} {
		if got := d.Why(authz.Attributes{Resource: "pods"}); got != want {
			t.Errorf("%+v says %q, want %q", d, got, want)
		}
	}
}

func TestUnion(t *testing.T) {
	for name, c := range map[string]struct {
		chain []authz.Named
		want  authz.Decision
		errs  []error
		not   []error
	}{
		"empty": {},
		"first allow wins": {
			chain: []authz.Named{{"a", says(authz.NoOpinion, "hm", errLeft)}, {"b", says(authz.Allow, "yes", nil)}, {"c", says(authz.Deny, "no", nil)}},
			want:  authz.Decision{Verdict: authz.Allow, Reason: "yes"},
			not:   []error{errLeft},
		},
		"a deny stops": {
			chain: []authz.Named{{"a", says(authz.Deny, "no", errLeft)}, {"b", says(authz.Allow, "yes", nil)}},
			want:  authz.Decision{Verdict: authz.Deny, Reason: "no"},
			errs:  []error{errLeft},
		},
		"reasons and errors of all": {
			chain: []authz.Named{{"a", says(authz.NoOpinion, "hm", errLeft)}, {"b", says(authz.NoOpinion, "", errRight)}, {"c", says(authz.NoOpinion, "well", nil)}},
			want:  authz.Decision{Reason: "a: hm\nc: well"},
			errs:  []error{errLeft, errRight},
		},
		"a reason in other words": {
			chain: []authz.Named{{"a", authz.Func(func(context.Context, authz.Attributes) (authz.Decision, error) {
				return authz.Decision{Reasoner: verbose{}}, nil
			})}},
			want: authz.Decision{Reason: "a: it is about "},
		},
		"a chain in a chain": {
			chain: []authz.Named{{"a", says(authz.NoOpinion, "hm", nil)}, {"", authz.Union(authz.Named{Name: "b", Authorizer: says(authz.NoOpinion, "well", nil)})}},
			want:  authz.Decision{Reason: "a: hm\nb: well"},
		},
		"always deny abstains": {
			chain: []authz.Named{{"alwaysdeny", alwaysdeny.New()}, {"alwaysallow", alwaysallow.New()}},
			want:  authz.Decision{Verdict: authz.Allow},
		},
		"always deny tells why": {
			chain: []authz.Named{{superuser.Name, superuser.New()}, {"alwaysdeny", alwaysdeny.New()}},
			want:  authz.Decision{Reason: "alwaysdeny: Everything is forbidden."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := authz.Union(c.chain...).Authorize(t.Context(), authz.Attributes{User: &authn.Identity{Name: "ann"}})
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			for _, want := range c.errs {
				if !errors.Is(err, want) {
					t.Errorf("error %v, want %v", err, want)
				}
			}
			for _, not := range c.not {
				if errors.Is(err, not) {
					t.Errorf("error %v is of an authorizer that did not decide", err)
				}
			}
			if len(c.errs) == 0 && err != nil {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestUnionRules(t *testing.T) {
	some := authz.RulesFunc(func(context.Context, *authn.Identity, string) (authz.Rules, error) {
		return authz.Rules{Resources: []authz.ResourceRule{{Verbs: []string{"get"}}}, Incomplete: true}, errLeft
	})
	got, err := authz.UnionRules(some, alwaysdeny.New(), alwaysallow.New()).RulesFor(t.Context(), nil, "")
	all := []string{"*"}
	want := authz.Rules{
		Resources:  []authz.ResourceRule{{Verbs: []string{"get"}}, {Verbs: all, Groups: all, Resources: all}},
		Paths:      []authz.PathRule{{Verbs: all, Paths: all}},
		Incomplete: true,
	}
	if !reflect.DeepEqual(got, want) || !errors.Is(err, errLeft) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func TestSuperuser(t *testing.T) {
	if _, err := superuser.New().Authorize(t.Context(), authz.Attributes{}); !errors.Is(err, authz.ErrNoUser) {
		t.Errorf("without a user: %v", err)
	}
	member := func(groups ...string) authz.Attributes {
		return authz.Attributes{User: &authn.Identity{Groups: groups}}
	}
	authztest.Run(t, superuser.New(), []authztest.Case{
		{Name: "master", Attributes: member("dev", authn.GroupMasters), Want: authz.Allow},
		{Name: "user", Attributes: member("dev")},
		{Name: "nobody", Fails: true, Reason: "Error"},
	})
	authztest.Run(t, superuser.New("root", "wheel"), []authztest.Case{
		{Name: "member", Attributes: member("wheel"), Want: authz.Allow},
		{Name: "master", Attributes: member(authn.GroupMasters)},
	})
}

func TestConformance(t *testing.T) {
	ann := authz.Attributes{User: &authn.Identity{Name: "ann", Groups: []string{"dev"}}, Verb: "get", Resource: "pods", ResourceRequest: true}
	t.Run("alwaysallow", func(t *testing.T) {
		authztest.Run(t, alwaysallow.New(), []authztest.Case{{Name: "user", Attributes: ann, Want: authz.Allow}, {Name: "nobody", Want: authz.Allow}})
	})
	t.Run("alwaysdeny", func(t *testing.T) {
		authztest.Run(t, alwaysdeny.New(), []authztest.Case{{Name: "user", Attributes: ann, Reason: "Everything is forbidden."}})
	})
	t.Run("union", func(t *testing.T) {
		authztest.Run(t, authz.Union(authz.Named{Name: "x", Authorizer: alwaysdeny.New()}), []authztest.Case{{Name: "user", Attributes: ann, Reason: "x: Everything is forbidden."}})
	})
}

// TestUnionsKeepTheirOwn: whoever makes a union may go on with the list that it was made of.
func TestUnionsKeepTheirOwn(t *testing.T) {
	chain := []authz.Named{{Name: "a", Authorizer: says(authz.Allow, "yes", nil)}}
	union := authz.Union(chain...)
	chain[0].Authorizer = says(authz.Deny, "no", nil)
	if d, err := union.Authorize(t.Context(), authz.Attributes{}); err != nil || d.Verdict != authz.Allow {
		t.Errorf("%v, %v", d, err)
	}
	lists := func(incomplete bool) authz.RuleResolver {
		return authz.RulesFunc(func(context.Context, *authn.Identity, string) (authz.Rules, error) {
			return authz.Rules{Incomplete: incomplete}, nil
		})
	}
	resolvers := []authz.RuleResolver{lists(false)}
	rules := authz.UnionRules(resolvers...)
	resolvers[0] = lists(true)
	if r, err := rules.RulesFor(t.Context(), nil, ""); err != nil || r.Incomplete {
		t.Errorf("%v, %v", r, err)
	}
}
