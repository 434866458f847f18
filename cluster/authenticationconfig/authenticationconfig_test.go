package authenticationconfig_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/oidc"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/authenticationconfig"
	"github.com/keelson-dev/keelson/cluster/internal/reload"
)

// TestRefused: what is wrong is told with file, line and field.
func TestRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		line int
		want string
	}{
		"empty":          {"", 0, `apiVersion "" and kind "": want apiVersion apiserver.config.k8s.io/v1 and kind AuthenticationConfiguration`},
		"another kind":   {"apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n", 1, "want apiVersion apiserver.config.k8s.io/v1"},
		"no YAML":        {"a: [", 0, "yaml: line 1: did not find"},
		"unknown field":  {head + "jwt:\n" + jwt("a.example.com") + "  usernames: {}\n", 6, `unknown field "jwt[0].usernames"`},
		"twice":          {head + "jwt: []\njwt: []\n", 0, `line 4: key "jwt" already set in map`},
		"no HTTPS":       {head + "jwt:\n- issuer: {url: 'http://a', audiences: [api]}\n  claimMappings: {username: {claim: sub, prefix: ''}}\n", 4, `jwt[0].issuer.url: Invalid value: "http://a": URL scheme must be https`},
		"expression":     {head + "jwt:\n" + jwt("a.example.com") + "  userValidationRules:\n  - expression: user.\n", 7, `jwt[0].userValidationRules[0].expression: Invalid value: "user.": compilation failed: ERROR: <input>:1:6: Syntax error`},
		"two":            {head + "jwt:\n" + jwt("a.example.com") + jwt("a.example.com"), 6, `jwt[1].issuer.url: Duplicate value: "https://a.example.com"`},
		"two, discovery": {head + "jwt:\n" + discovered("a", "c") + discovered("b", "c"), 6, `jwt[1].issuer.discoveryURL: Duplicate value: "https://c"`},
		"disallowed":     {head + "jwt:\n" + jwt("accounts"), 4, `URL must not overlap with disallowed issuers: [https://accounts]`},
		"many":           {head + "jwt:\n" + strings.Repeat(jwt("a.example.com"), 65), 3, "jwt: Too many: 65: must have at most 64 items"},
		"anonymous":      {head + "anonymous:\n  enabled: false\n  conditions: [{path: /x}]\n", 5, "anonymous.conditions: Invalid value: "},
		"egress":         {head + "jwt:\n- issuer: {url: 'https://a', audiences: [api], egressSelectorType: cluster}\n  claimMappings: {username: {claim: sub, prefix: ''}}\n", 4, "jwt[0].issuer.egressSelectorType: Invalid value"},
	} {
		path := write(t, tt.text)
		_, err := authenticationconfig.Open(path, authenticationconfig.Options{DisallowedIssuers: []string{"https://accounts"}})
		var wrong *authenticationconfig.Error
		if !errors.As(err, &wrong) || wrong.Path != path || wrong.Line != tt.line || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"as many as may be": head + "jwt:\n" + many(64), "none": head, "anonymous": head + "anonymous: {enabled: true, conditions: [{path: /x}]}\n", "not anonymous": head + "anonymous: {enabled: false}\n",
		"discovery": head + "jwt:\n" + discovered("a", "b") + discovered("b", "a"),
	} {
		if a, err := authenticationconfig.Open(write(t, text), authenticationconfig.Options{}); err != nil || a == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := authenticationconfig.Open(write(t, head+"jwt:\n"+jwt("a")), authenticationconfig.Options{SigningAlgorithms: []string{"none"}}); err == nil || !strings.Contains(err.Error(), `unsupported signing alg: "none"`) {
		t.Error(err)
	}
	if _, err := authenticationconfig.Open("/nowhere", authenticationconfig.Options{}); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}

// many are entries for so many issuers.
func many(n int) string {
	var text strings.Builder
	for i := range n {
		text.WriteString(jwt(fmt.Sprint("issuer-", i)))
	}
	return text.String()
}

// discovered is an entry for an issuer whose configuration is at another host.
func discovered(host, at string) string {
	return strings.Replace(jwt(host), ", audiences", ", discoveryURL: 'https://"+at+"', audiences", 1)
}

