package authorizationconfig_test

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/abac"
	"github.com/keelson-dev/keelson/authz/superuser"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/authorizationconfig"
)

// begun returns the chain of a configuration that needs no server.
func begun(t *testing.T, a *authorizationconfig.Authorization) authz.Authorizer {
	t.Helper()
	stages := a.Stages()
	if len(stages) != 2 || stages[0].Name != superuser.Name {
		t.Errorf("%+v", stages)
	}
	made, err := stages[1].New(cluster.ServerParts{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func ask(t *testing.T, z authz.Authorizer, who string) (authz.Verdict, error) {
	t.Helper()
	d, err := z.Authorize(t.Context(), authz.Attributes{User: &authn.Identity{Name: who}, ResourceRequest: true, Verb: "get", Resource: "pods"})
	return d.Verdict, err
}

// TestWebhook: answers are kept as the file says, and it says what happens if there is none.
func TestWebhook(t *testing.T) {
	const anyway = "- {type: AlwaysAllow, name: alwaysallow}\n"
	for name, tt := range map[string]struct {
		more    string // the failure policy, and further fields
		allowed int    // how often two questions about somebody who is allowed reach the webhook
		others  int
		down    authz.Verdict
	}{
		"defaults":        {"NoOpinion", 1, 1, authz.Allow},
		"deny":            {"Deny", 1, 1, authz.Deny},
		"allowed":         {"NoOpinion\n    cacheAuthorizedRequests: false", 2, 1, authz.Allow},
		"others":          {"NoOpinion\n    cacheUnauthorizedRequests: false", 1, 2, authz.Allow},
		"allowed shortly": {"NoOpinion\n    authorizedTTL: 1ns", 2, 1, authz.Allow},
		"others shortly":  {"NoOpinion\n    unauthorizedTTL: 1ns", 1, 2, authz.Allow},
	} {
		p := &policy{}
		a, err := authorizationconfig.Open(write(t, "authorization.yaml", head+webhook(serve(t, p), tt.more)+anyway), authorizationconfig.Options{})
		if err != nil {
			t.Fatal(err)
		}
		z := begun(t, a)
		for who, want := range map[string]int{"wendy": tt.allowed, "ann": tt.others} {
			p.take()
			for range 2 {
				if verdict, err := ask(t, z, who); verdict != authz.Allow || err != nil {
					t.Errorf("%s: %s: %v, %v", name, who, verdict, err)
				}
			}
			if n := len(strings.Fields(p.take())); n != want {
				t.Errorf("%s: the webhook was asked %d times about %s, want %d", name, n, who, want)
			}
		}
		p.mu.Lock()
		p.down = true
		p.mu.Unlock()
		if verdict, _ := ask(t, z, "walter"); verdict != tt.down {
			t.Errorf("%s: %v while the webhook is down", name, verdict)
		}
	}
}

// TestPatience: a webhook has as long to answer as the file says.
func TestPatience(t *testing.T) {
	done := make(chan struct{})
	file := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-done }))
	t.Cleanup(func() { close(done) })
	a, err := authorizationconfig.Open(write(t, "authorization.yaml", head+strings.Replace(webhook(file, "Deny"), "3s", "10ms", 1)), authorizationconfig.Options{})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if verdict, err := ask(t, begun(t, a), "wendy"); verdict != authz.Deny || err == nil || time.Since(began) > 3*time.Second {
		t.Errorf("%v, %v after %v", verdict, err, time.Since(began))
	}
}

