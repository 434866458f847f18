package authorizationconfig_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/authorizationconfig"
	"github.com/keelson-dev/keelson/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.VerifyTestMain(m) }

const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n"

func write(t testing.TB, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// policy is a webhook that allows users whose names begin with "w", and counts questions.
type policy struct {
	mu    sync.Mutex
	asked []string
	down  bool
}

func (p *policy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var review authorizationv1.SubjectAccessReview
	_ = json.NewDecoder(r.Body).Decode(&review)
	p.asked = append(p.asked, review.Spec.User)
	if p.down {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	review.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: strings.HasPrefix(review.Spec.User, "w"), Reason: "policy"}
	_ = json.NewEncoder(w).Encode(review)
}

func (p *policy) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.asked = nil }()
	return strings.Join(p.asked, " ")
}

// serve returns a kubeconfig file that leads to a webhook.
func serve(t testing.TB, h http.Handler) (path string) {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	return write(t, "kubeconfig", `apiVersion: v1
kind: Config
clusters: [{name: policy, cluster: {server: '`+s.URL+`/authorize', insecure-skip-tls-verify: true}}]
users: [{name: me, user: {}}]
contexts: [{name: it, context: {cluster: policy, user: me}}]
current-context: it
`)
}

func webhook(kubeconfig, more string) string {
	return "- type: Webhook\n  name: policy\n  webhook:\n    timeout: 3s\n    subjectAccessReviewVersion: v1\n    failurePolicy: " + more +
		"\n    connectionInfo: {type: KubeConfigFile, kubeConfigFile: '" + kubeconfig + "'}\n"
}

const chainEnd = "- {type: Node, name: node}\n- {type: RBAC, name: rbac}\n"

// TestRefused: what is wrong is told with file, line and field.
func TestRefused(t *testing.T) {
	here := write(t, "kubeconfig", "x")
	for name, tt := range map[string]struct {
		text string
		line int
		want string
	}{
		"no authorizers": {"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n", 1, "authorizers: Required value: at least one authorization mode must be defined"},
		"no YAML":        {"a: [", 0, "yaml: line 1: did not find"},
		"another kind":   {"apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n", 1, "want apiVersion apiserver.config.k8s.io/v1"},
		"unknown field":  {head + "- {type: RBAC, name: rbac, webhooks: {}}\n", 4, `unknown field "authorizers[0].webhooks"`},
		"no type":        {head + "- {name: x}\n", 4, "authorizers[0].type: Required value"},
		"unknown type":   {head + "- {type: X, name: x}\n", 4, `authorizers[0].type: Unsupported value: "X": supported values: "ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"`},
		"twice":          {head + chainEnd + "- {type: RBAC, name: again}\n", 6, `authorizers[2].type: Duplicate value: "RBAC"`},
		"another name":   {head + "- {type: RBAC, name: roles}\n", 3, "expected name rbac for authorizer RBAC instead of roles"},
		"no name":        {head + "- {type: RBAC}\n", 4, "authorizers[0].name: Required value"},
		"bad name":       {head + "- {type: RBAC, name: R_}\n", 4, "authorizer name is invalid: a lowercase RFC 1123 subdomain"},
		"no webhook":     {head + "- {type: Webhook, name: x}\n", 4, "authorizers[0].webhook: Required value: required when type=Webhook"},
		"a webhook":      {head + "- {type: RBAC, name: rbac, webhook: {}}\n", 4, `authorizers[0].webhook: Invalid value: "non-null": may only be specified when type=Webhook`},
		"no policies":    {head + "- {type: ABAC, name: abac}\n", 0, "authorizer type ABAC is not allowed if it was not enabled at initial server startup"},
		"in cluster":     {head + "- {type: Webhook, name: x, webhook: {timeout: 1s, subjectAccessReviewVersion: v1, failurePolicy: Deny, connectionInfo: {type: InClusterConfig}}}\n", 4, `authorizers[0].connectionInfo.type: Unsupported value: "InClusterConfig": supported values: "KubeConfigFile"`},
		"policy":         {head + webhook(here, "Perhaps"), 4, `authorizers[0].failurePolicy: Unsupported value: "Perhaps": supported values: "NoOpinion", "Deny"`},
		"relative":       {head + webhook("kubeconfig", "Deny"), 4, `authorizers[0].connectionInfo.kubeConfigFile: Invalid value: "kubeconfig": must be an absolute path`},
		"nowhere":        {head + webhook("/nowhere", "Deny"), 4, `error loading file: stat /nowhere: no such file or directory`},
		"a directory":    {head + webhook("/", "Deny"), 4, `must be a regular file`},
		"condition":      {head + webhook(here, "Deny") + "    matchConditionSubjectAccessReviewVersion: v1\n    matchConditions: [{expression: request.}]\n", 4, `authorizers[0].matchConditions[0].expression: Invalid value: "request.": compilation failed`},
		"no version":     {head + webhook(here, "Deny") + "    matchConditions: [{expression: 'true'}]\n", 4, `authorizers[0].matchConditionSubjectAccessReviewVersion: Required value: required if match conditions are specified`},
		"bad kubeconfig": {head + webhook(here, "Deny"), 0, "authorizer policy: "},
	} {
		path := write(t, "authorization.yaml", tt.text)
		_, err := authorizationconfig.Open(path, authorizationconfig.Options{})
		var wrong *authorizationconfig.Error
		if !errors.As(err, &wrong) || wrong.Path != path || wrong.Line != tt.line || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := authorizationconfig.Open("/nowhere", authorizationconfig.Options{}); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}

// world is a cluster that authorizes by a file.
type world struct {
	t *testing.T
	c *cluster.Cluster
}

func start(t *testing.T, a *authorizationconfig.Authorization) world {
	t.Helper()
	o := cluster.Options{Components: []cluster.Component{}, Authorizers: a.Stages(), Extensions: []cluster.Extension{a.Extension()}}
	o.Server.Metrics = true
	c, err := cluster.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return world{t, c}
}

// get asks as a user.
func (w world) get(who, path string) (code int, body string) {
	w.t.Helper()
	config := w.c.ConfigFor(cluster.User(who))
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, config.Host+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	response, err := (&http.Client{Transport: config.Transport}).Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	var text bytes.Buffer
	_, _ = text.ReadFrom(response.Body)
	return response.StatusCode, text.String()
}

// TestCluster: the chain decides in its order, and its webhook is asked about what matches.
func TestCluster(t *testing.T) {
	p := &policy{}
	path := write(t, "authorization.yaml", head+webhook(serve(t, p), "Deny")+
		"    matchConditionSubjectAccessReviewVersion: v1\n    matchConditions: [{expression: 'request.user.startsWith(\"system:\") == false'}]\n"+chainEnd)
	a, err := authorizationconfig.Open(path, authorizationconfig.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := start(t, a)
	p.take()
	if code, body := w.get("wendy", "/api/v1/nodes"); code != http.StatusOK || p.take() != "wendy" {
		t.Errorf("%d %s", code, body)
	}
	if code, body := w.get("wendy", "/api/v1/nodes"); code != http.StatusOK || p.take() != "" {
		t.Errorf("%d %s: the webhook is asked again", code, body)
	}
	if code, body := w.get("ann", "/api/v1/nodes"); code != http.StatusForbidden || p.take() != "ann" || !strings.Contains(body, `cannot list resource \"nodes\" in API group \"\" at the cluster scope: policy: policy`) {
		t.Errorf("%d %s", code, body)
	}
	if code, body := w.get("system:x", "/api/v1/nodes"); code != http.StatusForbidden || p.take() != "" {
		t.Errorf("%d %s", code, body)
	}
	p.mu.Lock()
	p.down = true
	p.mu.Unlock()
	if code, body := w.get("walter", "/api/v1/nodes"); code != http.StatusInternalServerError && code != http.StatusForbidden || p.take() != "walter" {
		t.Errorf("%d %s", code, body)
	}
}

// told is what was logged. It may be read while it is written.
type told struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *told) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *told) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// await waits until a text was logged, and forgets all.
func (l *told) await(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		all := l.text.String()
		if strings.Contains(all, text) {
			l.text.Reset()
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		if time.Now().After(end) {
			t.Fatalf("the log does not tell %q: %s", text, all)
		}
	}
}

