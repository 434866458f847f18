package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/server"
)

// alone serves one pod with a container c0 of the given status; everybody is an administrator.
func alone(r server.Runtime, status corev1.ContainerStatus, o server.Options) *server.Server {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "ns", "p", "p-uid"
	pod.Spec.Containers = []corev1.Container{{Name: "c0"}}
	status.Name = "c0"
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	return server.New(pods{pod}, r, o)
}

func get(t *testing.T, s *server.Server, path, query string) *httptest.ResponseRecorder {
	t.Helper()
	r, ok := asking(t.Context(), http.MethodGet, path, query)
	if !ok {
		t.Fatalf("%s?%s cannot be asked", path, query)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func logOfLines(t *testing.T, lines ...string) *runtime {
	t.Helper()
	log := filepath.Join(t.TempDir(), "0.log")
	if err := os.WriteFile(log, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	return &runtime{containers: []cri.ContainerStatus{container("a", "p", "c0", cri.ContainerRunning, log)}}
}

// TestFollowedContainers: a log is followed while its container runs or its state is unknown, and ends without error
// when it is removed.
func TestFollowedContainers(t *testing.T) {
	for name, test := range map[string]struct {
		told []error // of the container's status, the first for the request itself
		logs string
	}{
		"removed": {told: []error{nil, cri.ErrNotFound}},
		"runtime unavailable, then container removed": {told: []error{nil, fmt.Errorf("asking: %w", cri.ErrUnavailable), fmt.Errorf("asking: %w", cri.ErrNotFound)}},
		"another error":              {told: []error{nil, errors.New("broken")}, logs: "log broke off"},
		"unknown from the beginning": {told: []error{cri.ErrNotFound}, logs: "a container whose log was requested has no status"},
	} {
		t.Run(name, func(t *testing.T) {
			r := logOfLines(t, "2026-01-02T03:04:05Z stdout F one\n")
			asked := 0
			r.status = func() error { asked++; return test.told[asked-1] }
			var log strings.Builder
			o := trusting()
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			w := get(t, alone(r, running("a"), o), "/containerLogs/ns/p/c0", "follow=true")
			if asked != len(test.told) || (len(test.told) > 1) != (w.Code == http.StatusOK && w.Body.String() == "one\n") {
				t.Errorf("%d %q, asked %d times", w.Code, w.Body, asked)
			}
			if got := log.String(); (got != "") != (test.logs != "") || !strings.Contains(got, test.logs) {
				t.Errorf("logged %s", got)
			}
		})
	}
}

// TestSinceSeconds: the time goes back from now in seconds.
func TestSinceSeconds(t *testing.T) {
	var lines []string
	for _, ago := range []time.Duration{time.Hour, 5 * time.Minute, 30 * time.Second} {
		lines = append(lines, time.Now().Add(-ago).UTC().Format(time.RFC3339Nano)+" stdout F "+ago.String()+"\n")
	}
	s := alone(logOfLines(t, lines...), running("a"), trusting())
	for seconds, want := range map[int]string{10: "", 100: "30s\n", 1000: "5m0s\n30s\n", 10000: "1h0m0s\n5m0s\n30s\n"} {
		if w := get(t, s, "/containerLogs/ns/p/c0", fmt.Sprint("sinceSeconds=", seconds)); w.Code != http.StatusOK || w.Body.String() != want {
			t.Errorf("%d seconds: %d %q", seconds, w.Code, w.Body)
		}
	}
}

// TestNoLog: the answer for a container without a log depends on its status.
func TestNoLog(t *testing.T) {
	over := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	waiting := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	for want, status := range map[string]corev1.ContainerStatus{
		`container "c0" in pod "p" is terminated`:                                         {State: over},
		`container "c0" in pod "p" is terminated `:                                        {State: waiting("CrashLoopBackOff"), LastTerminationState: over},
		`container "c0" in pod "p" is waiting to start - no logs yet`:                     {},
		`container "c0" in pod "p" is waiting to start: ContainerCreating`:                {State: waiting("ContainerCreating")},
		`container "c0" in pod "p" is waiting to start: image can't be pulled`:            {State: waiting("ErrImagePull")},
		`container "c0" in pod "p" is waiting to start: trying and failing to pull image`: {State: waiting("ImagePullBackOff")},
	} {
		w := get(t, alone(&runtime{}, status, trusting()), "/containerLogs/ns/p/c0", "")
		if w.Code != http.StatusBadRequest || w.Body.String() != strings.TrimSuffix(want, " ") {
			t.Errorf("%d %q, not %q", w.Code, w.Body, want)
		}
	}
}

// plain is a runtime without streaming.
type plain struct{ server.Runtime }

func TestRuntimeThatDoesNotStream(t *testing.T) {
	s := alone(plain{logOfLines(t)}, running("a"), trusting())
	r, _ := asking(t.Context(), http.MethodGet, "/exec/ns/p/c0", "output=1&command=x")
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "SPDY/3.1")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if want := "streams: " + cri.ErrUnsupported.Error(); w.Code != http.StatusInternalServerError || w.Body.String() != want {
		t.Errorf("%d %q, not %q", w.Code, w.Body, want)
	}
}

// TestContainersOfNoPod: a container of the runtime that the pod does not name has no streams to attach to.
func TestContainersOfNoPod(t *testing.T) {
	r := logOfLines(t)
	r.containers = append(r.containers, container("b", "p", "former", cri.ContainerRunning, ""))
	request, _ := asking(t.Context(), http.MethodPost, "/attach/ns/p/former", "output=1")
	w := httptest.NewRecorder()
	alone(r, running("a"), trusting()).ServeHTTP(w, request)
	if want := "container former not found in pod p_ns"; w.Code != http.StatusInternalServerError || w.Body.String() != want {
		t.Errorf("%d %q, not %q", w.Code, w.Body, want)
	}
}

// TestNoDirectoryOfLogs: where there is no directory of logs, there are none.
func TestNoDirectoryOfLogs(t *testing.T) {
	o := trusting()
	o.LogDir = filepath.Join(t.TempDir(), "none")
	if w := get(t, alone(logOfLines(t), running("a"), o), "/logs/syslog", ""); w.Code != http.StatusNotFound {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

// keeper is a runtime that keeps logs itself.
type keeper struct {
	*runtime
	lines []cri.LogLine
	err   error // of opening one

	broken error // of following it
}

func (k *keeper) OpenLog(context.Context, string) (cri.Log, error) { return k, k.err }

func (k *keeper) Next() []cri.LogLine {
	lines := k.lines
	k.lines = nil
	return lines
}

func (k *keeper) Wait(context.Context) (bool, error) { return false, k.broken }

// TestKeptLog: the log of a runtime that keeps it is not looked for in files.
func TestKeptLog(t *testing.T) {
	k := &keeper{runtime: logOfLines(t, "2026-01-02T03:04:05Z stdout F from a file\n"), lines: []cri.LogLine{{Text: "one"}, {Text: "two", Stderr: true}}}
	if w := get(t, alone(k, running("a"), trusting()), "/containerLogs/ns/p/c0", "stream=Stderr&follow=true"); w.Code != http.StatusOK || w.Body.String() != "two\n" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	k.broken = errors.New("the runtime is gone")
	var log strings.Builder
	o := trusting()
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	get(t, alone(k, running("a"), o), "/containerLogs/ns/p/c0", "follow=true")
	if !strings.Contains(log.String(), "log broke off") || !strings.Contains(log.String(), "the runtime is gone") {
		t.Errorf("logged %s", &log)
	}
	k.err = cri.ErrNotFound
	if w := get(t, alone(k, running("a"), trusting()), "/containerLogs/ns/p/c0", ""); w.Code != http.StatusBadRequest {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

// TestStreamsInProcess: a handler in this process is asked for what the runtime names.
func TestStreamsInProcess(t *testing.T) {
	r := logOfLines(t)
	r.at = "http://nowhere.example/token?x=y"
	o := trusting()
	o.Streams = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = fmt.Fprintf(w, "%s %s %s %s %q", r.Method, r.URL, r.RequestURI, r.Header.Get("Upgrade"), r.Header.Get("Authorization"))
	})
	s := alone(r, running("a"), o)
	ask := func() (int, string) {
		request, _ := asking(t.Context(), http.MethodPost, "/exec/ns/p/c0", "output=1&command=x")
		request.Header.Set("Connection", "Upgrade")
		request.Header.Set("Upgrade", "SPDY/3.1")
		request.Header.Set("Authorization", "Bearer secret")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, request)
		return w.Code, w.Body.String()
	}
	if code, got := ask(); code != http.StatusTeapot || got != `POST http://nowhere.example/token?x=y /token?x=y SPDY/3.1 ""` {
		t.Errorf("%d %s", code, got)
	}
	r.at = "\x00"
	if code, got := ask(); code != http.StatusInternalServerError || !strings.Contains(got, "names no URL") {
		t.Errorf("%d %s", code, got)
	}
}
