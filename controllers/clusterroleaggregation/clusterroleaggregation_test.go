package clusterroleaggregation_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/clusterroleaggregation"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/informer"
)

var clusterRoles = rbacv1.SchemeGroupVersion.WithResource("clusterroles")

// bench is a running controller with an API, in a bubble.
type bench struct {
	*testing.T
	api        *controllerstest.API
	controller *clusterroleaggregation.Controller
}

func inBubble(t *testing.T, test func(t *testing.T, b *bench), old ...*rbacv1.ClusterRole) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, api: controllerstest.Start(t, controllerstest.Options{})}
		source := trial.Stored[*rbacv1.ClusterRole]{Source: controllerstest.Source[*rbacv1.ClusterRole](b.api, clusterRoles), Objects: old}
		roles := informer.New(source, informer.Options{DetectMutations: func(err error) { t.Error(err) }})
		b.controller = clusterroleaggregation.New(clusterroleaggregation.Sources{ClusterRoles: roles}, b.api)
		controllerstest.Go(t, roles, controllers.NewLoop(b.controller, controllers.Options{}))
		synctest.Wait()
		test(t, b)
	})
}

// rules are one for each verb.
func rules(verbs ...string) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, verb := range verbs {
		rules = append(rules, rbacv1.PolicyRule{Verbs: []string{verb}, NonResourceURLs: []string{"/"}})
	}
	return rules
}

// senseless is a role with a rule whose selector is not one.
func senseless() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "bad"}, Rules: rules("watch"), AggregationRule: &rbacv1.AggregationRule{
		ClusterRoleSelectors: []metav1.LabelSelector{{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "?"}}}},
	}}
}

// role creates or replaces one with a rule for each verb.
func (b *bench) role(name, part string, verbs ...string) {
	b.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules(verbs...)}
	if part != "" {
		role.Labels = map[string]string{"part-of": part}
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
	at := client.Target{Resource: clusterRoles, Name: role.Name}
	if _, err := b.api.Others.Update(b.Context(), at, role, metav1.UpdateOptions{}); err != nil { // it creates what is not there
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) wantRules(name, want string) {
	b.Helper()
	role, err := client.As[*rbacv1.ClusterRole](b.api.Others.Get(b.Context(), client.Target{Resource: clusterRoles, Name: name}))
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
	inBubble(t, func(t *testing.T, b *bench) {
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
		if err := b.api.Others.Delete(b.Context(), client.Target{Resource: clusterRoles, Name: "get"}, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.wantRules("all", "delete update")
		b.aggregate("more", "nothing", "nothing")
		b.wantRules("more", "delete update") // of a role that is aggregated itself, but not its own
		b.api.Reset()
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := b.api.Writes(); len(got) > 0 {
			t.Errorf("writes on: %v", got)
		}
	})
}

// TestRestored: rules that somebody else gave an aggregated role do not last.
func TestRestored(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.role("get", "read", "get")
		b.aggregate("all", "", "read")
		role, err := client.As[*rbacv1.ClusterRole](b.api.Others.Get(b.Context(), client.Target{Resource: clusterRoles, Name: "all"}))
		if err != nil {
			t.Fatal(err)
		}
		role.Rules = append(role.Rules, rules("delete")...)
		b.put(role)
		b.wantRules("all", "get")
		role.AggregationRule, role.ResourceVersion = nil, ""
		b.put(role)
		b.wantRules("all", "get delete") // no longer aggregated
	})
}

// TestFailures: writes that fail are tried again; a selector that makes no sense keeps no other role from its rules.
func TestFailures(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.api.Inject(faults.Fault{Verb: faults.Update, Err: errors.New("down")})
		b.role("get", "read", "get")
		b.aggregate("all", "", "read")
		b.wantRules("all", "")
		time.Sleep(5 * time.Millisecond)
		synctest.Wait()
		b.wantRules("all", "get")
		if got := fmt.Sprint(b.api.Writes()); got != "[update clusterroles all update clusterroles all]" {
			t.Errorf("wrote %s", got)
		}
	}, senseless())
}

// TestReconcile: what becomes of a key, whatever enqueued it.
func TestReconcile(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		gone := apierrors.NewNotFound(clusterRoles.GroupResource(), "stale")
		b.api.Inject(faults.Fault{Verb: faults.Update, Name: "stale", Err: gone, Times: -1})
		b.role("part", "read", "get")
		b.role("plain", "", "list")
		b.aggregate("all", "", "read")
		b.aggregate("stale", "", "read")
		for _, tt := range []struct {
			name, rules string
			writes      int
			fails       bool
		}{
			{"all", "get", 0, false},    // has what it should
			{"nobody", "", 0, false},    // is gone by now
			{"plain", "list", 0, false}, // gathers nothing any more
			{"stale", "", 1, false},     // the server has it no longer: nothing to try again
			{"bad", "", 0, true},        // keeps its rules while the selector makes no sense
		} {
			b.api.Reset()
			result, err := b.controller.Reconcile(t.Context(), controllers.Key{Name: tt.name})
			if (err != nil) != tt.fails || result != (controllers.Result{}) || len(b.api.Writes()) != tt.writes {
				t.Errorf("%s: %v, %v; wrote %v", tt.name, result, err, b.api.Writes())
			}
			if tt.name != "nobody" && tt.name != "bad" { // which the server does not have
				b.wantRules(tt.name, tt.rules)
			}
		}
	}, senseless())
}