// TestReload: a good file takes effect, a bad one does not.
func TestReload(t *testing.T) {
	p := &policy{}
	kubeconfig := serve(t, p)
	path := write(t, "authorization.yaml", head+chainEnd)
	var log told
	a, err := authorizationconfig.Open(path, authorizationconfig.Options{Interval: 5 * time.Millisecond, Server: "me", Log: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	w := start(t, a)
	allowed := func(want bool) {
		t.Helper()
		if code, body := w.get("wendy", "/api/v1/nodes"); (code == http.StatusOK) != want {
			t.Errorf("%d %s", code, body)
		}
	}
	replace := func(text string) {
		t.Helper()
		next := path + ".next"
		if err := errors.Join(os.WriteFile(next, []byte(text), 0o600), os.Rename(next, path)); err != nil {
			t.Fatal(err)
		}
	}
	allowed(false)
	replace(head + webhook(kubeconfig, "NoOpinion") + chainEnd)
	log.await(t, "reloaded authorization config")
	allowed(true)
	for _, bad := range []struct{ text, told string }{
		{head + "- {type: RBAC, name: rbac}\n", "missing required types: [Node]"},
		{head + chainEnd + "- {type: ABAC, name: abac}\n", "authorizer type ABAC is not allowed if it was not enabled at initial server startup"},
		{head, "at least one authorization mode must be defined"},
	} {
		replace(bad.text)
		log.await(t, bad.told)
		allowed(true)
	}
	replace(head + chainEnd + "- {type: AlwaysDeny, name: alwaysdeny}\n")
	log.await(t, "reloaded authorization config")
	allowed(false)
	if code, body := w.get("wendy", "/apis/rbac.authorization.k8s.io/v1/clusterroles"); code != http.StatusForbidden || !strings.Contains(body, "alwaysdeny: Everything is forbidden.") {
		t.Errorf("%d %s", code, body)
	}
	config := w.c.ConfigFor(cluster.Admin())
	response, err := (&http.Client{Transport: config.Transport}).Get(config.Host + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var text bytes.Buffer
	_, _ = text.ReadFrom(response.Body)
	for _, want := range []string{`status="failure"} 3`, `status="success"} 2`} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the metrics do not tell %s", want)
		}
	}
}

// TestFlags has upstream's words.
func TestFlags(t *testing.T) {
	policies := write(t, "policies", "")
	kubeconfig := serve(t, &policy{})
	file := write(t, "authorization.yaml", head+chainEnd)
	for want, change := range map[string]func(*authorizationconfig.Flags) string{
		`authorization-mode "X" is not a valid mode`:                               func(f *authorizationconfig.Flags) string { f.Modes = []string{"X"}; return "" },
		`authorization-mode ABAC's authorization policy file not passed`:           func(f *authorizationconfig.Flags) string { f.Modes = []string{"ABAC"}; return "" },
		`authorization-mode Webhook's authorization config file not passed`:        func(f *authorizationconfig.Flags) string { f.Modes = []string{"Webhook"}; return "" },
		`cannot specify --authorization-policy-file without mode ABAC`:             func(f *authorizationconfig.Flags) string { f.PolicyFile = policies; return "" },
		`cannot specify --authorization-webhook-config-file without mode Webhook`:  func(f *authorizationconfig.Flags) string { f.WebhookConfigFile = kubeconfig; return "" },
		`authorization-mode ["RBAC" "RBAC"] has mode specified more than once`:     func(f *authorizationconfig.Flags) string { f.Modes = []string{"RBAC", "RBAC"}; return "" },
		`--authorization-config can not be specified when --authorization-mode or`: func(f *authorizationconfig.Flags) string { f.Modes = []string{"RBAC"}; return file },
		`--authorization-config can not be specified when --authorization-mode`:    func(f *authorizationconfig.Flags) string { f.AuthorizedTTL = 0; return file },
		`--authorization-config can not be specified when --authorization`:         func(f *authorizationconfig.Flags) string { f.UnauthorizedTTL = 0; return file },
		`--authorization-config can not be specified when --author`:                func(f *authorizationconfig.Flags) string { f.WebhookVersion = "v1"; return file },
		`--authorization-config can not be specified when --auth`:                  func(f *authorizationconfig.Flags) string { f.WebhookConfigFile = kubeconfig; return file },
		`authorizer default: unsupported authorization webhook version "v2"`: func(f *authorizationconfig.Flags) string {
			f.Modes, f.WebhookConfigFile, f.WebhookVersion = []string{"Webhook"}, kubeconfig, "v2"
			return ""
		},
	} {
		f := authorizationconfig.NewFlags()
		path := change(&f)
		if _, err := f.Open(path, []string{"Node", "RBAC"}, authorizationconfig.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	f := authorizationconfig.NewFlags()
	if f.AuthorizedTTL != 5*time.Minute || f.UnauthorizedTTL != 30*time.Second || f.WebhookVersion != "v1beta1" {
		t.Errorf("defaults %+v", f)
	}
	f.Modes, f.PolicyFile, f.WebhookConfigFile, f.UnauthorizedTTL = []string{"ABAC", "Webhook", "AlwaysAllow"}, policies, kubeconfig, 0
	if _, err := f.Open("", nil, authorizationconfig.Options{}); err != nil {
		t.Error(err)
	}
	f = authorizationconfig.NewFlags()
	if _, err := f.Open(file, nil, authorizationconfig.Options{}); err != nil {
		t.Error(err)
	}
	if _, err := f.Open("", []string{"Node", "RBAC"}, authorizationconfig.Options{}); err != nil {
		t.Error(err)
	}
}

// TestNew: a configuration need not stand in a file.
func TestNew(t *testing.T) {
	if _, err := authorizationconfig.New(authorizationconfig.Config{Authorizers: []authorizationconfig.Authorizer{{Type: "RBAC", Name: "x"}}}, authorizationconfig.Options{}); err == nil || !strings.Contains(err.Error(), "expected name rbac") {
		t.Error(err)
	}
	a, err := authorizationconfig.New(authorizationconfig.Config{Authorizers: []authorizationconfig.Authorizer{{Type: "AlwaysAllow", Name: "alwaysallow"}}}, authorizationconfig.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := start(t, a)
	if code, body := w.get("ann", "/api/v1/nodes"); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Run(ctx); err != nil || a.Collectors() != nil {
		t.Error(err)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(head + chainEnd)
	f.Add(head + webhook("/dev/null", "Deny"))
	f.Add(head + "- {}\n- {type: ABAC, name: abac, webhook: {}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		path := write(t, "authorization.yaml", text)
		if _, err := authorizationconfig.Open(path, authorizationconfig.Options{}); err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("%q: the error does not name the file: %v", text, err)
		}
	})
}

func ExampleOpen() {
	_, err := authorizationconfig.Open("authorization.yaml", authorizationconfig.Options{})
	fmt.Println(err)
	// Output: authorization.yaml: stat authorization.yaml: no such file or directory
}
