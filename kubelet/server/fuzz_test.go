package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	machinery "k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/server"
)

// trusting authenticates everybody as an administrator.
func trusting() server.Options {
	return server.Options{
		Authenticator: authn.Func(func(*http.Request) (*authn.Identity, error) { return &authn.Identity{Name: "admin"}, nil }),
		Authorizer: authz.Func(func(context.Context, authz.Attributes) (authz.Decision, error) {
			return authz.Decision{Verdict: authz.Allow}, nil
		}),
	}
}

// asking makes a request from a raw query; false means that no client can send it.
func asking(ctx context.Context, method, path, query string) (*http.Request, bool) {
	u := &url.URL{Path: path, RawQuery: query}
	if _, err := url.ParseRequestURI(u.String()); err != nil {
		return nil, false
	}
	r := httptest.NewRequestWithContext(ctx, method, "/", nil)
	r.URL = u
	return r, true
}

// written is a line of a log.
type written struct {
	at           time.Time
	stream, text string
}

func lines() []written {
	at := func(s int) time.Time { return time.Date(2001, 2, 3, 4, 5, s, 0, time.UTC) }
	return []written{{at(1), "stdout", "one\n"}, {at(2), "stderr", "two\n"}, {at(3), "stdout", "three\n"}, {at(4), "stderr", "four\n"}, {at(5), "stdout", "five\n"}}
}

// ended returns a container that has exited, with its log.
func ended(f *testing.F, id, name string, all []written) cri.ContainerStatus {
	f.Helper()
	var text strings.Builder
	for _, l := range all {
		fmt.Fprintf(&text, "%s %s F %s", l.at.Format(time.RFC3339Nano), l.stream, l.text)
	}
	path := filepath.Join(f.TempDir(), id+".log")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		f.Fatal(err)
	}
	return container(id, "p", name, cri.ContainerExited, path)
}

// logOptions decodes a query with the generated conversions of upstream's kubelet, and validates it by its rules.
func logOptions(query url.Values) (o corev1.PodLogOptions, code int) {
	if tail := query.Get("tail"); tail == "all" {
		query.Del("tailLines")
	} else if tail != "" {
		query.Set("tailLines", tail)
	}
	failed := false
	for name, into := range map[string]*bool{"follow": &o.Follow, "previous": &o.Previous, "timestamps": &o.Timestamps} {
		if values, ok := query[name]; ok {
			failed = machinery.Convert_Slice_string_To_bool(&values, into, nil) != nil || failed
		}
	}
	for name, into := range map[string]**int64{"sinceSeconds": &o.SinceSeconds, "tailLines": &o.TailLines, "limitBytes": &o.LimitBytes} {
		if values, ok := query[name]; ok {
			failed = machinery.Convert_Slice_string_To_Pointer_int64(&values, into, nil) != nil || failed
		}
	}
	if values, ok := query["sinceTime"]; ok {
		failed = metav1.Convert_Slice_string_To_Pointer_v1_Time(&values, &o.SinceTime, nil) != nil || failed
	}
	stream := corev1.LogStreamAll
	if query.Has("stream") {
		stream = query.Get("stream")
	}
	o.Stream = &stream
	switch {
	case failed:
		return o, http.StatusBadRequest
	case o.TailLines != nil && *o.TailLines < 0, o.LimitBytes != nil && *o.LimitBytes < 1, o.SinceSeconds != nil && o.SinceTime != nil,
		o.SinceSeconds != nil && *o.SinceSeconds < 1, !slices.Contains([]string{"All", "Stdout", "Stderr"}, stream), stream != "All" && o.TailLines != nil:
		return o, http.StatusUnprocessableEntity
	}
	return o, http.StatusOK
}

// shown returns the part of a log that such options select.
func shown(all []written, o corev1.PodLogOptions) string {
	var since time.Time
	switch {
	case o.SinceTime != nil:
		since = o.SinceTime.Time
	case o.SinceSeconds != nil && *o.SinceSeconds < time.Now().Unix():
		since = time.Unix(time.Now().Unix()-*o.SinceSeconds, 0)
	}
	if o.TailLines != nil && *o.TailLines < int64(len(all)) {
		all = all[int64(len(all))-*o.TailLines:]
	}
	text := ""
	for _, l := range all {
		if l.at.Before(since) || *o.Stream != corev1.LogStreamAll && !strings.EqualFold(*o.Stream, l.stream) {
			continue
		}
		if o.Timestamps {
			text += l.at.Format("2006-01-02T15:04:05.000000000Z07:00") + " "
		}
		text += l.text
	}
	if o.LimitBytes != nil && *o.LimitBytes < int64(len(text)) {
		text = text[:*o.LimitBytes]
	}
	return text
}

