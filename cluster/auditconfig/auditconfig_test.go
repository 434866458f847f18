package auditconfig_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/auditconfig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collector is a server that events are posted to.
type collector struct {
	*httptest.Server
	mu   sync.Mutex
	uris []string
	fail bool
}

func collect(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.fail {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if _, password, _ := r.BasicAuth(); password != "secret" {
			t.Error("the client does not say who it is")
		}
		var list auditv1.EventList
		if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
			t.Error(err)
		}
		for _, e := range list.Items {
			c.uris = append(c.uris, e.RequestURI)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) got() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.uris)
}

// config is a kubeconfig file that leads to it.
func (c *collector) config(t *testing.T, dir string) string {
	t.Helper()
	authority := filepath.Join(dir, "ca.crt")
	write(t, authority, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw})))
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "%s/events", certificate-authority: %s}}]
users: [{name: u, user: {username: u, password: secret}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, c.URL, authority)
}

func policy(level string) string {
	return "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: " + level + "}]\nomitStages: [RequestReceived]\n"
}

// write replaces a file at once, as those do who distribute files.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// pass has a request be recorded.
func pass(l *audit.Log, path string) {
	r := l.Open()
	if r.Begin(&audit.Request{HTTP: httptest.NewRequest(http.MethodGet, path, nil), Attributes: authz.Attributes{User: &authn.Identity{Name: "ann"}, Verb: "get"}}) {
		r.Completed()
	}
}

// until waits for a condition.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// start runs an Audit with its extension, which the returned function ends.
func start(t *testing.T, a *auditconfig.Audit) (extended cluster.Measured, end func()) {
	t.Helper()
	e, err := a.Extension().New(nil)
	if err == nil {
		err = e.Prepare(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 2)
	go func() { ran <- a.Run(ctx) }()
	go func() { ran <- e.Run(ctx) }()
	extended, _ = e.(cluster.Measured)
	return extended, func() {
		cancel()
		if err := errors.Join(<-ran, <-ran); err != nil {
			t.Error(err)
		}
	}
}

// counts are the metrics of reloads.
func counts(t *testing.T, m cluster.Measured) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	for _, c := range m.Collectors() {
		if err := registry.Register(c); err != nil {
			t.Fatal(err)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		if !strings.HasSuffix(f.GetName(), "_total") {
			continue
		}
		for _, one := range f.GetMetric() {
			for _, label := range one.GetLabel() {
				if label.GetName() == "status" {
					all[strings.TrimPrefix(f.GetName(), "apiserver_")+" "+label.GetValue()] = one.GetCounter().GetValue()
				}
			}
		}
	}
	return all
}

// TestReload: both files are read again when they change. One that is wrong changes nothing, which log and metrics tell.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	policyFile, configFile := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "webhook.conf")
	first, second := collect(t), collect(t)
	write(t, policyFile, policy("Metadata"))
	write(t, configFile, first.config(t, dir))
	var text lines
	memory := &audit.Memory{}
	w := auditconfig.NewWebhook()
	w.ConfigFile, w.Batch.MaxSize = configFile, 1
	a, err := auditconfig.Open(auditconfig.Options{
		PolicyFile: policyFile, Webhook: w, Sink: memory, Interval: time.Millisecond, Audit: audit.Options{Logger: slog.New(slog.NewTextHandler(&text, nil))},
	})
	if err != nil {
		t.Fatal(err)
	}
	m, end := start(t, a)
	defer end()
	pass(a.Log(), "/one")
	until(t, "the event", func() bool { return slices.Equal(first.got(), []string{"/one"}) })

	write(t, policyFile, policy("Everything"))
	until(t, "a bad policy", func() bool {
		return counts(t, m)["audit_policy_config_controller_automatic_reloads_total failure"] == 1
	})
	write(t, configFile, "apiVersion: v1\nkind: Config\n")
	until(t, "a bad address", func() bool {
		return counts(t, m)["audit_webhook_config_controller_automatic_reloads_total failure"] == 1
	})
	pass(a.Log(), "/two")
	until(t, "the event", func() bool { return slices.Equal(first.got(), []string{"/one", "/two"}) })

	moved := t.TempDir()
	write(t, configFile, second.config(t, moved))
	until(t, "a good address", func() bool {
		return counts(t, m)["audit_webhook_config_controller_automatic_reloads_total success"] == 1
	})
	pass(a.Log(), "/three")
	until(t, "the event", func() bool { return slices.Equal(second.got(), []string{"/three"}) })

	write(t, policyFile, policy("None"))
	until(t, "a good policy", func() bool {
		return counts(t, m)["audit_policy_config_controller_automatic_reloads_total success"] == 1
	})
	pass(a.Log(), "/four")
	if got := len(memory.Events()); got != 3 {
		t.Errorf("the other sink has %d events", got)
	}
	told := text.String()
	for _, want := range []string{"failed to reload audit_policy config; what the file said before stays in force", "Unsupported value: \\\"Everything\\\"", policyFile, "failed to reload audit_webhook config", configFile} {
		if !strings.Contains(told, want) {
			t.Errorf("the log does not tell %q:\n%s", want, told)
		}
	}
	if strings.Contains(told, "secret") {
		t.Errorf("the log tells a password:\n%s", told)
	}
	want := map[string]float64{}
	for _, name := range []string{"audit_policy", "audit_webhook"} {
		want[name+"_config_controller_automatic_reloads_total failure"], want[name+"_config_controller_automatic_reloads_total success"] = 1, 1
	}
	if diff := cmp.Diff(want, counts(t, m)); diff != "" {
		t.Error(diff)
	}
}

