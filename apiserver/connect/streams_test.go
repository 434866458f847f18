package connect_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // the type of client-go's dialers
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"

	"github.com/keelson-dev/keelson/authn"
)

// at is the URL of a pod's subresource.
func (w *world) at(pod, sub string, query url.Values) *url.URL {
	return &url.URL{Scheme: "https", Host: w.address, Path: "/api/v1/namespaces/default/pods/" + pod + "/" + sub, RawQuery: query.Encode()}
}

func command(o corev1.PodExecOptions) url.Values {
	values, err := scheme.ParameterCodec.EncodeParameters(&o, corev1.SchemeGroupVersion)
	if err != nil {
		panic(err)
	}
	return values
}

// executors are client-go's ways to run a command: that of today, and that of before.
func executors(t testing.TB, config *rest.Config, u *url.URL) map[string]remotecommand.Executor {
	t.Helper()
	ws, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, u.String())
	if err != nil {
		t.Fatal(err)
	}
	old, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, u)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]remotecommand.Executor{"websocket": ws, "spdy": old}
}

func TestExecutors(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.pod(t, "p", "main")
	config := w.config(t, "admin", authn.GroupMasters)
	large := strings.Repeat("0123456789abcdef", 1<<18) // 4 MiB
	for _, c := range []struct {
		name, script, in string
		out, errs        string
		code             int
	}{
		{"output", "echo out; echo err >&2", "", "out\n", "err\n", 0},
		{"exit code", "exit 7", "", "", "", 7},
		{"input", "cat", large, large, "", 0},
		{"input left unread", "head -c 2", large, "01", "", 0},
		{"much output", "yes | head -c 3000000", "", strings.Repeat("y\n", 1500000), "", 0},
		{"both at once", "yes | head -c 200000; yes | head -c 200000 >&2", "", strings.Repeat("y\n", 100000), strings.Repeat("y\n", 100000), 0},
	} {
		u := w.at("p", "exec", command(corev1.PodExecOptions{Command: []string{"sh", "-c", c.script}, Stdin: c.in != "", Stdout: true, Stderr: true}))
		for name, e := range executors(t, config, u) {
			t.Run(c.name+" by "+name, func(t *testing.T) {
				var out, errs bytes.Buffer
				o := remotecommand.StreamOptions{Stdout: &out, Stderr: &errs}
				if c.in != "" {
					o.Stdin = strings.NewReader(c.in)
				}
				err := e.StreamWithContext(t.Context(), o)
				var exit exec.CodeExitError
				if c.code == 0 && err != nil || c.code != 0 && (!errors.As(err, &exit) || exit.Code != c.code) {
					t.Errorf("ends with %v, want code %d", err, c.code)
				}
				if out.String() != c.out || errs.String() != c.errs {
					t.Errorf("wrote %d and %d bytes, want %d and %d", out.Len(), errs.Len(), len(c.out), len(c.errs))
				}
			})
		}
	}
}

// TestExecErrors: what is wrong is told in the same words whatever the client speaks.
func TestExecErrors(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.pod(t, "p", "main")
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "i"}}}}
	pod.Name, pod.Namespace = "unbound", "default"
	w.create(t, pod)
	config := w.config(t, "admin", authn.GroupMasters)
	for _, c := range []struct {
		pod, want string
		options   corev1.PodExecOptions
	}{
		{"unbound", "pod unbound does not have a host assigned", corev1.PodExecOptions{Stdout: true}},
		{"none", `pods "none" not found`, corev1.PodExecOptions{Stdout: true}},
		{"p", "you must specify at least 1 of stdin, stdout, stderr", corev1.PodExecOptions{Command: []string{"true"}}},
	} {
		for name, e := range executors(t, config, w.at(c.pod, "exec", command(c.options))) {
			err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s by %s: %v, want %s", c.pod, name, err, c.want)
			}
		}
	}
}

