package apiserver_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/internal/transcript"
)

// To record testdata/audit/levels.json anew, start upstream's API server with the policy beside
// it, --audit-log-path and the users of TestUpstream as tokens, and name both here.
var (
	upstreamHost = flag.String("upstream", "", "address of an API server of upstream whose audit log is to be recorded")
	upstreamLog  = flag.String("upstream-log", "", "its audit log")
)

const auditTable = "testdata/audit/levels"

// TestAuditUpstream holds the events of many requests, at all levels and stages, to those that the
// API server of Kubernetes 1.36.1 wrote.
func TestAuditUpstream(t *testing.T) {
	if *upstreamHost != "" {
		recordAudit(t)
	}
	data, err := os.ReadFile(auditTable + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string][]any
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	var got map[string][]any
	synctest.Test(t, func(t *testing.T) { got = auditedHere(t) })
	const (
		security = "pod security is not judged yet"
		yaml     = "Kubernetes 1.36 fails to write the event of a patch in YAML; 1.37 does, as here"
		options  = "says which options they were, not upstream's internal version of them"
	)
	intended := map[string]string{
		"metadata-pod": security, "request-pod": security, "full-pod": security,
		"request-delete-with-options": options, "full-delete-with-options": options,
		"full-applied": yaml,
	}
	for _, step := range auditSteps(t) {
		diff := cmp.Diff(want[step], got[step])
		reason, expected := intended[step]
		switch {
		case diff != "" && !expected:
			t.Errorf("%s (-upstream +keelson):\n%s", step, diff)
		case diff == "" && expected:
			t.Errorf("%s: recorded as upstream does, but listed as different: %s", step, reason)
		}
	}
}

// auditedHere plays the table and returns its events by Audit-Id.
func auditedHere(t *testing.T) map[string][]any {
	data, err := os.ReadFile("testdata/audit/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	policy, err := audit.ParsePolicy(data)
	if err != nil {
		t.Fatal(err)
	}
	sink := &audit.Memory{}
	c := startForUsers(t, cluster.Server{Telemetry: cluster.Telemetry{Audit: audit.New(policy, sink, audit.Options{})}})
	play(t, c.Anonymous().Transport, c.Anonymous().Host)
	var log bytes.Buffer
	for _, e := range sink.Events() {
		if err := json.NewEncoder(&log).Encode(e); err != nil {
			t.Fatal(err)
		}
	}
	return readEvents(t, &log)
}

func play(t *testing.T, transport http.RoundTripper, host string) {
	t.Helper()
	if _, err := transcript.PlayFile(t.Context(), transcript.NewPlayer(transport, host, "admin"), auditTable+".http"); err != nil {
		t.Fatal(err)
	}
}

func recordAudit(t *testing.T) {
	play(t, &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, *upstreamHost) // on loopback
	file, err := os.Open(*upstreamLog)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	data, err := json.MarshalIndent(readEvents(t, file), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(auditTable+".json", append(data, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// auditSteps are the Audit-Ids of the table.
func auditSteps(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(auditTable + ".http")
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, line := range strings.Split(string(data), "\n") {
		if id, ok := strings.CutPrefix(line, "Audit-Id: "); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// readEvents reads an audit log into its events by Audit-Id, without what differs in every run.
func readEvents(t *testing.T, log interface{ Read([]byte) (int, error) }) map[string][]any {
	t.Helper()
	steps := auditSteps(t)
	events := map[string][]any{}
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e map[string]any
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		id := e["auditID"].(string)
		if !slices.Contains(steps, id) {
			continue
		}
		delete(e, "sourceIPs") // in process there are none
		events[id] = append(events[id], maskEvent(e))
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return events
}

var generatedName = regexp.MustCompile(`^g-[a-z0-9]{5}$`)

func maskEvent(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			text, _ := value.(string)
			switch {
			case strings.HasSuffix(key, "Timestamp") && text != "":
				v[key] = "<time>"
			case key == "uid" && len(text) == 36:
				v[key] = "<uid>"
			case key == "resourceVersion" && text != "":
				v[key] = "<revision>"
			case generatedName.MatchString(text):
				v[key] = "g-<suffix>"
			default:
				v[key] = maskEvent(value)
			}
		}
	case []any:
		for i := range v {
			v[i] = maskEvent(v[i])
		}
	}
	return v
}

// TestStrictAudit: what cannot be recorded is not done, where the log is strict about it.
func TestStrictAudit(t *testing.T) {
	full := audit.SinkFunc(func(*auditv1.Event) error { return errors.New("disk full") })
	done := false
	s := newServer(t, apiserver.Options{
		Audit: audit.New(audit.Everything(auditv1.LevelMetadata), full, audit.Options{Strict: true}),
		Paths: map[string]http.Handler{"/do": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { done = true })},
	})
	w := call(s, "ann", "POST", "/do")
	if want := "Internal Server Error: \"/do\": failed to store audit event\n"; w.Code != http.StatusInternalServerError || w.Body.String() != want || done {
		t.Errorf("%d %q, done: %v", w.Code, w.Body, done)
	}
}