// TestEnd: what was not posted is at the end.
func TestEnd(t *testing.T) {
	c, dir := collect(t), t.TempDir()
	w := auditconfig.NewWebhook()
	w.ConfigFile = filepath.Join(dir, "webhook.conf")
	write(t, w.ConfigFile, c.config(t, dir))
	a, err := auditconfig.Open(auditconfig.Options{Policy: audit.Everything(auditv1.LevelMetadata), Webhook: w})
	if err != nil {
		t.Fatal(err)
	}
	_, end := start(t, a)
	pass(a.Log(), "/one")
	end()
	if !slices.Equal(c.got(), []string{"/one"}) {
		t.Errorf("posted %v", c.got())
	}
}

// TestModes: whether a request fails that cannot be recorded.
func TestModes(t *testing.T) {
	for mode, refused := range map[string]bool{"batch": false, "blocking": false, "blocking-strict": true} {
		for _, beside := range []audit.Sink{nil, &audit.Memory{}} {
			c, dir := collect(t), t.TempDir()
			c.fail = true
			w := auditconfig.NewWebhook()
			w.ConfigFile, w.Mode, w.InitialBackoff = filepath.Join(dir, "webhook.conf"), mode, 0
			write(t, w.ConfigFile, c.config(t, dir))
			a, err := auditconfig.Open(auditconfig.Options{Policy: audit.Everything(auditv1.LevelMetadata), Webhook: w, Sink: beside})
			if err != nil {
				t.Fatal(err)
			}
			_, end := start(t, a)
			r := a.Log().Open()
			r.Begin(&audit.Request{HTTP: httptest.NewRequest(http.MethodGet, "/", nil)})
			if err := r.Received(); errors.Is(err, audit.ErrNotStored) != refused {
				t.Errorf("%s: %v", mode, err)
			}
			end()
			if got := a.Log().Stats(); got.Plugins["webhook"] != 1 || got.Failures != 0 || (got.Rejected == 1) != refused {
				t.Errorf("%s: %+v", mode, got)
			}
		}
	}
}

