package cluster_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	clientspdy "k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
)

// scripted returns options for one node whose containers behave by a program.
func scripted(p simulated.Program) cluster.Options {
	return cluster.Options{Nodes: cluster.Nodes{Count: 1, Runtime: func(string) simulated.Options {
		return simulated.Options{Program: func(simulated.Process) simulated.Program { return p }}
	}}}
}

// ticking writes its number every second.
func ticking(n int) (simulated.LogLine, bool) {
	return simulated.LogLine{After: time.Duration(n) * time.Second, Text: fmt.Sprintf("tick %d", n), Stderr: n%2 == 1}, true
}

// log reads a pod's log.
func (w *world) log(name string, o corev1.PodLogOptions) string {
	w.t.Helper()
	text, err := w.pods.GetLogs(name, &o).DoRaw(w.ctx)
	w.check(err)
	return string(text)
}

func TestSimulatedLogs(t *testing.T) {
	inBubble(t, scripted(simulated.Program{Log: ticking, Exits: true, After: 3500 * time.Millisecond}), func(t *testing.T, w *world) {
		pod := testPod("web")
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
		_, err := w.pods.Create(w.ctx, pod, metav1.CreateOptions{})
		w.check(err)
		time.Sleep(time.Second + time.Millisecond)
		stream, err := w.pods.GetLogs("web", &corev1.PodLogOptions{Follow: true, TailLines: new(int64(1))}).Stream(w.ctx)
		w.check(err)
		defer func() { _ = stream.Close() }()
		var told []string
		began := time.Now()
		for lines := bufio.NewScanner(stream); lines.Scan(); {
			told = append(told, fmt.Sprintf("%v %s", time.Since(began).Round(100*time.Millisecond), lines.Text()))
		}
		if got, want := strings.Join(told, ", "), "0s tick 1, 1s tick 2, 2s tick 3"; got != want {
			t.Errorf("followed: %s; want %s", got, want)
		}
		time.Sleep(time.Second) // it was restarted
		started, err := w.pods.Get(w.ctx, "web", metav1.GetOptions{})
		w.check(err)
		state := started.Status.ContainerStatuses[0]
		if state.RestartCount != 1 || state.LastTerminationState.Terminated == nil {
			t.Fatalf("status %+v", state)
		}
		last := state.LastTerminationState.Terminated.StartedAt
		for name, c := range map[string]struct {
			options corev1.PodLogOptions
			want    string
		}{
			"all":        {corev1.PodLogOptions{}, "tick 0\ntick 1\n"},
			"previous":   {corev1.PodLogOptions{Previous: true}, "tick 0\ntick 1\ntick 2\ntick 3\n"},
			"tail":       {corev1.PodLogOptions{Previous: true, TailLines: new(int64(2))}, "tick 2\ntick 3\n"},
			"bytes":      {corev1.PodLogOptions{Previous: true, LimitBytes: new(int64(9))}, "tick 0\nti"},
			"since":      {corev1.PodLogOptions{Previous: true, SinceTime: &metav1.Time{Time: last.Add(2 * time.Second)}}, "tick 2\ntick 3\n"},
			"seconds":    {corev1.PodLogOptions{Previous: true, SinceSeconds: new(int64(3))}, "tick 2\ntick 3\n"},
			"stderr":     {corev1.PodLogOptions{Previous: true, Stream: new(corev1.LogStreamStderr)}, "tick 1\ntick 3\n"},
			"timestamps": {corev1.PodLogOptions{Previous: true, Timestamps: true, TailLines: new(int64(1))}, last.Add(3 * time.Second).UTC().Format("2006-01-02T15:04:05")},
		} {
			got := w.log("web", c.options)
			if name == "timestamps" {
				got, _, _ = strings.Cut(got, ".")
			}
			if got != c.want {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
		}
	})
}

// TestWrittenLog: a test writes to a container's log, which nobody has scripted.
func TestWrittenLog(t *testing.T) {
	inBubble(t, nodes(2), func(t *testing.T, w *world) {
		_, err := w.pods.Create(w.ctx, testPod("web"), metav1.CreateOptions{})
		w.check(err)
		time.Sleep(10 * time.Second)
		if got := w.log("web", corev1.PodLogOptions{}); got != "" {
			t.Errorf("the log begins with %q", got)
		}
		pod, err := w.pods.Get(w.ctx, "web", metav1.GetOptions{})
		w.check(err)
		node, err := w.c.Node(pod.Spec.NodeName)
		w.check(err)
		containers, err := node.Runtime().ListContainers(w.ctx, cri.Filter{Labels: map[string]string{cri.LabelPodName: "web"}})
		w.check(err)
		w.check(node.Runtime().WriteLog(containers[0].ID, "ready to serve"))
		if got := w.log("web", corev1.PodLogOptions{}); got != "ready to serve\n" {
			t.Errorf("the log is %q", got)
		}
		node.Stop()
		err = w.pods.GetLogs("web", &corev1.PodLogOptions{}).Do(w.ctx).Error()
		if err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("of a silent node: %v", err)
		}
		node.Start()
		time.Sleep(time.Second)
		if got := w.log("web", corev1.PodLogOptions{}); got != "ready to serve\n" {
			t.Errorf("after its return the log is %q", got)
		}
	})
}

