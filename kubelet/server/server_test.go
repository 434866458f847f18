package server_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/x509"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/internal/leaktest"
	"github.com/keelson-dev/keelson/kubelet/server"
	"github.com/keelson-dev/keelson/pki"
)

func TestMain(m *testing.M) { leaktest.VerifyTestMain(m) }

// pods is a fixed list of pods.
type pods []*corev1.Pod

func (p pods) Pods() []*corev1.Pod { return p }

func (p pods) Pod(namespace, name string) (*corev1.Pod, bool) {
	i := slices.IndexFunc(p, func(pod *corev1.Pod) bool { return pod.Namespace == namespace && pod.Name == name })
	if i < 0 {
		return nil, false
	}
	return p[i], true
}

// runtime has fixed containers, and streams at a URL.
type runtime struct {
	containers []cri.ContainerStatus
	sandboxes  []cri.Sandbox
	at         string
	err        error
	status     func() error // called for a container's status, if set

	mu    sync.Mutex
	asked []string // streams
}

func selected(all, want map[string]string) bool {
	for k, v := range want {
		if all[k] != v {
			return false
		}
	}
	return true
}

func (r *runtime) SandboxStatus(context.Context, string) (cri.SandboxStatus, error) {
	return cri.SandboxStatus{}, cri.ErrNotFound
}

func (r *runtime) ListSandboxes(_ context.Context, f cri.Filter) ([]cri.Sandbox, error) {
	var all []cri.Sandbox
	for _, s := range r.sandboxes {
		if selected(s.Labels, f.Labels) {
			all = append(all, s)
		}
	}
	return all, r.err
}

func (r *runtime) ContainerStatus(_ context.Context, id string) (cri.ContainerStatus, error) {
	if r.status != nil {
		if err := r.status(); err != nil {
			return cri.ContainerStatus{}, err
		}
	}
	for _, c := range r.containers {
		if c.ID == id {
			return c, nil
		}
	}
	return cri.ContainerStatus{}, cri.ErrNotFound
}

func (r *runtime) ListContainers(_ context.Context, f cri.Filter) ([]cri.Container, error) {
	var all []cri.Container
	for _, c := range r.containers {
		if selected(c.Labels, f.Labels) {
			all = append(all, c.Container)
		}
	}
	return all, r.err
}

func (r *runtime) ExecSync(_ context.Context, id string, command []string, _ time.Duration) (cri.ExecResult, error) {
	if command[0] == "false" {
		return cri.ExecResult{ExitCode: 1, Stderr: []byte("no")}, nil
	}
	return cri.ExecResult{Stdout: fmt.Appendf(nil, "%s %q", id, command)}, nil
}

func (r *runtime) stream(format string, args ...any) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, fmt.Sprintf(format, args...))
	return r.at, r.err
}

func (r *runtime) Exec(_ context.Context, q cri.ExecRequest) (string, error) {
	return r.stream("exec %s %q %v", q.ContainerID, q.Command, q.Streams)
}

func (r *runtime) Attach(_ context.Context, q cri.AttachRequest) (string, error) {
	return r.stream("attach %s %v", q.ContainerID, q.Streams)
}

func (r *runtime) PortForward(_ context.Context, sandbox string, ports []int32) (string, error) {
	return r.stream("forward %s %v", sandbox, ports)
}

// node is a kubelet's server over TLS.
type node struct {
	*runtime
	address string
	ca      *pki.Authority
	log     string
	stop    func()
}

func labels(pod, container string) map[string]string {
	return map[string]string{
		cri.LabelPodUID: pod + "-uid", cri.LabelPodName: pod, cri.LabelPodNamespace: "ns", cri.LabelContainerName: container,
	}
}

func container(id, pod, name string, state cri.ContainerState, log string) cri.ContainerStatus {
	return cri.ContainerStatus{Container: cri.Container{ID: id, State: state, Labels: labels(pod, name), Image: cri.ImageSpec{Image: "image"}}, LogPath: log}
}