// run runs what authenticates until the test ends.
func run(t *testing.T, a *authenticationconfig.Authentication) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := newIssuers(t)
		var log told
		path := write(t, head+"jwt:\n"+jwt("a.example.com")+"anonymous: {enabled: true}\n")
		a, err := authenticationconfig.Open(path, authenticationconfig.Options{Client: world.client(), Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Check(t.Context()); err == nil {
			t.Error("it is ready before it runs")
		}
		figures := prometheus.NewRegistry()
		figures.MustRegister(a.Collectors()...)
		run(t, a)
		verify := func(host string, good bool) {
			t.Helper()
			id, err := a.Verify(t.Context(), world.token(t, host, "ann"))
			if good && (err != nil || id.Name != host+":ann") || !good && !errors.Is(err, authn.ErrNoCredentials) {
				t.Errorf("%s: %+v, %v", host, id, err)
			}
		}
		pass := func(d time.Duration, want string) {
			t.Helper()
			log.take()
			time.Sleep(d)
			synctest.Wait()
			if text := log.take(); !strings.Contains(text, want) || want == "" && text != "" {
				t.Errorf("the log tells %s, want %q", text, want)
			}
		}
		pass(3*time.Second, "")
		if err := a.Check(t.Context()); err != nil {
			t.Error(err)
		}
		verify("a.example.com", true)
		verify("b.example.com", false)
		rewrite(t, path, head+"jwt:\n"+jwt("a.example.com")+jwt("b.example.com")+"anonymous: {enabled: true}\n")
		pass(3*time.Second, "reloaded authentication config")
		verify("a.example.com", true)
		verify("b.example.com", true)
		for _, bad := range []struct{ text, told string }{
			{head + "jwt: 7\n", `error="` + path + ":1: json: cannot unmarshal"},
			{head + "jwt:\n" + jwt("b.example.com") + "anonymous: {enabled: false}\n", "anonymous: Forbidden: changed from initial configuration file"},
			{head + "jwt:\n" + jwt("b.example.com"), "anonymous: Forbidden: changed from initial configuration file"},
		} {
			rewrite(t, path, bad.text)
			pass(3*time.Second, bad.told)
			verify("a.example.com", true)
			verify("b.example.com", true)
		}
		// New issuers have a minute to answer, and then another one.
		world.set("c.example.com", true)
		rewrite(t, path, head+"jwt:\n"+jwt("b.example.com")+jwt("c.example.com")+"anonymous: {enabled: true}\n")
		pass(62*time.Second, "failed to reload authentication config")
		verify("a.example.com", true)
		verify("c.example.com", false)
		rewrite(t, path, head+"jwt:\n"+jwt("a.example.com")+jwt("b.example.com")+"anonymous: {enabled: true}\n")
		pass(70*time.Second, "reloaded authentication config")
		tried := world.times("c.example.com")
		pass(time.Minute, "")
		if n := world.times("c.example.com"); n != tried {
			t.Error("an issuer that did not answer is asked although the file does not name it any more")
		}
		rewrite(t, path, head+"jwt:\n"+jwt("b.example.com")+jwt("c.example.com")+"anonymous: {enabled: true}\n")
		pass(3*time.Second, "503 Service Unavailable")
		world.set("c.example.com", false)
		pass(15*time.Second, "reloaded authentication config")
		verify("a.example.com", false)
		verify("b.example.com", true)
		verify("c.example.com", true)
		known := func(want ...string) {
			t.Helper()
			for _, metric := range []string{"jwks_fetch_last_key_set_info", "jwks_fetch_last_timestamp_seconds"} {
				if got := issuersOf(t, figures, "apiserver_authentication_jwt_authenticator_"+metric); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
					t.Errorf("%s of %q, want %q", metric, got, want)
				}
			}
		}
		known("a.example.com", "b.example.com", "c.example.com")
		time.Sleep(40 * time.Second)
		known("a.example.com", "b.example.com", "c.example.com")
		time.Sleep(20 * time.Second) // the old ones end
		synctest.Wait()
		known("b.example.com", "c.example.com")
		verify("b.example.com", true)
		// Keys are asked for again in time, of each issuer once; if there is no answer, the old ones stay.
		world.set("b.example.com", true)
		left, stays := world.times("a.example.com"), world.times("b.example.com")
		time.Sleep(time.Hour)
		synctest.Wait()
		known("b.example.com", "c.example.com")
		if left != world.times("a.example.com") || stays+1 != world.times("b.example.com") {
			t.Errorf("within an hour, an issuer that is gone was asked %d times, one that stays %d times", world.times("a.example.com")-left, world.times("b.example.com")-stays)
		}
		if n := len(hashes(t, figures)); n != 1 {
			t.Errorf("there are %d sets of keys", n)
		}
	})
}

