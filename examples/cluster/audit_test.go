package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/keelson-dev/keelson/cluster/auditconfig"
)

// TestAuditWebhookFlags: each flag has upstream's default and sets its value.
func TestAuditWebhookFlags(t *testing.T) {
	s, err := parse([]string{"--data-dir", "/d"}, noEnvironment, io.Discard)
	if err != nil || s.auditing.webhook != auditconfig.NewWebhook() {
		t.Errorf("%+v, %v", s.auditing.webhook, err)
	}
	s, err = parse(strings.Fields("--data-dir /d --audit-policy-file /p --audit-webhook-config-file /w --audit-webhook-mode blocking --audit-webhook-version audit.k8s.io/v1 "+
		"--audit-webhook-initial-backoff 1s --audit-webhook-batch-buffer-size 2 --audit-webhook-batch-max-size 3 --audit-webhook-batch-max-wait 4s "+
		"--audit-webhook-batch-throttle-enable=false --audit-webhook-batch-throttle-qps 5.5 --audit-webhook-batch-throttle-burst 6 "+
		"--audit-webhook-truncate-enabled --audit-webhook-truncate-max-batch-size 8 --audit-webhook-truncate-max-event-size 7"), noEnvironment, io.Discard)
	want := auditconfig.Webhook{
		ConfigFile: "/w", Mode: "blocking", Version: "audit.k8s.io/v1", InitialBackoff: time.Second,
		Batch:    auditconfig.Batch{BufferSize: 2, MaxSize: 3, MaxWait: 4 * time.Second, ThrottleQPS: 5.5, ThrottleBurst: 6},
		Truncate: auditconfig.Truncate{Enabled: true, MaxBatchSize: 8, MaxEventSize: 7},
	}
	if diff := cmp.Diff(want, s.auditing.webhook); diff != "" || err != nil || s.auditing.policy != "/p" {
		t.Error(diff, err)
	}
	for args, want := range map[string]string{
		"--audit-webhook-mode blocking":                                   "--audit-webhook-mode: there is no audit webhook: add --audit-webhook-config-file",
		"--audit-webhook-config-file /w --audit-webhook-mode x":           `invalid audit webhook mode x, allowed modes are "batch,blocking,blocking-strict"`,
		"--audit-webhook-config-file /w --audit-webhook-version v1":       "invalid group version",
		"--audit-webhook-config-file /w --audit-webhook-batch-max-size 0": "invalid audit batch webhook max batch size 0",
	} {
		if _, err := parse(append([]string{"--data-dir", "/d"}, strings.Fields(args)...), noEnvironment, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// TestAuditWebhook: the webhook gets the events that are in the log, also those of the end, by the policy that is in force.
func TestAuditWebhook(t *testing.T) {
	p, dir := program(t), filepath.Join(t.TempDir(), "data")
	var mu sync.Mutex
	posted := map[string]int{}
	collector := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var list auditv1.EventList
		if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for i := range list.Items {
			posted[key(&list.Items[i])]++
		}
	}))
	defer collector.Close()
	files := t.TempDir()
	authority, config, policy := filepath.Join(files, "ca.crt"), filepath.Join(files, "webhook.conf"), filepath.Join(files, "policy.yaml")
	write(t, authority, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: collector.Certificate().Raw})))
	write(t, config, fmt.Sprintf("{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: %q, certificate-authority: %q}}], contexts: [{name: x, context: {cluster: c}}], current-context: x}", collector.URL, authority))
	write(t, policy, "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Request, users: [kubernetes-admin]}, {level: Metadata}]}")
	process := started(t, p, dir, "--storage", "memory", "--audit-policy-file", policy, "--audit-webhook-config-file", config)
	_, api := clients(t, process)
	if _, err := api.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	metrics, err := api.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil || !strings.Contains(string(metrics), `apiserver_audit_policy_config_controller_last_config_info`) || !strings.Contains(string(metrics), `apiserver_audit_webhook_config_controller_last_config_info`) {
		t.Errorf("the metrics do not tell of the files: %v", err)
	}
	if err := process.Interrupt(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	logged, levels := map[string]int{}, map[auditv1.Level]int{}
	for line := range strings.Lines(string(text)) {
		var e auditv1.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		logged[key(&e)]++
		levels[e.Level]++
	}
	mu.Lock()
	defer mu.Unlock()
	if !maps.Equal(logged, posted) {
		t.Errorf("the log and the webhook differ:\n%s", cmp.Diff(logged, posted))
	}
	if levels[auditv1.LevelRequest] == 0 || levels[auditv1.LevelMetadata] == 0 || !slices.ContainsFunc(slices.Collect(maps.Keys(logged)), func(k string) bool { return strings.HasSuffix(k, "/configmaps") }) {
		t.Errorf("the log has %v of %v", levels, logged)
	}
}

func key(e *auditv1.Event) string {
	return string(e.AuditID) + " " + string(e.Stage) + " " + e.RequestURI
}