// upgraded returns what client-go needs to open streams through the process as an identity.
func (w *world) upgraded(id *authn.Identity) *spdy.SpdyRoundTripper {
	w.t.Helper()
	rt, err := spdy.NewRoundTripperWithConfig(spdy.RoundTripperConfig{
		UpgradeTransport: &http.Transport{DialContext: w.c.Dial(id)}, PingPeriod: 5 * time.Second,
	})
	w.check(err)
	return rt
}

// executor runs a command, or attaches without one.
func (w *world) executor(id *authn.Identity, pod string, o *corev1.PodExecOptions) remotecommand.Executor {
	w.t.Helper()
	request := w.cs.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name(pod)
	if o.Command != nil {
		request = request.SubResource("exec").VersionedParams(o, scheme.ParameterCodec)
	} else {
		request = request.SubResource("attach").VersionedParams(&corev1.PodAttachOptions{Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr}, scheme.ParameterCodec)
	}
	rt := w.upgraded(id)
	e, err := remotecommand.NewSPDYExecutorForTransports(rt, clientspdy.NewUpgraderForStreaming(rt), http.MethodPost, request.URL())
	w.check(err)
	return e
}

// shell is a container that repeats what it is told, and exits with 3.
func shell(_ context.Context, command []string, s cri.StreamIO) (int32, error) {
	if s.Stdin != nil {
		if _, err := io.Copy(s.Stdout, s.Stdin); err != nil {
			return 0, err
		}
	}
	if s.Stderr != nil {
		_, _ = fmt.Fprint(s.Stderr, command)
	}
	return 3, nil
}

func TestSimulatedStreams(t *testing.T) {
	program := simulated.Program{Log: ticking, Exits: true, After: 20500 * time.Millisecond, Streams: simulated.Streams{
		Exec: shell,
		Port: simulated.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Minute / 10)
			_, _ = io.WriteString(w, "you are at "+r.URL.Path)
		})),
	}}
	inBubble(t, scripted(program), func(t *testing.T, w *world) {
		_, err := w.pods.Create(w.ctx, testPod("web"), metav1.CreateOptions{})
		w.check(err)
		time.Sleep(time.Second)
		var stdout, stderr bytes.Buffer
		all := &corev1.PodExecOptions{Command: []string{"sh", "-i"}, Stdin: true, Stdout: true, Stderr: true}
		err = w.executor(cluster.Admin(), "web", all).StreamWithContext(w.ctx, remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &stdout, Stderr: &stderr})
		var exit utilexec.CodeExitError
		if !errors.As(err, &exit) || exit.Code != 3 || stdout.String() != "hello" || stderr.String() != "[sh -i]" {
			t.Errorf("exec: %q %q %v", &stdout, &stderr, err)
		}
		err = w.executor(cluster.User("jane"), "web", all).StreamWithContext(w.ctx, remotecommand.StreamOptions{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard})
		if err == nil || !strings.Contains(err.Error(), `User "jane" cannot create resource "pods/exec"`) {
			t.Errorf("exec by somebody else: %v", err)
		}
		if got := w.forward("web", "/there"); got != "you are at /there" {
			t.Errorf("port-forward: %q", got)
		}
		proxied, err := w.pods.ProxyGet("http", "web", "8080", "/proxied", nil).DoRaw(w.ctx)
		if err != nil || string(proxied) != "you are at /proxied" {
			t.Errorf("proxy: %q %v", proxied, err)
		}
		stdout.Reset()
		began := time.Now()
		err = w.executor(cluster.Admin(), "web", &corev1.PodExecOptions{Stdout: true}).StreamWithContext(w.ctx, remotecommand.StreamOptions{Stdout: &stdout})
		if err != nil || !strings.HasSuffix(stdout.String(), "tick 18\ntick 20\n") || time.Since(began) > 20*time.Second {
			t.Errorf("attach: %q after %v, %v", &stdout, time.Since(began), err)
		}
	})
}