// issuersOf returns the hosts of the issuers that a metric is about, sorted.
func issuersOf(t *testing.T, from prometheus.Gatherer, metric string) []string {
	t.Helper()
	hosts := map[string]string{}
	for _, host := range []string{"a.example.com", "b.example.com", "c.example.com"} {
		hosts[reload.Hash("https://"+host)] = host
	}
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == metric && l.GetName() == "jwt_issuer_hash" {
					all[hosts[l.GetValue()]] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// hashes are those of keys that a metric tells. All issuers have the same keys.
func hashes(t *testing.T, from prometheus.Gatherer) map[string]bool {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "hash" && strings.HasSuffix(f.GetName(), "jwks_fetch_last_key_set_info") {
					all[l.GetValue()] = true
				}
			}
		}
	}
	return all
}

// TestStages: whose a token is stays known for ten seconds, and the file decides about requests without one.
func TestStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := newIssuers(t)
		path := write(t, head+"jwt:\n"+jwt("a.example.com")+"anonymous: {enabled: false}\n")
		a, err := authenticationconfig.Open(path, authenticationconfig.Options{Client: world.client()})
		if err != nil {
			t.Fatal(err)
		}
		run(t, a)
		synctest.Wait()
		figures := prometheus.NewRegistry()
		for _, c := range a.Collectors() {
			figures.MustRegister(c)
			if err := figures.Register(c); !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
				t.Errorf("%T is registered twice: %v", c, err)
			}
		}
		stages := a.Stages()
		if len(stages) != 2 || stages[0].Name != "jwt" || stages[1].Name != cluster.Anonymous || a.Anonymous() == nil {
			t.Fatalf("%+v", stages)
		}
		if id, err := authenticatorOf(t, stages[1]).Authenticate(bearer("")); !errors.Is(err, authn.ErrNoCredentials) {
			t.Errorf("%+v, %v", id, err)
		}
		jwts := authenticatorOf(t, stages[0])
		text := world.sign(t, map[string]any{"iss": "https://a.example.com", "aud": "api", "sub": "ann", "exp": time.Now().Add(5 * time.Second).Unix()})
		for _, want := range []bool{true, true, false, false} { // every six seconds
			if id, err := jwts.Authenticate(bearer(text)); (err == nil) != want {
				t.Errorf("%+v, %v", id, err)
			}
			time.Sleep(6 * time.Second)
		}
		const latency = "apiserver_authentication_jwt_authenticator_latency_seconds"
		if got := issuersOf(t, figures, latency); !slices.Equal(got, []string{"a.example.com"}) {
			t.Errorf("times are told of %q", got)
		}
		families, err := figures.Gather()
		if err != nil {
			t.Fatal(err)
		}
		results := map[string]uint64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if f.GetName() == latency && l.GetName() == "result" {
						results[l.GetValue()] = m.GetHistogram().GetSampleCount()
					}
				}
			}
		}
		if len(results) != 2 || results["success"] != 1 || results["failure"] != 2 {
			t.Errorf("%v", results)
		}
	})
}