func running(id string) corev1.ContainerStatus {
	return corev1.ContainerStatus{ContainerID: "test://" + id, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

// examples are pods in various states.
func examples() pods {
	pod := func(name string, statuses ...corev1.ContainerStatus) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name + "-uid")}}
		for i, s := range statuses {
			c := fmt.Sprintf("c%d", i)
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: c, TTY: i == 1})
			s.Name = c
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, s)
		}
		return p
	}
	waiting := func(reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
	}
	ended := func(id string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: id}}
	}
	all := pods{
		pod("p", running("a"), running("t")),
		pod("waiting", waiting("ErrImagePull"), waiting("ImagePullBackOff"), waiting("ContainerCreating"), corev1.ContainerStatus{}),
		pod("ended", corev1.ContainerStatus{State: ended("test://b")}, corev1.ContainerStatus{State: ended(""), LastTerminationState: ended("test://b")},
			corev1.ContainerStatus{State: ended("")}, corev1.ContainerStatus{State: waiting("CrashLoopBackOff").State, LastTerminationState: ended("test://b")},
			corev1.ContainerStatus{State: running("a").State, ContainerID: "test://a", LastTerminationState: ended("test://b")}, running("none")),
		pod("mirror", running("m")),
	}
	all[3].UID, all[3].Annotations = "of-the-mirror", map[string]string{corev1.MirrorPodAnnotationKey: "mirror-uid"}
	all[0].Spec.InitContainers = []corev1.Container{{Name: "init"}}
	all[0].Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
	return all
}

func start(t *testing.T, change func(*server.Options)) *node {
	t.Helper()
	dir := t.TempDir()
	n := &node{log: filepath.Join(dir, "a.log")}
	const day = "2026-01-02T03:04:"
	text := day + "05Z stdout F one\n" + day + "06Z stderr F two\n"
	for path, data := range map[string]string{n.log: text, filepath.Join(dir, "b.log"): day + "01Z stdout F before\n", filepath.Join(dir, "syslog"): "a line\n"} {
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"escape": "/etc/hostname", "away": "..", "again": "syslog"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	n.runtime = &runtime{
		containers: []cri.ContainerStatus{
			container("a", "p", "c0", cri.ContainerRunning, n.log), container("t", "p", "c1", cri.ContainerRunning, n.log),
			container("b", "ended", "c0", cri.ContainerExited, filepath.Join(dir, "b.log")), container("m", "mirror", "c0", cri.ContainerRunning, n.log),
		},
		sandboxes: []cri.Sandbox{
			{ID: "old", State: cri.SandboxNotReady, Labels: labels("p", "")}, {ID: "new", State: cri.SandboxReady, Labels: labels("p", "")},
			{ID: "dead", State: cri.SandboxNotReady, Labels: labels("ended", "")},
		},
	}
	var err error
	if n.ca, err = pki.New("test"); err != nil {
		t.Fatal(err)
	}
	o := server.Options{
		NodeName: "node", Authenticator: x509.New(x509.Static{Roots: n.ca.Pool()}), LogDir: dir, Config: map[string]int{"maxPods": 110},
		Authorizer: authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, error) {
			switch a.User.Name {
			case "admin":
				return authz.Decision{Verdict: authz.Allow}, nil
			case "unlucky":
				return authz.Decision{}, errors.New("the API server is away")
			}
			return authz.Decision{}, nil
		}),
		Summary: func(context.Context) (statsv1alpha1.Summary, error) {
			return statsv1alpha1.Summary{Node: statsv1alpha1.NodeStats{NodeName: "node", Fs: &statsv1alpha1.FsStats{}, CPU: &statsv1alpha1.CPUStats{}}}, nil
		},
		Metrics: server.Metrics{Resource: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "figures") })},
	}
	if change != nil {
		change(&o)
	}
	n.serve(t, server.New(examples(), n.runtime, o))
	return n
}

func (n *node) serve(t *testing.T, s *server.Server) {
	t.Helper()
	pair, err := n.ca.Issue(pki.Subject{Name: "system:node:node", Hosts: []string{"127.0.0.1"}}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, l, func() (*tls.Certificate, error) { return &certificate, nil }) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("the server does not end")
		}
	})
	t.Cleanup(n.stop)
}

// tls is the configuration of a client with a certificate of that name, or none.
func (n *node) tls(t *testing.T, user string) *tls.Config {
	t.Helper()
	config := &tls.Config{RootCAs: n.ca.Pool(), MinVersion: tls.VersionTLS12}
	if user == "" {
		return config
	}
	pair, err := n.ca.Issue(pki.Subject{Name: user}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	config.Certificates = []tls.Certificate{certificate}
	return config
}

func (n *node) ask(t *testing.T, user, method, path string) (code int, text string) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: n.tls(t, user)}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), method, "https://"+n.address+path, nil)
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
	return answer.StatusCode, string(data)
}