// TestFileOnly: there need not be a webhook.
func TestFileOnly(t *testing.T) {
	memory := &audit.Memory{}
	a, err := auditconfig.Open(auditconfig.Options{Policy: audit.Everything(auditv1.LevelMetadata), Sink: memory, Audit: audit.Options{Strangers: audit.Budget{Bytes: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	m, end := start(t, a)
	pass(a.Log(), "/one")
	for range 2 {
		r := a.Log().Open()
		r.Begin(&audit.Request{HTTP: httptest.NewRequest(http.MethodGet, "/", nil)})
		r.Completed()
	}
	end()
	if got := memory.Events(); len(m.Collectors()) != 0 || len(got) != 3 || got[2].Annotations["audit.keelson.dev/left-out"] == "" {
		t.Errorf("%d metrics, %+v", len(m.Collectors()), got)
	}
}

// TestOpen: what is refused, and in which words.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	bad, empty := filepath.Join(dir, "bad.yaml"), filepath.Join(dir, "empty.yaml")
	write(t, bad, policy("Everything"))
	write(t, empty, "apiVersion: v1\nkind: Config\n")
	good := audit.Everything(auditv1.LevelMetadata)
	with := func(change func(w *auditconfig.Webhook)) auditconfig.Options {
		w := auditconfig.NewWebhook()
		w.ConfigFile = empty
		change(&w)
		return auditconfig.Options{Policy: good, Webhook: w}
	}
	for want, o := range map[string]auditconfig.Options{
		"audit events go nowhere":  {Policy: good},
		"there is no audit policy": {Sink: &audit.Memory{}},
		"no such file":             {PolicyFile: filepath.Join(dir, "none"), Sink: &audit.Memory{}},
		bad + ": invalid audit policy: rules[0].level: Unsupported value":                  {PolicyFile: bad, Sink: &audit.Memory{}},
		"no API server is configured":                                                      with(func(*auditconfig.Webhook) {}),
		"stat " + filepath.Join(dir, "none"):                                               with(func(w *auditconfig.Webhook) { w.ConfigFile = filepath.Join(dir, "none") }),
		`invalid audit webhook mode x, allowed modes are "batch,blocking,blocking-strict"`: with(func(w *auditconfig.Webhook) { w.Mode = "x" }),
		`invalid group version, allowed versions are ["audit.k8s.io/v1"]`:                  with(func(w *auditconfig.Webhook) { w.Version = "audit.k8s.io/v1beta1" }),
		"invalid audit batch webhook buffer size 0, must be a positive number":             with(func(w *auditconfig.Webhook) { w.Batch.BufferSize = 0 }),
		"invalid audit batch webhook max batch size -1, must be a positive number":         with(func(w *auditconfig.Webhook) { w.Batch.MaxSize = -1 }),
		"invalid audit batch webhook throttle QPS 0, must be a positive number":            with(func(w *auditconfig.Webhook) { w.Batch.ThrottleQPS = 0 }),
		"invalid audit batch webhook throttle burst 0, must be a positive number":          with(func(w *auditconfig.Webhook) { w.Batch.ThrottleBurst = 0 }),
		"invalid audit truncate webhook max event size 0, must be a positive number":       with(func(w *auditconfig.Webhook) { w.Truncate.MaxEventSize = 0 }),
		"invalid audit truncate webhook max batch size 1, must be greater than max event size (102400)": with(func(w *auditconfig.Webhook) {
			w.Truncate.MaxBatchSize = 1
		}),
	} {
		if _, err := auditconfig.Open(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := auditconfig.Open(auditconfig.Options{PolicyFile: bad}); !errors.Is(err, audit.ErrPolicy) {
		t.Error(err)
	}
	// What is not used is not validated.
	w := auditconfig.NewWebhook()
	w.ConfigFile, w.Mode, w.Batch = empty, "blocking", auditconfig.Batch{}
	if err := w.Validate(); err != nil {
		t.Error(err)
	}
	w.Mode, w.Batch = "batch", auditconfig.Batch{BufferSize: 1, MaxSize: 1}
	if err := w.Validate(); err != nil {
		t.Error(err)
	}
	if err := (&auditconfig.Webhook{}).Validate(); err != nil {
		t.Error(err)
	}
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