// forward gets a path from a port of a pod by port-forward, over a connection without a local port.
func (w *world) forward(pod, path string) string {
	w.t.Helper()
	url := w.cs.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name(pod).SubResource("portforward").URL()
	rt := w.upgraded(cluster.Admin())
	conn, _, err := clientspdy.NewDialerForStreaming(clientspdy.NewUpgraderForStreaming(rt), &http.Client{Transport: rt}, http.MethodPost, url).Dial(portforward.PortForwardProtocolV1Name)
	w.check(err)
	defer func() { _ = conn.Close() }()
	header := func(kind string) http.Header {
		return http.Header{corev1.StreamType: {kind}, corev1.PortHeader: {"8080"}, corev1.PortForwardRequestIDHeader: {"0"}}
	}
	errs, err := conn.CreateStream(header(corev1.StreamTypeError))
	w.check(err)
	w.check(errs.Close())
	data, err := conn.CreateStream(header(corev1.StreamTypeData))
	w.check(err)
	_, err = fmt.Fprintf(data, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path)
	w.check(err)
	answer, err := http.ReadResponse(bufio.NewReader(data), nil)
	w.check(err)
	text, err := io.ReadAll(answer.Body)
	w.check(err)
	return string(text)
}

// TestUnscriptedStreams: clients learn what would answer them.
func TestUnscriptedStreams(t *testing.T) {
	inBubble(t, nodes(1), func(t *testing.T, w *world) {
		_, err := w.pods.Create(w.ctx, testPod("web"), metav1.CreateOptions{})
		w.check(err)
		time.Sleep(10 * time.Second)
		err = w.executor(cluster.Admin(), "web", &corev1.PodExecOptions{Command: []string{"ls"}, Stdout: true}).StreamWithContext(w.ctx, remotecommand.StreamOptions{Stdout: io.Discard})
		if err == nil || !strings.Contains(err.Error(), "no Program.Streams.Exec is set") {
			t.Errorf("exec: %v", err)
		}
		err = w.pods.ProxyGet("http", "web", "8080", "/", nil).(*rest.Request).Do(w.ctx).Error()
		if err == nil || !strings.Contains(err.Error(), "no Program.Streams.Port is set") {
			t.Errorf("proxy: %v", err)
		}
		node, err := w.c.Node("node-0")
		w.check(err)
		ended := make(chan error, 1)
		attached := w.executor(cluster.Admin(), "web", &corev1.PodExecOptions{Stdout: true})
		go func() { ended <- attached.StreamWithContext(w.ctx, remotecommand.StreamOptions{Stdout: io.Discard}) }()
		time.Sleep(time.Minute)
		select {
		case err := <-ended:
			t.Fatalf("it ended early: %v", err)
		default:
		}
		node.Stop() // streams end with the kubelet
		<-ended
	})
}

// TestSimulatedServiceProxy: services lead to the ports of simulated pods, addresses that no pod has to nothing.
func TestSimulatedServiceProxy(t *testing.T) {
	program := simulated.Program{Streams: simulated.Streams{Port: func(_ context.Context, port int32, conn io.ReadWriteCloser) error {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			return err
		}
		_, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nport %d", port)
		return err
	}}}
	inBubble(t, scripted(program), func(t *testing.T, w *world) {
		pod := testPod("web")
		pod.Labels = map[string]string{"app": "web"}
		_, err := w.pods.Create(w.ctx, pod, metav1.CreateOptions{})
		w.check(err)
		services := w.cs.CoreV1().Services("default")
		_, err = services.Create(w.ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{
			Selector: pod.Labels, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
		}}, metav1.CreateOptions{})
		w.check(err)
		time.Sleep(10 * time.Second)
		text, err := services.ProxyGet("http", "web", "80", "/", nil).DoRaw(w.ctx)
		if err != nil || string(text) != "port 8080" {
			t.Errorf("%q, %v", text, err)
		}
		for ip, want := range map[string]string{"10.64.0.99": "no simulated pod has that address", "10.200.0.1": "no simulated pod has that address"} {
			made, err := w.pods.Get(w.ctx, "web", metav1.GetOptions{})
			w.check(err)
			made.Status.PodIP, made.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
			_, err = w.pods.UpdateStatus(w.ctx, made, metav1.UpdateOptions{})
			w.check(err)
			if err := w.pods.ProxyGet("http", "web", "80", "/", nil).(*rest.Request).Do(w.ctx).Error(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", ip, err)
			}
		}
	})
}