// TestFlagAnswers: flags say how long answers are kept, and that a webhook that fails has no opinion.
func TestFlagAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		change          func(*authorizationconfig.Flags)
		allowed, others int
	}{
		"defaults": {func(*authorizationconfig.Flags) {}, 1, 1},
		"allowed":  {func(f *authorizationconfig.Flags) { f.AuthorizedTTL = 0 }, 2, 1},
		"others":   {func(f *authorizationconfig.Flags) { f.UnauthorizedTTL = 0 }, 1, 2},
	} {
		p := &policy{}
		f := authorizationconfig.NewFlags()
		f.Modes, f.WebhookConfigFile = []string{"Webhook", "AlwaysAllow"}, serve(t, p)
		tt.change(&f)
		a, err := f.Open("", []string{"AlwaysDeny"}, authorizationconfig.Options{})
		if err != nil {
			t.Fatal(err)
		}
		z := begun(t, a)
		for who, want := range map[string]int{"wendy": tt.allowed, "ann": tt.others} {
			p.take()
			for range 2 {
				if verdict, err := ask(t, z, who); verdict != authz.Allow || err != nil {
					t.Errorf("%s: %s: %v, %v", name, who, verdict, err)
				}
			}
			if n := len(strings.Fields(p.take())); n != want {
				t.Errorf("%s: the webhook was asked %d times about %s, want %d", name, n, who, want)
			}
		}
		p.mu.Lock()
		p.down = true
		p.mu.Unlock()
		if verdict, _ := ask(t, z, "walter"); verdict != authz.Allow {
			t.Errorf("%s: %v while the webhook is down", name, verdict)
		}
	}
}

// TestPolicies: a file of policies serves both the flag and a file that names ABAC.
func TestPolicies(t *testing.T) {
	policies := write(t, "policies", `{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"ann","namespace":"*","resource":"*","apiGroup":"*"}}`+"\n")
	file := write(t, "authorization.yaml", head+"- {type: ABAC, name: abac}\n")
	for path, mode := range map[string]string{"": "ABAC", file: "AlwaysDeny"} {
		f := authorizationconfig.NewFlags()
		f.PolicyFile = policies
		a, err := f.Open(path, []string{mode}, authorizationconfig.Options{})
		if err != nil {
			t.Fatal(err)
		}
		z := begun(t, a)
		for who, want := range map[string]authz.Verdict{"ann": authz.Allow, "bob": authz.NoOpinion} {
			if verdict, err := ask(t, z, who); verdict != want || err != nil {
				t.Errorf("%s: %s: %v, %v", path, who, verdict, err)
			}
		}
		rules, err := a.RulesFor(t.Context(), &authn.Identity{Name: "ann"}, "ns")
		if err != nil || len(rules.Resources) == 0 {
			t.Errorf("%s: %+v, %v", path, rules, err)
		}
	}
	f := authorizationconfig.NewFlags()
	f.PolicyFile = "/nowhere"
	if _, err := f.Open("", []string{"ABAC"}, authorizationconfig.Options{}); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}

// TestRules: what a webhook allows is not told.
func TestRules(t *testing.T) {
	f := authorizationconfig.NewFlags()
	f.Modes, f.WebhookConfigFile = []string{"Webhook", "AlwaysAllow"}, serve(t, &policy{})
	a, err := f.Open("", nil, authorizationconfig.Options{})
	if err != nil {
		t.Fatal(err)
	}
	begun(t, a)
	rules, err := a.RulesFor(t.Context(), &authn.Identity{Name: "ann"}, "ns")
	if !rules.Incomplete || len(rules.Resources) != 1 || err == nil || !strings.Contains(err.Error(), "webhook authorizer does not support user rule resolution") {
		t.Errorf("%+v, %v", rules, err)
	}
}

// TestLateNode: what was not among the authorizers at the start cannot be added, even if the server could make it.
func TestLateNode(t *testing.T) {
	const rbac = "- {type: RBAC, name: rbac}\n"
	for added, link := range map[string]string{"Node": chainEnd, "ABAC": rbac + "- {type: ABAC, name: abac}\n"} {
		path := write(t, "authorization.yaml", head+rbac)
		var log told
		a, err := authorizationconfig.Open(path, authorizationconfig.Options{Policies: abac.Policies{}, Interval: time.Millisecond, Log: log.logger()})
		if err != nil {
			t.Fatal(err)
		}
		w := start(t, a)
		if code, body := w.get("ann", "/version"); code != http.StatusOK { // as everybody may by a role
			t.Errorf("%d %s", code, body)
		}
		if err := os.WriteFile(path, []byte(head+link), 0o600); err != nil {
			t.Fatal(err)
		}
		log.await(t, "authorizer type "+added+" is not allowed if it was not enabled at initial server startup")
	}
}

// TestRun: without a file there is nothing to do until the end.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := authorizationconfig.New(authorizationconfig.Config{Authorizers: []authorizationconfig.Authorizer{{Type: "AlwaysAllow", Name: "alwaysallow"}}}, authorizationconfig.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := a.Run(ctx); err != nil || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
