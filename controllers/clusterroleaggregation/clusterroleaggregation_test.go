package clusterroleaggregation_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/clusterroleaggregation"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/fakeapi"
	"github.com/keelson-dev/keelson/lifecycle"
)

var clusterRoles = rbacv1.SchemeGroupVersion.WithResource("clusterroles")

// bench is a running controller with a server, in a bubble.
type bench struct {
	*testing.T
	api        *fakeapi.Server
	controller *clusterroleaggregation.Controller
}

func inBubble(t *testing.T, before func(fakeapi.Action) error, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, api: fakeapi.New(fakeapi.Options{Before: before})}
		roles := informer.New(fakeapi.Source[*rbacv1.ClusterRole](b.api, clusterRoles), informer.Options{DetectMutations: func(err error) { t.Error(err) }})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		b.controller = clusterroleaggregation.New(clusterroleaggregation.Sources{ClusterRoles: roles}, b.api)
		go func() {
			done <- lifecycle.Group(roles, controllers.NewLoop(b.controller, controllers.Options{})).Run(ctx)
		}()
		synctest.Wait()
		test(t, b)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// role creates or replaces one with a rule per verb.
func (b *bench) role(name, part string, verbs ...string) {
	b.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if part != "" {
		role.Labels = map[string]string{"part-of": part}
	}
	for _, verb := range verbs {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{Verbs: []string{verb}})
	}
	b.put(role)
}

// aggregate creates or replaces one that gathers the parts, itself part of another.
func (b *bench) aggregate(name, part string, parts ...string) {
	b.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"part-of": part}}, AggregationRule: &rbacv1.AggregationRule{}}
	for _, p := range parts {
		role.AggregationRule.ClusterRoleSelectors = append(role.AggregationRule.ClusterRoleSelectors, metav1.LabelSelector{MatchLabels: map[string]string{"part-of": p}})
	}
	b.put(role)
}

func (b *bench) put(role *rbacv1.ClusterRole) {
	b.Helper()
	at := client.Target{Resource: clusterRoles}
	_, err := b.api.Create(b.Context(), at, role, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		at.Name = role.Name
		_, err = b.api.Update(b.Context(), at, role, metav1.UpdateOptions{})
	}
	if err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) wantRules(name, want string) {
	b.Helper()
	role, err := client.As[*rbacv1.ClusterRole](b.api.Get(b.Context(), client.Target{Resource: clusterRoles, Name: name}))
	if err != nil {
		b.Fatal(err)
	}
	var got []string
	for _, rule := range role.Rules {
		got = append(got, rule.Verbs...)
	}
	if strings.Join(got, " ") != want {
		b.Errorf("%s has the rules %q, want %q", name, got, want)
	}
}

func TestAggregation(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		b.role("get", "read", "get", "list")
		b.role("also", "read", "watch", "get")
		b.role("put", "write", "update")
		b.role("other", "", "delete")
		b.aggregate("all", "nothing", "write", "read")
		b.wantRules("all", "update watch get list") // by selector, then by name, each once
		b.role("other", "write", "delete")
		b.wantRules("all", "delete update watch get list")
		b.role("also", "")
		b.wantRules("all", "delete update get list")
		if err := b.api.Delete(b.Context(), client.Target{Resource: clusterRoles, Name: "get"}, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.wantRules("all", "delete update")
		b.aggregate("more", "nothing", "nothing")
		b.wantRules("more", "delete update") // of a role that is aggregated itself, but not its own
		b.api.Reset()
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := b.api.Actions(); len(got) > 0 {
			t.Errorf("writes on: %v", got)
		}
	})
}

// TestRestored: rules that somebody else gave an aggregated role do not last.
func TestRestored(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		b.role("get", "read", "get")
		b.aggregate("all", "", "read")
		role, err := client.As[*rbacv1.ClusterRole](b.api.Get(b.Context(), client.Target{Resource: clusterRoles, Name: "all"}))
		if err != nil {
			t.Fatal(err)
		}
		role.Rules = append(role.Rules, rbacv1.PolicyRule{Verbs: []string{"delete"}})
		b.update(role)
		b.wantRules("all", "get")
		role.AggregationRule, role.ResourceVersion = nil, ""
		b.update(role)
		b.wantRules("all", "get delete") // no longer aggregated
	})
}

func (b *bench) update(role *rbacv1.ClusterRole) {
	b.Helper()
	if _, err := b.api.Update(b.Context(), client.Target{Resource: clusterRoles, Name: role.Name}, role, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// TestFailures: writes that fail are tried again; a selector that makes no sense stops nobody else.
func TestFailures(t *testing.T) {
	fails := 1
	inBubble(t, func(a fakeapi.Action) error {
		if a.Verb == fakeapi.Update && fails > 0 {
			fails--
			return errors.New("down")
		}
		return nil
	}, func(t *testing.T, b *bench) {
		b.role("get", "read", "get")
		bad := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "bad"}, AggregationRule: &rbacv1.AggregationRule{
			ClusterRoleSelectors: []metav1.LabelSelector{{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "?"}}}},
		}}
		b.put(bad)
		b.aggregate("all", "", "read")
		b.wantRules("all", "")
		time.Sleep(5 * time.Millisecond)
		synctest.Wait()
		b.wantRules("all", "get")
		var wrote []string
		for _, a := range b.api.Actions() {
			if a.Verb == fakeapi.Update {
				wrote = append(wrote, a.String())
			}
		}
		if want := []string{"update clusterroles all", "update clusterroles all"}; !slices.Equal(wrote, want) {
			t.Errorf("wrote %q, want %q", wrote, want)
		}
	})
}

// TestReconcile: what becomes of a key, whatever enqueued it.
func TestReconcile(t *testing.T) {
	gone := apierrors.NewNotFound(clusterRoles.GroupResource(), "stale")
	inBubble(t, func(a fakeapi.Action) error {
		if a.Verb == fakeapi.Update && a.Target.Name == "stale" {
			return gone
		}
		return nil
	}, func(t *testing.T, b *bench) {
		b.role("part", "read", "get")
		b.role("plain", "", "list")
		b.aggregate("all", "", "read")
		b.aggregate("stale", "", "read")
		bad := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "bad"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"watch"}}}, AggregationRule: &rbacv1.AggregationRule{
			ClusterRoleSelectors: []metav1.LabelSelector{{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "?"}}}},
		}}
		b.put(bad)
		b.api.Reset()
		for _, tt := range []struct {
			name, rules string
			writes      int
			fails       bool
		}{
			{"all", "get", 0, false},    // has what it should
			{"nobody", "", 0, false},    // is gone by now
			{"plain", "list", 0, false}, // gathers nothing any more
			{"stale", "", 1, false},     // the server has it no longer: nothing to try again
			{"bad", "watch", 0, true},   // keeps its rules while the selector makes no sense
		} {
			result, err := b.controller.Reconcile(t.Context(), controllers.Key{Name: tt.name})
			if (err != nil) != tt.fails || result != (controllers.Result{}) || len(b.api.Actions()) != tt.writes {
				t.Errorf("%s: %v, %v; wrote %v", tt.name, result, err, b.api.Actions())
			}
			b.api.Reset()
			if tt.name != "nobody" {
				b.wantRules(tt.name, tt.rules)
			}
		}
	})
}