// TestSimulatedNodeProxy: the API server passes requests on to the servers of simulated nodes.
func TestSimulatedNodeProxy(t *testing.T) {
	inBubble(t, scripted(simulated.Program{NanoCores: 250_000_000, Memory: 5 << 20}), func(t *testing.T, w *world) {
		_, err := w.pods.Create(w.ctx, testPod("web"), metav1.CreateOptions{})
		w.check(err)
		time.Sleep(100 * time.Second)
		for path, want := range map[string]string{
			"metrics/resource": `container_memory_working_set_bytes{container="c",namespace="default",pod="web"} 5.24288e+06 `,
			"stats/summary":    `"workingSetBytes":5242880`,
			"pods":             `"name":"web"`,
			"runningpods/":     `"name":"web"`,
			"metrics":          `kubelet_running_pods 1`,
			"metrics/cadvisor": `container_cpu_usage_seconds_total`,
			"healthz":          "ok",
		} {
			text, err := w.cs.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/node-0/proxy/" + path).DoRaw(w.ctx)
			if err != nil || !strings.Contains(string(text), want) {
				t.Errorf("%s: %v\n%s", path, err, text)
			}
		}
		_, err = w.cs.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/nobody/proxy/healthz").DoRaw(w.ctx)
		if !apierrors.IsNotFound(err) {
			t.Errorf("a node that is not there: %v", err)
		}
		_, err = w.cs.CoreV1().Nodes().Create(w.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{})
		w.check(err)
		err = w.cs.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/other/proxy/healthz").Do(w.ctx).Error()
		if err == nil || !strings.Contains(err.Error(), `unknown node "other"`) {
			t.Errorf("a node that is not simulated: %v", err)
		}
	})
}

// TestManyStreams: logs of and commands in many pods on many nodes, all at once.
func TestManyStreams(t *testing.T) {
	const pods = 40
	o := scripted(simulated.Program{Log: ticking, Streams: simulated.Streams{Exec: shell}})
	o.Nodes.Count = 10
	inBubble(t, o, func(t *testing.T, w *world) {
		for i := range pods {
			_, err := w.pods.Create(w.ctx, testPod(fmt.Sprintf("web-%d", i)), metav1.CreateOptions{})
			w.check(err)
		}
		time.Sleep(10 * time.Second)
		var clients sync.WaitGroup
		for i := range pods {
			name := fmt.Sprintf("web-%d", i)
			e := w.executor(cluster.Admin(), name, &corev1.PodExecOptions{Command: []string{"cat"}, Stdin: true, Stdout: true})
			clients.Go(func() {
				stream, err := w.pods.GetLogs(name, &corev1.PodLogOptions{Follow: true}).Stream(w.ctx)
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = stream.Close() }()
				lines := bufio.NewScanner(stream)
				for n := range 30 {
					if !lines.Scan() || lines.Text() != fmt.Sprint("tick ", n) {
						t.Errorf("line %d of %s is %q", n, name, lines.Text())
						return
					}
				}
			})
			clients.Go(func() {
				said := strings.Repeat(name+"\n", 10_000)
				var out bytes.Buffer
				err := e.StreamWithContext(w.ctx, remotecommand.StreamOptions{Stdin: strings.NewReader(said), Stdout: &out})
				var exit utilexec.CodeExitError
				if !errors.As(err, &exit) || exit.Code != 3 || out.String() != said {
					t.Errorf("%d bytes of %d from %s: %v", out.Len(), len(said), name, err)
				}
			})
		}
		clients.Wait()
	})
}

// TestDialEnds: what is connected to a cluster ends with it.
func TestDialEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, scripted(simulated.Program{Streams: simulated.Streams{Exec: shell}}))
		if err := c.WaitNodes(t.Context()); err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, ctx: t.Context(), c: c, cs: clientset(t, c.Config())}
		w.pods = w.cs.CoreV1().Pods("default")
		_, err := w.pods.Create(w.ctx, testPod("web"), metav1.CreateOptions{})
		w.check(err)
		time.Sleep(time.Second)
		keyboard, hand := io.Pipe() // nobody types
		defer func() { _ = hand.Close() }()
		ended := make(chan error, 1)
		e := w.executor(cluster.Admin(), "web", &corev1.PodExecOptions{Command: []string{"cat"}, Stdin: true, Stdout: true})
		go func() {
			ended <- e.StreamWithContext(w.ctx, remotecommand.StreamOptions{Stdin: keyboard, Stdout: io.Discard})
		}()
		time.Sleep(time.Minute)
		select {
		case err := <-ended:
			t.Fatalf("it ended early: %v", err)
		default:
		}
		w.check(c.Close())
		<-ended
		if _, err := c.Dial(cluster.Admin())(t.Context(), "", ""); !errors.Is(err, cluster.ErrClosed) {
			t.Errorf("a closed cluster is dialed: %v", err)
		}
	})
}