func TestAnswers(t *testing.T) {
	n := start(t, nil)
	const noContainer = "you must specify at least 1 of stdin, stdout, stderr"
	for _, c := range []struct {
		method, path string
		code         int
		want         string
	}{
		{"GET", "/healthz", 200, "ok"},
		{"GET", "/healthz/syncloop", 200, "ok"},
		{"GET", "/healthz/none", 404, "404 page not found\n"},
		{"GET", "/healthz?verbose", 200, "[+]ping ok\n[+]log ok\n[+]syncloop ok\nhealthz check passed\n"},
		{"GET", "/configz", 200, `{"kubeletconfig":{"maxPods":110}}`},
		{"GET", "/logs/syslog", 200, "a line\n"}, {"GET", "/logs/again", 200, "a line\n"}, {"GET", "/logs/none", 404, "404 page not found\n"},
		{"GET", "/logs/escape", 500, "500 Internal Server Error\n"}, {"GET", "/logs/away/", 500, "500 Internal Server Error\n"},
		{"GET", "/metrics/resource", 200, "figures"},
		{"GET", "/metrics", 404, "404 page not found\n"},
		{"GET", "/none", 404, "404 page not found\n"},
		{"DELETE", "/pods", 405, "Method Not Allowed\n"},

		{"GET", "/containerLogs/ns/p/c0", 200, "one\ntwo\n"},
		{"GET", "/containerLogs/ns/p/c0?stream=Stderr", 200, "two\n"},
		{"GET", "/containerLogs/ns/p/c0?stream=Stdout", 200, "one\n"},
		{"GET", "/containerLogs/ns/p/c0?tailLines=1&timestamps=true", 200, "2026-01-02T03:04:06.000000000Z two\n"},
		{"GET", "/containerLogs/ns/p/c0?tail=1", 200, "two\n"},
		{"GET", "/containerLogs/ns/p/c0?tail=all&limitBytes=2", 200, "on"},
		{"GET", "/containerLogs/ns/p/c0?sinceTime=2026-01-02T03:04:06Z", 200, "two\n"},
		{"GET", "/containerLogs/ns/p/c0?sinceSeconds=1", 200, ""},
		{"GET", "/containerLogs/ns/ended/c0?follow=true", 200, "before\n"},
		{"GET", "/containerLogs/ns/ended/c1", 200, "before\n"},
		{"GET", "/containerLogs/ns/ended/c2", 400, `container "c2" in pod "ended" is terminated`},
		{"GET", "/containerLogs/ns/ended/c3", 200, "before\n"},
		{"GET", "/containerLogs/ns/ended/c4?previous=true", 200, "before\n"},
		{"GET", "/containerLogs/ns/ended/c5", 400, "unable to retrieve container logs for test://none"},
		{"GET", "/containerLogs/ns/mirror/c0", 200, "one\ntwo\n"},
		{"GET", "/containerLogs/ns/p/c0?previous=true", 400, `previous terminated container "c0" in pod "p" not found`},
		{"GET", "/containerLogs/ns/p/init", 400, `container "init" in pod "p" is not available`},
		{"GET", "/containerLogs/ns/waiting/c0", 400, `container "c0" in pod "waiting" is waiting to start: image can't be pulled`},
		{"GET", "/containerLogs/ns/waiting/c1", 400, `container "c1" in pod "waiting" is waiting to start: trying and failing to pull image`},
		{"GET", "/containerLogs/ns/waiting/c2", 400, `container "c2" in pod "waiting" is waiting to start: ContainerCreating`},
		{"GET", "/containerLogs/ns/waiting/c3", 400, `container "c3" in pod "waiting" is waiting to start - no logs yet`},
		{"GET", "/containerLogs/ns/none/c0", 404, `pod "none" does not exist`},
		{"GET", "/containerLogs/ns/p/none", 404, `container "none" not found in pod "p"`},
		{"GET", "/containerLogs/ns/p/c0?tailLines=-1", 422, `{"message": "Invalid request."}`},
		{"GET", "/containerLogs/ns/p/c0?tailLines=1&stream=Stdout", 422, `{"message": "Invalid request."}`},
		{"GET", "/containerLogs/ns/p/c0?stream=x", 422, `{"message": "Invalid request."}`},
		{"GET", "/containerLogs/ns/p/c0?tailLines=x", 400, `{"message": "Unable to decode query."}`},

		{"POST", "/run/ns/p/c0?cmd=echo+hello", 200, `a ["echo" "hello"]`},
		{"POST", "/run/ns/p/p-uid/c0?cmd=true", 200, `a ["true"]`},
		{"POST", "/run/ns/p/other/c0?cmd=true", 500, `container not found ("c0")`},
		{"POST", "/run/ns/p/c0?cmd=false", 500, "command 'false' exited with 1: no"},
		{"POST", "/run/ns/none/c0?cmd=true", 404, "pod does not exist"},
		{"POST", "/exec/ns/p/c0", 400, noContainer},
		{"POST", "/exec/ns/none/c0?output=1", 404, "pod does not exist"},
		{"POST", "/exec/ns/ended/c0?output=1", 500, `container not found ("c0")`},
		{"POST", "/exec/ns/p/c0?output=1", 400, "Upgrade request required"},
		{"POST", "/attach/ns/p/c0", 400, noContainer},
		{"POST", "/attach/ns/ended/c0?output=1", 500, "container c0 not found in pod ended_ns"},
		{"POST", "/portForward/ns/none", 404, "pod does not exist"},
		{"POST", "/portForward/ns/p/other", 404, "pod not found"},
		{"POST", "/portForward/ns/ended", 500, `pod not found ("ended_ns")`},
	} {
		if code, text := n.ask(t, "admin", c.method, c.path); code != c.code || text != c.want {
			t.Errorf("%s %s: %d %q, want %d %q", c.method, c.path, code, text, c.code, c.want)
		}
	}
}

