package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/kubelet/server"
)

// typed sends a request as the administrator and also returns the content type of the response.
func (n *node) typed(t *testing.T, path string) (code int, contentType, text string) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: n.tls(t, "admin")}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+n.address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header.Get("Content-Type"), string(data)
}

// A summary is served whole, or with only CPU and memory, whatever else is in it.
func TestSummaryOfCPUAndMemory(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	container := func(name string) statsv1alpha1.ContainerStats {
		return statsv1alpha1.ContainerStats{
			Name: name, StartTime: at, CPU: &statsv1alpha1.CPUStats{Time: at}, Memory: &statsv1alpha1.MemoryStats{Time: at},
			Rootfs: &statsv1alpha1.FsStats{Time: at}, Logs: &statsv1alpha1.FsStats{Time: at}, Swap: &statsv1alpha1.SwapStats{Time: at},
		}
	}
	bare := func(name string) statsv1alpha1.ContainerStats {
		c := container(name)
		c.Rootfs, c.Logs, c.Swap = nil, nil, nil
		return c
	}
	all := statsv1alpha1.Summary{
		Node: statsv1alpha1.NodeStats{
			NodeName: "node", StartTime: at, CPU: &statsv1alpha1.CPUStats{Time: at}, Memory: &statsv1alpha1.MemoryStats{Time: at}, Fs: &statsv1alpha1.FsStats{Time: at},
			Network: &statsv1alpha1.NetworkStats{Time: at}, Rlimit: &statsv1alpha1.RlimitStats{Time: at},
			SystemContainers: []statsv1alpha1.ContainerStats{container("pods"), container("kubelet")},
		},
		Pods: []statsv1alpha1.PodStats{{
			PodRef: statsv1alpha1.PodReference{Name: "p", Namespace: "ns", UID: "u"}, StartTime: at, CPU: &statsv1alpha1.CPUStats{Time: at},
			Memory: &statsv1alpha1.MemoryStats{Time: at}, Network: &statsv1alpha1.NetworkStats{Time: at}, EphemeralStorage: &statsv1alpha1.FsStats{Time: at},
			Containers: []statsv1alpha1.ContainerStats{container("a"), container("b")},
		}},
	}
	some := statsv1alpha1.Summary{
		Node: statsv1alpha1.NodeStats{
			NodeName: "node", StartTime: at, CPU: all.Node.CPU, Memory: all.Node.Memory, SystemContainers: []statsv1alpha1.ContainerStats{bare("pods"), bare("kubelet")},
		},
		Pods: []statsv1alpha1.PodStats{{
			PodRef: all.Pods[0].PodRef, StartTime: at, CPU: all.Pods[0].CPU, Memory: all.Pods[0].Memory, Containers: []statsv1alpha1.ContainerStats{bare("a"), bare("b")},
		}},
	}
	var failed error
	n := start(t, func(o *server.Options) {
		o.Summary = func(context.Context) (statsv1alpha1.Summary, error) { return all, failed }
	})
	canonical := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for query, want := range map[string]statsv1alpha1.Summary{"": all, "?only_cpu_and_memory=true": some, "?only_cpu_and_memory=false": all} {
		code, kind, text := n.typed(t, "/stats/summary"+query)
		if code != http.StatusOK || kind != "application/json" || !reflect.DeepEqual(text, canonical(want)) {
			t.Errorf("%q: %d %s %s", query, code, kind, text)
		}
	}
	failed = errors.New("the runtime is gone")
	if code, _, text := n.typed(t, "/stats/summary"); code != http.StatusInternalServerError || text != "Internal Error: the runtime is gone\n" {
		t.Errorf("%d %q", code, text)
	}
}

// Errors of the runtime have responses of their own.
func TestRuntimeThatIsGone(t *testing.T) {
	n := start(t, nil)
	n.err = errors.New("<html>the runtime is gone")
	for _, c := range []struct{ method, path string }{
		{"GET", "/runningpods/"}, {"POST", "/run/ns/p/c0?cmd=true"}, {"POST", "/exec/ns/p/c0?output=1"}, {"POST", "/attach/ns/p/c0?output=1"}, {"POST", "/portForward/ns/p"},
	} {
		if code, text := n.ask(t, "admin", c.method, c.path); code != http.StatusInternalServerError || !strings.Contains(text, "the runtime is gone") {
			t.Errorf("%s %s: %d %q", c.method, c.path, code, text)
		}
	}
	if code, kind, text := n.typed(t, "/runningpods/"); kind != "text/plain; charset=utf-8" || code != http.StatusInternalServerError || text != "<html>the runtime is gone" {
		t.Errorf("%d %s %q", code, kind, text)
	}
}

// The pod's status determines whose log is served.
func TestWhoseLog(t *testing.T) {
	n := start(t, nil)
	for path, want := range map[string]string{
		"/containerLogs/ns/ended/c4":               "one\ntwo\n", // it runs again
		"/containerLogs/ns/ended/c4?previous=true": "before\n",
		"/containerLogs/ns/ended/c0":               "before\n",
	} {
		if code, _, text := n.typed(t, path); code != http.StatusOK || text != want {
			t.Errorf("%s: %d %q", path, code, text)
		}
	}
	for query, code := range map[string]int{
		"sinceSeconds=0": 422, "limitBytes=0": 422, "sinceSeconds=1&sinceTime=2026-01-02T03:04:06Z": 422, "tailLines=0": 200, "limitBytes=1": 200,
		"sinceTime=x": 400, "limitBytes=x": 400, "sinceSeconds=x": 400, "stream=All": 200, "stream=": 422, "follow=false": 200,
	} {
		if got, text := n.ask(t, "admin", http.MethodGet, "/containerLogs/ns/p/c0?"+query); got != code {
			t.Errorf("%s: %d %q, not %d", query, got, text, code)
		}
	}
}

// A missing log is answered like upstream.
func TestLogThatIsGone(t *testing.T) {
	n := start(t, nil)
	n.containers[0].LogPath = "/nowhere/0.log"
	code, text := n.ask(t, "admin", http.MethodGet, "/containerLogs/ns/p/c0")
	if code != http.StatusBadRequest || !strings.HasPrefix(text, `failed to try resolving symlinks in path "/nowhere/0.log": `) {
		t.Errorf("%d %q", code, text)
	}
}
