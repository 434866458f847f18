package envtest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/envtest"
	"github.com/keelson-dev/keelson/internal/kubectl"
)

// scripted starts an environment with one node and a pod "web", whose container says hello, repeats what it is told, and
// serves HTTP.
func scripted(t *testing.T) (*envtest.Environment, *rest.Config, kubernetes.Interface) {
	t.Helper()
	program := simulated.Program{
		Log: simulated.Text("hello", "world"),
		Streams: simulated.Streams{
			Exec: func(_ context.Context, command []string, s cri.StreamIO) (int32, error) {
				if s.Stdin != nil {
					if _, err := io.Copy(s.Stdout, s.Stdin); err != nil {
						return 0, err
					}
				}
				_, err := fmt.Fprintln(s.Stdout, strings.Join(command, " "), "tty", s.TTY)
				if command[0] == "fail" {
					return 3, err
				}
				return 0, err
			},
			Attach: func(_ context.Context, s cri.StreamIO) error {
				_, err := io.Copy(s.Stdout, s.Stdin)
				return err
			},
			Port: simulated.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "you are at "+r.URL.Path) })),
		},
	}
	env := &envtest.Environment{Nodes: cluster.Nodes{Count: 1, Runtime: func(string) simulated.Options {
		return simulated.Options{Program: func(simulated.Process) simulated.Program { return program }}
	}}}
	start(t, env)
	config := env.Config
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	pods := api.CoreV1().Pods("default")
	if _, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.PodSpec{NodeName: "node-0", Containers: []corev1.Container{{Name: "main", Image: "web", Stdin: true}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	changes, err := pods.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()
	for e := range changes.ResultChan() {
		if pod, ok := e.Object.(*corev1.Pod); ok && pod.Status.Phase == corev1.PodRunning {
			return env, config, api
		}
	}
	t.Fatal("the pod does not run")
	return nil, nil, nil
}

// TestKubectl: kubectl reads logs of, and opens streams to, pods of simulated nodes, by both of its protocols.
func TestKubectl(t *testing.T) {
	path, err := kubectl.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	env, _, _ := scripted(t)
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, env.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	k := kubectl.Kubectl{Path: path, Kubeconfig: file, Home: t.TempDir()}
	for name, variables := range map[string][]string{
		"WebSocket": nil, "SPDY": {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false", "KUBECTL_PORT_FORWARD_WEBSOCKETS=false"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct{ args, stdin, want string }{
				{"logs web --limit-bytes=12", "", "hello\nworld\n"},
				{"logs web --tail=1", "", "world\n"},
				{"exec web -- ls -l", "", "ls -l tty false\n"},
				{"exec -i web -- cat", "typed\n", "typed\ncat tty false\n"},
				{"exec web -- fail", "", "fail tty false\ncommand terminated with exit code 3\n"},
				{"attach -i -q web", "typed\n", "typed\n"},
				{"get --raw /api/v1/nodes/node-0/proxy/healthz", "", "ok"},
				{"get --raw /api/v1/namespaces/default/pods/web:80/proxy/there", "", "you are at /there"},
			} {
				command := k.Command(t.Context(), strings.Fields(c.args)...)
				command.Env = append(command.Env, variables...)
				command.Stdin = strings.NewReader(c.stdin)
				got, _ := command.CombinedOutput()
				if text := strings.Replace(string(got), "If you don't see a command prompt, try pressing enter.\n", "", 1); text != c.want {
					t.Errorf("%s: %q, want %q", c.args, text, c.want)
				}
			}
			forward(t, k, variables)
			follow(t, env, k, variables)
		})
	}
}

// begin starts a kubectl that goes on until the function returned is called, and returns its output.
func begin(t *testing.T, k kubectl.Kubectl, variables []string, args ...string) (out *bufio.Reader, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	command := k.Command(ctx, args...)
	command.Env = append(command.Env, variables...)
	pipe, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return bufio.NewReader(pipe), func() {
		cancel()
		_ = command.Wait()
	}
}

func forward(t *testing.T, k kubectl.Kubectl, variables []string) {
	t.Helper()
	out, end := begin(t, k, variables, "port-forward", "web", ":8080")
	defer end()
	line, err := out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var local string
	if _, err := fmt.Sscanf(line, "Forwarding from %s -> ", &local); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	get(t, local)
}

func get(t *testing.T, address string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 3 {
		answer, err := client.Get("http://" + address + "/there")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || string(text) != "you are at /there" {
			t.Errorf("%q, %v", text, err)
		}
	}
}

// follow reads a line that is written while kubectl follows the log.
func follow(t *testing.T, env *envtest.Environment, k kubectl.Kubectl, variables []string) {
	t.Helper()
	out, end := begin(t, k, variables, "logs", "-f", "--tail=1", "web")
	defer end()
	node, err := env.Cluster().Node("node-0")
	if err != nil {
		t.Fatal(err)
	}
	containers, err := node.Runtime().ListContainers(t.Context(), cri.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := node.Runtime().WriteLog(containers[0].ID, "world\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := out.ReadString('\n'); err != nil || line != "world\n" {
		t.Errorf("followed %q, %v", line, err)
	}
}

// TestPortForward: client-go's own forwarding, over TLS.
func TestPortForward(t *testing.T) {
	_, config, api := scripted(t)
	at := api.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name("web").SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		t.Fatal(err)
	}
	stop, ready := make(chan struct{}), make(chan struct{})
	f, err := portforward.New(spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, at), []string{"0:80"}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- f.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	case <-time.After(time.Minute):
		t.Fatal("nothing is forwarded")
	}
	ports, err := f.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	get(t, fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
	close(stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