func TestPods(t *testing.T) {
	n := start(t, nil)
	for path, want := range map[string]string{"/pods": "p waiting ended mirror", "/pods/": "p waiting ended mirror", "/runningpods/": "p mirror"} {
		code, text := n.ask(t, "admin", http.MethodGet, path)
		var list corev1.PodList
		if err := json.Unmarshal([]byte(text), &list); err != nil || code != http.StatusOK || list.Kind != "PodList" || list.APIVersion != "v1" {
			t.Fatalf("%s: %d %s %v", path, code, text, err)
		}
		var names []string
		for _, pod := range list.Items {
			names = append(names, pod.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestSummary(t *testing.T) {
	n := start(t, nil)
	for query, want := range map[string]bool{"": true, "?only_cpu_and_memory=true": false} {
		code, text := n.ask(t, "admin", http.MethodGet, "/stats/summary"+query)
		var s statsv1alpha1.Summary
		if err := json.Unmarshal([]byte(text), &s); err != nil || code != http.StatusOK || s.Node.NodeName != "node" || s.Node.CPU == nil || (s.Node.Fs != nil) != want {
			t.Errorf("%q: %d %s %v", query, code, text, err)
		}
	}
}

func TestUnhealthy(t *testing.T) {
	n := start(t, func(o *server.Options) { o.Healthy = func(context.Context) error { return errors.New("stuck") } })
	want := "[+]ping ok\n[+]log ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n"
	if code, text := n.ask(t, "admin", http.MethodGet, "/healthz"); code != http.StatusInternalServerError || text != want {
		t.Errorf("%d %q", code, text)
	}
	if code, _ := n.ask(t, "admin", http.MethodGet, "/healthz/ping"); code != http.StatusOK {
		t.Errorf("ping: %d", code)
	}
}

// TestAccess: unauthenticated clients are refused everything, including health, and others what the authorizer does not
// allow.
func TestAccess(t *testing.T) {
	n := start(t, nil)
	for _, c := range []struct {
		user, path string
		code       int
		want       string
	}{
		{"", "/healthz", 401, "Unauthorized\n"},
		{"", "/pods", 401, "Unauthorized\n"},
		{"nobody", "/healthz", 403, "Forbidden (user=nobody, verb=get, resource=nodes, subresource(s)=[healthz proxy])\n\n"},
		{"nobody", "/containerLogs/ns/p/c0", 403, "Forbidden (user=nobody, verb=get, resource=nodes, subresource(s)=[proxy])\n\n"},
		{"unlucky", "/metrics", 500, "Authorization error (user=unlucky, verb=get, resource=nodes, subresource=metrics)\n"},
	} {
		if code, text := n.ask(t, c.user, http.MethodGet, c.path); code != c.code || text != c.want {
			t.Errorf("%q %s: %d %q, want %d %q", c.user, c.path, code, text, c.code, c.want)
		}
	}
	// Nothing is served without TLS.
	conn, err := net.Dial("tcp", n.address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && !strings.Contains(line, "400 Bad Request") {
		t.Errorf("an answer without TLS: %q", line)
	}
}

// TestAttributes checks the requests to the authorizer.
func TestAttributes(t *testing.T) {
	for _, c := range []struct{ method, path, verb, parts string }{
		{"GET", "/pods", "get", "pods proxy"}, {"GET", "/runningpods/", "get", "pods proxy"}, {"GET", "/podsx", "get", "proxy"},
		{"GET", "/healthz", "get", "healthz proxy"}, {"GET", "/healthz/log", "get", "healthz proxy"},
		{"GET", "/configz", "get", "configz proxy"}, {"GET", "/stats/summary", "get", "stats"}, {"GET", "/metrics/resource", "get", "metrics"},
		{"GET", "/metrics", "get", "metrics"}, {"GET", "/logs/syslog", "get", "log"}, {"POST", "/checkpoint/a/b/c", "create", "checkpoint"},
		{"POST", "/exec/a/b/c", "create", "proxy"}, {"GET", "/exec/a/b/c", "get", "proxy"}, {"PUT", "/", "update", "proxy"},
		{"PATCH", "/", "patch", "proxy"}, {"DELETE", "/", "delete", "proxy"}, {"OPTIONS", "/", "", "proxy"},
		{"GET", "/containerLogs/a/b/c", "get", "proxy"}, {"GET", "/statusz", "get", "statusz"}, {"GET", "/flagz", "get", "configz"},
	} {
		var got []string
		s := server.New(pods{}, &runtime{}, server.Options{
			NodeName:      "node",
			Authenticator: authn.Func(func(*http.Request) (*authn.Identity, error) { return &authn.Identity{Name: "jane"}, nil }),
			Authorizer: authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, error) {
				if a.User.Name != "jane" || a.Verb != c.verb || a.Resource != "nodes" || a.Name != "node" || a.Version != "v1" || !a.ResourceRequest || a.Path != c.path {
					t.Errorf("%s %s: %+v", c.method, c.path, a)
				}
				got = append(got, a.Subresource)
				return authz.Decision{}, nil
			}),
		})
		s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(c.method, c.path, nil))
		if strings.Join(got, " ") != c.parts {
			t.Errorf("%s %s: %q, want %q", c.method, c.path, got, c.parts)
		}
	}
}

// TestNobodyByDefault: a server without an authenticator or an authorizer refuses everybody, and says why in its log.
func TestNobodyByDefault(t *testing.T) {
	says := func(id *authn.Identity, err error) authn.Authenticator {
		return authn.Func(func(*http.Request) (*authn.Identity, error) { return id, err })
	}
	everybody := trusting().Authorizer
	for name, c := range map[string]struct {
		options server.Options
		code    int
		why     string
	}{
		"nothing":       {server.Options{}, http.StatusUnauthorized, authn.ErrNoCredentials.Error()},
		"authenticator": {server.Options{Authenticator: says(&authn.Identity{Name: "jane"}, nil)}, http.StatusForbidden, ""},
		"authorizer":    {server.Options{Authorizer: everybody}, http.StatusUnauthorized, authn.ErrNoCredentials.Error()},
		"nobody":        {server.Options{Authorizer: everybody, Authenticator: says(nil, nil)}, http.StatusUnauthorized, authn.ErrNoCredentials.Error()},
		"expired":       {server.Options{Authorizer: everybody, Authenticator: says(nil, errors.New("it has expired"))}, http.StatusUnauthorized, "it has expired"},
	} {
		var log bytes.Buffer
		c.options.Logger = slog.New(slog.NewTextHandler(&log, nil))
		w := httptest.NewRecorder()
		server.New(pods{}, &runtime{}, c.options).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
		if w.Code != c.code || !strings.Contains(log.String(), c.why) {
			t.Errorf("%s: %d, logged %s", name, w.Code, &log)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := server.New(pods{}, &runtime{}, server.Options{}).Run(t.Context(), l, nil); !errors.Is(err, server.ErrConfig) {
		t.Errorf("without a certificate: %v", err)
	}
}