// TestOldWebSocket: browsers' clients speak subprotocols that pass as they are.
func TestOldWebSocket(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.pod(t, "p", "main")
	config, err := rest.TLSConfigFor(w.config(t, "admin", authn.GroupMasters))
	if err != nil {
		t.Fatal(err)
	}
	u := w.at("p", "exec", command(corev1.PodExecOptions{Command: []string{"echo", "hello"}, Stdout: true, Stderr: true}))
	u.Scheme = "wss"
	d := websocket.Dialer{TLSClientConfig: config, Subprotocols: []string{"v4.channel.k8s.io"}}
	ws, answer, err := d.DialContext(t.Context(), u.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.Close() }()
	if p := answer.Header.Get("Sec-WebSocket-Protocol"); p != "v4.channel.k8s.io" {
		t.Errorf("subprotocol %q", p)
	}
	got := map[byte]string{}
	for {
		_, data, err := ws.ReadMessage()
		if err != nil {
			break
		}
		got[data[0]] += string(data[1:])
	}
	if got[1] != "hello\n" || !strings.Contains(got[3], "Success") {
		t.Errorf("got %q", got)
	}
}

// TestPortForwardDialers: through a tunnel, and without.
func TestPortForwardDialers(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.pod(t, "p", "main")
	port := web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	config := w.config(t, "admin", authn.GroupMasters)
	u := w.at("p", "portforward", nil)
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		t.Fatal(err)
	}
	tunneled, err := portforward.NewSPDYOverWebsocketDialer(u, config)
	if err != nil {
		t.Fatal(err)
	}
	old := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, u)
	for name, dialer := range map[string]httpstream.Dialer{"tunnel": tunneled, "spdy": old} {
		t.Run(name, func(t *testing.T) { forward(t, dialer, port) })
	}
}