// TestCluster: a cluster knows the users of issuers, and serves anonymous requests for some paths alone.
func TestCluster(t *testing.T) {
	world := newIssuers(t)
	path := write(t, head+"jwt:\n"+jwt("a.example.com")+"anonymous: {enabled: true, conditions: [{path: /livez}]}\n")
	a, err := authenticationconfig.Open(path, authenticationconfig.Options{Client: world.client(), Server: "me"})
	if err != nil {
		t.Fatal(err)
	}
	o := cluster.Options{Components: []cluster.Component{}, Authenticators: append(cluster.DefaultAuthenticators(), a.Stages()...), Extensions: []cluster.Extension{a.Extension()}}
	o.Server.Metrics = true
	c, err := cluster.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func(path, bearer string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		if bearer != "" {
			r.Header.Set("Authorization", "Bearer "+bearer)
		}
		w := httptest.NewRecorder()
		c.Handler().ServeHTTP(w, r)
		return w
	}
	token := world.token(t, "a.example.com", "ann")
	for name, tt := range map[string]struct {
		path, bearer string
		code         int
		text         string
	}{
		"a user":               {"/api/v1/nodes", token, http.StatusForbidden, `nodes is forbidden: User \"a.example.com:ann\" cannot list resource \"nodes\"`},
		"a forged token":       {"/livez", token[:len(token)-8] + "AAAAAAAA", http.StatusUnauthorized, "Unauthorized"},
		"another issuer":       {"/livez", world.token(t, "b.example.com", "ann"), http.StatusUnauthorized, "Unauthorized"},
		"anonymous":            {"/livez", "", http.StatusOK, "ok"},
		"anonymous, elsewhere": {"/readyz", "", http.StatusUnauthorized, "Unauthorized"},
		"anonymous, below":     {"/livez/ping", "", http.StatusUnauthorized, "Unauthorized"},
	} {
		w := ask(tt.path, tt.bearer)
		if name == "a user" { // the issuer may not have answered yet
			for w.Code == http.StatusUnauthorized && a.Check(t.Context()) != nil {
				w = ask(tt.path, tt.bearer)
			}
			w = ask(tt.path, tt.bearer)
		}
		if w.Code != tt.code || !strings.Contains(w.Body.String(), tt.text) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	admin := c.ConfigFor(cluster.Admin())
	client := &http.Client{Transport: admin.Transport}
	response, err := client.Get(admin.Host + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var text bytes.Buffer
	_, _ = text.ReadFrom(response.Body)
	for _, name := range []string{
		"apiserver_authentication_jwt_authenticator_latency_seconds_count{jwt_issuer_hash=", "apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds{apiserver_id_hash=",
		"apiserver_authentication_jwt_authenticator_jwks_fetch_last_key_set_info{apiserver_id_hash=", "apiserver_authentication_config_controller_last_config_info{apiserver_id_hash=",
	} {
		if !strings.Contains(text.String(), "\n"+name) {
			t.Errorf("there is no metric %s", name)
		}
	}
}

// TestNew: a configuration need not stand in a file.
func TestNew(t *testing.T) {
	if _, err := authenticationconfig.New(authenticationconfig.Config{JWT: []oidc.Config{{}}}, authenticationconfig.Options{}); err == nil || !strings.Contains(err.Error(), "jwt[0].issuer.url: Required value") {
		t.Error(err)
	}
	synctest.Test(t, func(t *testing.T) {
		world := newIssuers(t)
		a, err := authenticationconfig.New(authenticationconfig.Config{JWT: []oidc.Config{{
			Issuer:        oidc.Issuer{URL: "https://a.example.com", Audiences: []string{"api"}},
			ClaimMappings: oidc.ClaimMappings{Username: oidc.PrefixedClaimOrExpression{Claim: "sub", Prefix: new("")}},
		}}}, authenticationconfig.Options{Client: world.client()})
		if err != nil {
			t.Fatal(err)
		}
		run(t, a)
		synctest.Wait()
		if id, err := a.Verify(t.Context(), world.token(t, "a.example.com", "ann")); err != nil || id.Name != "ann" {
			t.Errorf("%+v, %v", id, err)
		}
		if len(a.Collectors()) != 3 {
			t.Errorf("it measures a file: %v", a.Collectors())
		}
		if a.Anonymous() != nil || len(a.Stages()) != 1 {
			t.Error("it speaks of anonymous requests")
		}
	})
}

func FuzzOpen(f *testing.F) {
	f.Add(head + "jwt:\n" + jwt("a.example.com") + "anonymous: {enabled: true}\n")
	f.Add(head + "jwt: [{}]\n")
	f.Add(head + "a: &a [*a]\n")
	f.Fuzz(func(t *testing.T, text string) {
		path := write(t, text)
		a, err := authenticationconfig.Open(path, authenticationconfig.Options{})
		if (err == nil) == (a == nil) && err == nil {
			t.Errorf("%q: %v", text, err)
		}
		if err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("%q: the error does not name the file: %v", text, err)
		}
	})
}

func ExampleOpen() {
	_, err := authenticationconfig.Open("authentication.yaml", authenticationconfig.Options{})
	fmt.Println(err)
	// Output: authentication.yaml: stat authentication.yaml: no such file or directory
}