// FuzzLogQuery: for every query, a client gets the lines selected by upstream's decoding and a plain reading of the
// options, or upstream's refusal.
func FuzzLogQuery(f *testing.F) {
	for _, seed := range []string{
		"", "tailLines=2&timestamps=true", "tail=all&tailLines=1", "tail=3", "limitBytes=7&timestamps=1", "sinceTime=2001-02-03T04:05:03Z",
		"sinceSeconds=1", "sinceSeconds=9223372036854775807", "sinceSeconds=18446744073", "sinceTime=null&sinceSeconds=5", "sinceTime=", "stream=Stderr&limitBytes=5",
		"stream=Stdout&tailLines=1", "stream=", "previous=FALSE&follow=0", "previous=1&tailLines=0", "follow&timestamps", "limitBytes=0", "tailLines=-1",
		"tailLines=0x2", "limitBytes=+5", "tailLines=%31", "tailLines=1;limitBytes=2", "tailLines=9223372036854775808", "sinceTime=2001-02-03T05%3A05%3A03.5%2B01:00",
	} {
		f.Add(seed)
	}
	all := lines()
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "ns", "p", "p-uid"
	pod.Spec.Containers = []corev1.Container{{Name: "c0"}}
	over := func(id string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: "test://" + id}}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c0", State: over("now"), LastTerminationState: over("before")}}
	s := server.New(pods{pod}, &runtime{containers: []cri.ContainerStatus{ended(f, "now", "c0", all), ended(f, "before", "c0", all[:2])}}, trusting())
	f.Fuzz(func(t *testing.T, query string) {
		r, ok := asking(t.Context(), http.MethodGet, "/containerLogs/ns/p/c0", query)
		if !ok {
			return
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		o, code := logOptions(r.URL.Query())
		want := map[int]string{http.StatusBadRequest: `{"message": "Unable to decode query."}`, http.StatusUnprocessableEntity: `{"message": "Invalid request."}`}[code]
		if code == http.StatusOK {
			log := all
			if o.Previous {
				log = all[:2]
			}
			want = shown(log, o)
		}
		if w.Code != code || w.Body.String() != want {
			t.Errorf("%q: %d %q, want %d %q", query, w.Code, w.Body, code, want)
		}
	})
}

// streamOptions reads a query like upstream's streaming server.
func streamOptions(query url.Values) (st cri.Streams, err error) {
	for name, into := range map[string]*bool{"input": &st.Stdin, "output": &st.Stdout, "error": &st.Stderr, "tty": &st.TTY} {
		*into = query.Get(name) == "1"
	}
	st.Stderr = st.Stderr && !st.TTY
	if !st.Stdin && !st.Stdout && !st.Stderr {
		return st, fmt.Errorf("you must specify at least 1 of stdin, stdout, stderr")
	}
	return st, nil
}

// forwardPorts reads the ports of a WebSocket client like upstream's streaming server.
func forwardPorts(query url.Values) ([]int32, error) {
	if len(query["port"]) == 0 {
		return nil, fmt.Errorf("query parameter %q is required", "port")
	}
	var ports []int32
	for _, value := range query["port"] {
		if value == "" {
			return nil, fmt.Errorf("query parameter %q cannot be empty", "port")
		}
		for _, p := range strings.Split(value, ",") {
			switch n, err := strconv.ParseUint(p, 10, 16); {
			case err != nil:
				return nil, fmt.Errorf("unable to parse %q as a port: %w", value, err)
			case n < 1:
				return nil, fmt.Errorf("port %q must be > 0", value)
			default:
				ports = append(ports, int32(n))
			}
		}
	}
	return ports, nil
}

// FuzzStreamQuery: the runtime gets the request that a plain reading of the query gives, and a query that upstream
// refuses is refused in its words before it reaches the runtime.
func FuzzStreamQuery(f *testing.F) {
	for _, seed := range []string{
		"input=1&output=1&error=1", "command=a&command=b+c&output=1", "tty=1&error=1", "tty=1&output=1&error=1", "output=true", "output=1&output=0", "",
		"port=80", "port=80,443&port=8080", "port=", "port=80,", "port=0", "port=8,0", "port=65536", "port=-1", "port=%2B1", "port=1;port=2", "port=80&port=", "command=%ff%00&input=1",
	} {
		for verb := range 3 {
			f.Add(verb, seed, verb != 0)
		}
	}
	pod := examples()[0]
	f.Fuzz(func(t *testing.T, verb int, query string, web bool) {
		verb = (verb%3 + 3) % 3
		path := []string{"/exec/ns/p/c0", "/attach/ns/p/c0", "/portForward/ns/p"}[verb]
		rt := &runtime{
			containers: []cri.ContainerStatus{container("a", "p", "c0", cri.ContainerRunning, "")},
			sandboxes:  []cri.Sandbox{{ID: "s", State: cri.SandboxReady, Labels: labels("p", "")}},
		}
		r, ok := asking(t.Context(), http.MethodGet, path, query)
		if !ok {
			return
		}
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "SPDY/3.1")
		if web {
			r.Header.Set("Upgrade", "WebSocket")
		}
		// The runtime answers without a usable URL; only the request to it counts.
		rt.at = "http://192.0.2.1:1/secret-token"
		w := httptest.NewRecorder()
		server.New(pods{pod}, rt, trusting()).ServeHTTP(w, r)
		values := r.URL.Query()
		st, err := streamOptions(values)
		want := []string{fmt.Sprintf("exec a %q %v", values["command"], st), fmt.Sprintf("attach a %v", cri.Streams{Stdin: st.Stdin, Stdout: st.Stdout, Stderr: st.Stderr}), ""}[verb]
		if verb == 2 {
			var ports []int32
			if err = nil; web {
				ports, err = forwardPorts(values)
			}
			want = fmt.Sprintf("forward s %v", ports)
		}
		switch {
		case err != nil && (w.Code != http.StatusBadRequest || w.Body.String() != err.Error() || len(rt.asked) > 0):
			t.Errorf("%s?%s: %d %q and asked %q, want %q", path, query, w.Code, w.Body, rt.asked, err)
		case err == nil && (w.Code != http.StatusInternalServerError || !slices.Equal(rt.asked, []string{want})):
			t.Errorf("%s?%s: %d %q and asked %q, want %q", path, query, w.Code, w.Body, rt.asked, want)
		case strings.Contains(w.Body.String(), "secret"):
			t.Errorf("%s?%s: the answer tells where the runtime streams: %q", path, query, w.Body)
		}
	})
}