func forward(t *testing.T, dialer httpstream.Dialer, port string) {
	stop, ready := make(chan struct{}), make(chan struct{})
	f, err := portforward.New(dialer, []string{":" + port}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- f.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	ports, err := f.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Post("http://127.0.0.1:"+strconv.Itoa(int(ports[0].Local)), "text/plain", strings.NewReader("there and back"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(answer.Body)
	if err != nil || string(data) != "there and back" {
		t.Errorf("%q, %v", data, err)
	}
	_ = answer.Body.Close()
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// begin runs a command that lasts, by each way, and returns where their ends are told.
func begin(t *testing.T, w *world) <-chan ending {
	t.Helper()
	w.pod(t, "p", "main")
	u := w.at("p", "exec", command(corev1.PodExecOptions{Command: []string{"sh", "-c", "echo up; exec sleep 3600"}, Stdout: true}))
	ended := make(chan ending, 2)
	for name, e := range executors(t, w.config(t, "admin", authn.GroupMasters), u) {
		up := &firstWrite{done: make(chan struct{})}
		go func() {
			ended <- ending{name, e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: up})}
		}()
		select {
		case <-up.done:
		case end := <-ended:
			t.Fatal(end)
		}
	}
	return ended
}

type ending struct {
	by  string
	err error
}

// ends waits for both, and holds the words of the one by WebSocket: the other client has none.
func ends(t *testing.T, ended <-chan ending, want string) {
	t.Helper()
	for range 2 {
		select {
		case end := <-ended:
			if end.by == "websocket" && (end.err == nil || !strings.Contains(end.err.Error(), want)) {
				t.Errorf("%v, want %s", end.err, want)
			}
		case <-time.After(time.Minute):
			t.Fatal("the command's connection goes on")
		}
	}
}

// TestDrain: the end of the server ends what lasts.
func TestDrain(t *testing.T) {
	t.Parallel()
	w := start(t)
	ended := begin(t, w)
	w.drain.EndStreams()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.drain.Wait(ctx); err != nil {
		t.Error(err)
	}
	ends(t, ended, "the API server has ended the connection")
}

// TestKubeletGoes: the end of a kubelet is not taken for the command's.
func TestKubeletGoes(t *testing.T) {
	t.Parallel()
	w := start(t)
	ended := begin(t, w)
	w.stopKubelet()
	ends(t, ended, "the connection to the kubelet was lost before the command ended")
}

// firstWrite tells when something was written.
type firstWrite struct{ done chan struct{} }

func (f *firstWrite) Write(p []byte) (int, error) {
	select {
	case <-f.done:
	default:
		close(f.done)
	}
	return len(p), nil
}

// TestConnectorErrors: a node without an address, and a kubelet that is not there or another.
func TestConnectorErrors(t *testing.T) {
	t.Parallel()
	w := start(t)
	pod, _ := w.pod(t, "p", "main")
	get := func(pod string) error {
		return w.client(t).Get().AbsPath("/api/v1/namespaces/default/pods", pod, "log").Do(t.Context()).Error()
	}
	for name, c := range map[string]struct {
		addresses []corev1.NodeAddress
		port      int32
		want      string
	}{
		"nowhere": {nil, 1, "no preferred addresses found; known addresses: []"},
		"down":    {[]corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}, 1, "connect: connection refused"},
		"other":   {[]corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "localhost"}}, 0, "x509: certificate is not valid for any names, but wanted to match localhost"},
	} {
		node := &corev1.Node{Status: corev1.NodeStatus{Addresses: c.addresses}}
		node.Name = name
		node.Status.DaemonEndpoints.KubeletEndpoint.Port = c.port
		if c.port == 0 {
			node.Status.DaemonEndpoints.KubeletEndpoint.Port = w.kubeletPort(t)
		}
		w.create(t, node)
		one := pod.DeepCopy()
		one.Name, one.Spec.NodeName = "on-"+name, name
		one.UID, one.ResourceVersion = "", ""
		w.create(t, one)
		if err := get(one.Name); err == nil || !strings.Contains(err.Error(), c.want) || !apierrors.IsInternalError(err) && apierrors.ReasonForError(err) != "" {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// raw asks as the administrator.
func (w *world) raw(t *testing.T) func(path string) (code int, text string) {
	t.Helper()
	client, err := rest.HTTPClientFor(w.config(t, "admin", authn.GroupMasters))
	if err != nil {
		t.Fatal(err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(client.CloseIdleConnections)
	return func(path string) (int, string) {
		answer, err := client.Get("https://" + w.address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		data, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(data) + answer.Header.Get("Location")
	}
}

// TestPortProxies: what pods and services serve is passed on, and links in it lead through the proxy.
func TestPortProxies(t *testing.T) {
	t.Parallel()
	w := start(t)
	ip := ownAddress(t)
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Fatal(err)
	}
	site := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/page":
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, `<a href="/other">other</a>`)
		case "/away":
			http.Redirect(w, r, "/other", http.StatusFound)
		default:
			_, _ = fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.RequestURI(), r.Header.Get("X-Forwarded-Uri"))
		}
	}))
	_ = site.Listener.Close()
	site.Listener = l
	site.Start()
	t.Cleanup(site.Close)
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	pod, _ := w.pod(t, "p", "main")
	pod.Status.PodIPs, pod.Status.PodIP = []corev1.PodIP{{IP: ip}}, ip
	w.setStatus(t, pod)
	w.create(t, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "default"},
		Spec:       corev1.ServiceSpec{ClusterIP: "None", ClusterIPs: []string{"None"}, Ports: []corev1.ServicePort{{Name: "web", Port: 80, Protocol: "TCP"}}},
	})
	w.create(t, &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "default"},
		Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: ip, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p"}}},
			Ports:     []corev1.EndpointPort{{Name: "web", Port: int32(n), Protocol: "TCP"}},
		}},
	})
	const base = "/api/v1/namespaces/default/"
	podPort := base + "pods/p:" + port + "/proxy"
	for path, want := range map[string]string{
		podPort:                                  podPort + "/",
		podPort + "/a/b?c=d":                     "GET /a/b?c=d " + podPort + "/a/b",
		podPort + "/dir/":                        "GET /dir/ " + podPort + "/dir/",
		podPort + "/page":                        `<a href="` + podPort + `/other">other</a>`,
		podPort + "/away":                        podPort + "/other",
		base + "services/s:80/proxy/x":           "GET /x " + base + "services/s:80/proxy/x",
		base + "services/s:web/proxy/x":          "GET /x " + base + "services/s:web/proxy/x",
		base + "services/http:s:web/proxy/a%20b": "GET /a%20b " + base + "services/http:s:web/proxy/a%20b",
		base + "services/s:81/proxy/":            `no service port 81 found for service \"s\"`,
		base + "services/s:none/proxy/":          `no endpoints available for service \"s:none\"`,
		base + "pods/p:1/proxy/":                 "error trying to reach service: dial tcp " + ip + ":1: connect: connection refused",
	} {
		if _, got := w.raw(t)(path); !strings.Contains(got, want) {
			t.Errorf("%s: %q; want %q", path, got, want)
		}
	}
}

// ownAddress is one of this host that others could reach it by.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
			return p.Addr().String()
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("this host has no address but loopback")
	}
	t.Skip("this host has no address but loopback")
	return ""
}

// TestProxies: nodes, pods and services pass requests on, and nothing else.
func TestProxies(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.pod(t, "p", "main")
	raw := w.raw(t)
	for path, want := range map[string]string{
		"/api/v1/nodes/node/proxy/healthz":                                             "ok",
		"/api/v1/nodes/node:" + strconv.Itoa(int(w.kubeletPort(t))) + "/proxy/healthz": "ok",
		"/api/v1/nodes/node/proxy/logs/syslog":                                         "a line\n",
		"/api/v1/nodes/node/proxy/configz":                                             "{}",
	} {
		if code, got := raw(path); got != want || code != http.StatusOK {
			t.Errorf("%s: %d %q; want %q", path, code, got, want)
		}
	}
	for path, want := range map[string]string{
		"/api/v1/nodes/node:1/proxy/":                              "address not allowed",
		"/api/v1/nodes/a:b:c:d/proxy/":                             `invalid node request "a:b:c:d"`,
		"/api/v1/nodes/none/proxy/":                                `nodes "none" not found`,
		"/api/v1/namespaces/default/pods/p/proxy/":                 "address not allowed",
		"/api/v1/namespaces/default/services/none/proxy/":          `endpoints "none" not found`,
		"/api/v1/namespaces/default/services/none:80/proxy/":       `services "none" not found`,
		"/api/v1/nodes/node/proxy/containerLogs/default/none/main": `pod "none" does not exist`,
	} {
		if code, got := raw(path); code < http.StatusBadRequest || !strings.Contains(strings.ReplaceAll(got, `\"`, `"`), want) {
			t.Errorf("%s: %d %q; want %q", path, code, got, want)
		}
	}
	if code, pods := raw("/api/v1/nodes/node/proxy/pods"); code != http.StatusOK || !strings.Contains(pods, `"name":"p"`) {
		t.Errorf("pods: %d %q", code, pods)
	}
	if all := w.admitted.list(); !slices.Contains(all, "CONNECT NodeProxyOptions nodes/proxy node") {
		t.Errorf("admission has seen %v", all)
	}
}

// TestKubeletAsks: a kubelet knows people by their certificates and tokens, and lets them do what
// the API server says they may.
func TestKubeletAsks(t *testing.T) {
	t.Parallel()
	w := start(t)
	config, err := rest.TLSConfigFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: w.ca.PEM()}})
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	for _, c := range []struct {
		token, path string
		code        int
	}{
		{"the-token", "/healthz", http.StatusOK}, {"the-token", "/pods", http.StatusForbidden}, {"another-token", "/healthz", http.StatusForbidden},
		{"guess", "/healthz", http.StatusUnauthorized}, {"", "/healthz", http.StatusUnauthorized},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+w.kubelet+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		answer, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != c.code {
			t.Errorf("%q %s: %s, want %d", c.token, c.path, answer.Status, c.code)
		}
	}
}
