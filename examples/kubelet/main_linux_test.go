package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/client/kubeconfig"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/remote"
	"github.com/keelson-dev/keelson/internal/clusterprocess"
	"github.com/keelson-dev/keelson/node/containerd"
	"github.com/keelson-dev/keelson/node/containerd/containerdtest"
	"github.com/keelson-dev/keelson/node/host"
	"github.com/keelson-dev/keelson/pki"
)

// world is a cluster without nodes, and a containerd.
type world struct {
	t         *testing.T
	ctx       context.Context
	dir       string // of the cluster
	program   string // the built kubelet
	server    clusterprocess.Program
	args      []string
	root      string
	cluster   *clusterprocess.Process
	clients   kubernetes.Interface
	authority *pki.Authority
	daemon    *containerd.Daemon
	runtime   *remote.Runtime
}

func newWorld(t *testing.T) *world {
	t.Helper()
	root := t.TempDir()
	t.Cleanup(func() { // after that of containerd
		if err := host.Clean(context.Background(), root); err != nil {
			t.Error(err)
		}
	})
	daemon := containerdtest.Start(t, containerdtest.Options{})
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, dir: filepath.Join(t.TempDir(), "cluster"), root: root, daemon: daemon}
	w.program = filepath.Join(t.TempDir(), "kubelet")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", w.program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var err error
	w.server, err = clusterprocess.Build(ctx, t.TempDir())
	w.check(err)
	w.cluster, err = w.server.Start(ctx, w.dir, "--disable", "nodes")
	w.check(err)
	t.Cleanup(func() {
		if err := w.cluster.Interrupt(); err != nil {
			t.Error(err)
		}
	})
	config, err := w.cluster.Config()
	w.check(err)
	w.clients, err = kubernetes.NewForConfig(config)
	w.check(err)
	w.authority, err = pki.Open(filepath.Join(w.dir, "pki"), "kubernetes")
	w.check(err)
	w.runtime, err = remote.New(daemon.Socket(), remote.Options{})
	w.check(err)
	t.Cleanup(func() { _ = w.runtime.Close() })
	w.check(os.Mkdir(filepath.Join(root, "manifests"), 0o700))
	w.args = []string{
		"--kubeconfig", w.kubeconfig("system:node:n1", "system:nodes"), "--node-name", "n1", "--runtime-endpoint", daemon.Socket(),
		"--root-dir", w.root, "--pod-logs-dir", filepath.Join(w.root, "logs"), "--cgroup-root", daemon.CgroupRoot() + "/kubepods",
		"--static-pods", filepath.Join(w.root, "manifests"), "--eviction-hard", "memory.available=10Mi",
		"--listen", "127.0.0.1:0", "--client-ca", filepath.Join(w.dir, "pki", "ca.crt"),
	}
	_, err = w.clients.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "logs"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kubelet-api-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: apiServer}},
	}, metav1.CreateOptions{})
	w.check(err)
	return w
}

// apiServer is the user name that API servers usually have for kubelets.
const apiServer = "kube-apiserver-kubelet-client"

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// issue makes a client certificate.
func (w *world) issue(user string, groups ...string) pki.Pair {
	w.t.Helper()
	pair, err := w.authority.Issue(pki.Subject{Name: user, Groups: groups}, time.Hour)
	w.check(err)
	return pair
}

// kubeconfig writes a kubeconfig for a user.
func (w *world) kubeconfig(user string, groups ...string) string {
	w.t.Helper()
	pair, path := w.issue(user, groups...), filepath.Join(w.t.TempDir(), "kubeconfig")
	w.check(kubeconfig.Add(w.ctx, path, kubeconfig.Entry{
		Name: "c", User: "u", Server: w.cluster.URL, CA: w.authority.PEM(), Certificate: pair.Certificate, Key: pair.Key,
	}))
	return path
}

// process is a running kubelet.
type process struct {
	w       *world
	command *exec.Cmd
	url     string
	done    chan struct{}
	ended   error

	mu     sync.Mutex
	output bytes.Buffer
}

// start starts a kubelet and returns when it serves.
func (w *world) start() *process {
	w.t.Helper()
	p := &process{w: w, command: exec.CommandContext(w.ctx, w.program, w.args...), done: make(chan struct{})}
	pipe, err := p.command.StdoutPipe()
	w.check(err)
	p.command.Stderr = p.command.Stdout
	w.check(p.command.Start())
	urls := make(chan string, 1)
	go p.read(pipe, urls)
	w.t.Cleanup(func() {
		_ = p.command.Process.Kill()
		<-p.done
		if w.t.Failed() {
			w.t.Logf("a kubelet printed:\n%s", p.text())
		}
	})
	select {
	case p.url = <-urls:
	case <-p.done:
		w.t.Fatalf("the kubelet ended: %v\n%s", p.ended, p.text())
	case <-time.After(time.Minute):
		w.t.Fatal("the kubelet does not say where it serves")
	}
	return p
}

// read collects the output until the process has ended.
func (p *process) read(from io.Reader, urls chan<- string) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		p.mu.Lock()
		fmt.Fprintln(&p.output, lines.Text())
		p.mu.Unlock()
		if _, rest, found := strings.Cut(lines.Text(), "server at "); found && strings.HasPrefix(lines.Text(), "node n1 at 127.0.0.1") {
			at, _, _ := strings.Cut(rest, ",")
			urls <- at
		}
	}
	p.ended = p.command.Wait()
	close(p.done)
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// end sends a signal and returns the process's error.
func (p *process) end(s os.Signal) error {
	p.w.t.Helper()
	p.w.check(p.command.Process.Signal(s))
	<-p.done
	return p.ended
}

// get sends a request to the kubelet's server.
func (p *process) get(path string, certificate *pki.Pair, token string) *http.Response {
	p.w.t.Helper()
	own, err := os.ReadFile(filepath.Join(p.w.root, "pki", "ca.crt"))
	p.w.check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(own)
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if certificate != nil {
		c, err := certificate.TLS()
		p.w.check(err)
		config.Certificates = []tls.Certificate{c}
	}
	request, err := http.NewRequestWithContext(p.w.ctx, http.MethodGet, p.url+path, nil)
	p.w.check(err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: config}
	p.w.t.Cleanup(transport.CloseIdleConnections)
	response, err := transport.RoundTrip(request)
	p.w.check(err)
	return response
}

// until follows the pod's log until the line appears.
func (p *process) until(line string) {
	p.w.t.Helper()
	pair := p.w.issue(apiServer)
	const path = "/containerLogs/default/pod/main?follow=true"
	response := p.get(path, &pair, "")
	for end := time.Now().Add(30 * time.Second); response.StatusCode == http.StatusNotFound && time.Now().Before(end); {
		_ = response.Body.Close() // it does not know the pod yet
		time.Sleep(20 * time.Millisecond)
		response = p.get(path, &pair, "")
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		p.w.t.Fatalf("log: %s: %s", response.Status, text)
	}
	var all []string
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if all = append(all, lines.Text()); lines.Text() == line {
			return
		}
	}
	p.w.t.Fatalf("the log ends without %q:\n%s", line, strings.Join(all, "\n"))
}

// pod waits until a pod satisfies good; it passes nil when the pod is gone.
func (w *world) pod(namespace, name, what string, good func(*corev1.Pod) bool) *corev1.Pod {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	pods, o := w.clients.CoreV1().Pods(namespace), metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
	var last *corev1.Pod
	for ctx.Err() == nil {
		list, err := pods.List(ctx, o)
		if err != nil {
			break
		}
		last = nil
		if len(list.Items) == 1 {
			last = &list.Items[0]
		}
		if good(last) {
			return last
		}
		o.ResourceVersion, o.TimeoutSeconds = list.ResourceVersion, ptr.To[int64](60)
		changes, err := pods.Watch(ctx, o)
		if err != nil {
			break
		}
		<-changes.ResultChan()
		changes.Stop()
		o.ResourceVersion, o.TimeoutSeconds = "", nil
	}
	text, _ := json.MarshalIndent(last, "", " ")
	w.t.Fatalf("pod %s does not become %s:\n%s", name, what, text)
	return nil
}

func ready(pod *corev1.Pod) bool {
	return pod != nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func gone(pod *corev1.Pod) bool { return pod == nil }

// objects creates the pod and the objects it refers to.
func (w *world) objects() {
	w.t.Helper()
	_, err := w.clients.CoreV1().ConfigMaps("default").Create(w.ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "config"}, Data: map[string]string{"key": "one"},
	}, metav1.CreateOptions{})
	w.check(err)
	_, err = w.clients.CoreV1().Secrets("default").Create(w.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "secret"}, Data: map[string][]byte{"key": []byte("hidden")},
	}, metav1.CreateOptions{})
	w.check(err)
	_, err = w.clients.CoreV1().Pods("default").Create(w.ctx, examplePod(), metav1.CreateOptions{})
	w.check(err)
}

const script = `trap 'exit 0' TERM
echo "secret $(cat /all/secret) $FROM_SECRET"
cut -d. -f2 /all/token >/dev/null && [ -s /all/token ] && echo token
last=; while :; do now=$(cat /config/key); [ "$now" = "$last" ] || echo "config $now"; last=$now; sleep 0.1; done`

func examplePod() *corev1.Pod {
	config, secret := corev1.LocalObjectReference{Name: "config"}, corev1.LocalObjectReference{Name: "secret"}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default"}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: ptr.To[int64](2),
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: config}}},
			{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr.To[int64](3600)}},
				{Secret: &corev1.SecretProjection{LocalObjectReference: secret, Items: []corev1.KeyToPath{{Key: "key", Path: "secret"}}}},
			}}}},
		},
		Containers: []corev1.Container{{
			Name: "main", Image: containerdtest.Busybox, ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"sh", "-c", script},
			Env: []corev1.EnvVar{{Name: "FROM_SECRET", ValueFrom: &corev1.EnvVarSource{
				SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: secret, Key: "key"},
			}}},
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/config"}, {Name: "all", MountPath: "/all"}},
		}},
	}}
}

// configure changes the ConfigMap.
func (w *world) configure(value string) {
	w.t.Helper()
	_, err := w.clients.CoreV1().ConfigMaps("default").Update(w.ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "config"}, Data: map[string]string{"key": value},
	}, metav1.UpdateOptions{})
	w.check(err)
}

// left lists what pods have left on the machine.
func (w *world) left() []string {
	w.t.Helper()
	list, err := w.daemon.Leftovers(w.ctx)
	w.check(err)
	own := "mount " + filepath.Dir(w.daemon.Socket())
	list = slices.DeleteFunc(list, func(name string) bool {
		return name == own || strings.HasPrefix(name, "containerd ") || strings.HasPrefix(name, "cgroup ")
	})
	for _, pattern := range []string{
		w.root + "/pods/*", w.root + "/logs/*", "/sys/fs/cgroup/*" + w.daemon.CgroupRoot() + "/kubepods/*/pod*",
		"/sys/fs/cgroup" + w.daemon.CgroupRoot() + "/kubepods/*/pod*",
	} {
		more, err := filepath.Glob(pattern)
		w.check(err)
		list = append(list, more...)
	}
	return list
}

// serviceAccountToken is a token of a new service account, which may or may not read metrics of nodes.
func (w *world) serviceAccountToken(name string, may bool) string {
	w.t.Helper()
	accounts := w.clients.CoreV1().ServiceAccounts("default")
	_, err := accounts.Create(w.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	w.check(err)
	if may {
		rbac := w.clients.RbacV1()
		_, err := rbac.ClusterRoles().Create(w.ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes/metrics"}},
		}}, metav1.CreateOptions{})
		w.check(err)
		_, err = rbac.ClusterRoleBindings().Create(w.ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: name}},
		}, metav1.CreateOptions{})
		w.check(err)
	}
	made, err := accounts.CreateToken(w.ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	w.check(err)
	return made.Status.Token
}

// refusals are the requests of the node that the API server did not permit, and the number of all its requests.
func (w *world) refusals() (list []string, total int) {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.dir, "audit.log"))
	w.check(err)
	for line := range bytes.Lines(data) {
		var e struct {
			User           struct{ Username string }
			Verb           string
			RequestURI     string
			ResponseStatus struct {
				Code            int
				Reason, Message string
			}
		}
		w.check(json.Unmarshal(line, &e))
		if e.User.Username != "system:node:n1" {
			continue
		}
		total++
		if c := e.ResponseStatus.Code; c == http.StatusForbidden || c == http.StatusUnauthorized {
			list = append(list, fmt.Sprint(e.Verb, " ", e.RequestURI, ": ", e.ResponseStatus.Message))
		}
	}
	return list, total
}

// TestNode: a pod that uses everything a node reads for it survives failures and restarts of the kubelet and the API
// server.
func TestNode(t *testing.T) {
	w := newWorld(t)
	first := w.start()
	w.objects()
	before := w.pod("default", "pod", "ready", ready)
	for _, line := range []string{"secret hidden hidden", "token", "config one"} {
		first.until(line)
	}
	w.access(first)
	w.configure("two")
	first.until("config two")

	_ = first.end(os.Kill)
	second := w.start()
	w.configure("three")
	second.until("config three")
	if err := second.end(os.Interrupt); err != nil {
		t.Errorf("after Ctrl-C: %v", err)
	}
	id := strings.TrimPrefix(before.Status.ContainerStatuses[0].ContainerID, "containerd://")
	if c, err := w.runtime.ContainerStatus(w.ctx, id); err != nil || c.State != cri.ContainerRunning {
		t.Errorf("after Ctrl-C the container is %v: %v", c.State, err)
	}

	third := w.start()
	w.configure("four")
	third.until("config four")
	after := w.pod("default", "pod", "ready", ready)
	if a, b := after.Status.ContainerStatuses[0], before.Status.ContainerStatuses[0]; a.ContainerID != b.ContainerID || a.RestartCount != 0 {
		t.Errorf("container %s has become %s, with %d restarts", b.ContainerID, a.ContainerID, a.RestartCount)
	}
	w.serverRestarts()
	w.configure("five")
	third.until("config five")
	w.static()
	w.check(w.clients.CoreV1().Pods("default").Delete(w.ctx, "pod", metav1.DeleteOptions{}))
	w.pod("default", "pod", "gone", gone)
	for end := time.Now().Add(30 * time.Second); len(w.left()) > 0; time.Sleep(50 * time.Millisecond) { // polled
		if time.Now().After(end) {
			t.Fatalf("left behind: %v", w.left())
		}
	}
	refused, total := w.refusals()
	if len(refused) > 0 || total < 50 {
		t.Errorf("of %d requests the API server refused %d: %s", total, len(refused), strings.Join(refused, "\n"))
	}
	if err := third.end(os.Interrupt); err != nil {
		t.Errorf("after Ctrl-C: %v", err)
	}
}

// serverRestarts kills the API server and starts it again at the same address.
func (w *world) serverRestarts() {
	w.t.Helper()
	w.check(w.cluster.Kill())
	again, err := w.server.Start(w.ctx, w.dir, "--disable", "nodes", "--listen", strings.TrimPrefix(w.cluster.URL, "https://"))
	w.check(err)
	w.cluster = again
}

// access checks who may use the kubelet's server.
func (w *world) access(p *process) {
	w.t.Helper()
	stranger, apiserver := w.issue("jane"), w.issue(apiServer)
	elsewhere, err := pki.New("elsewhere")
	w.check(err)
	forged, err := elsewhere.Issue(pki.Subject{Name: apiServer, Groups: []string{"system:masters"}}, time.Hour)
	w.check(err)
	const logs = "/containerLogs/default/pod/main"
	for name, c := range map[string]struct {
		path        string
		certificate *pki.Pair
		token       string
		want        int
	}{
		"nobody":                            {logs, nil, "", http.StatusUnauthorized},
		"bad token":                         {logs, nil, "x", http.StatusUnauthorized},
		"other authority":                   {logs, &forged, "", http.StatusUnauthorized},
		"no permission":                     {logs, &stranger, "", http.StatusForbidden},
		"API server":                        {logs, &apiserver, "", http.StatusOK},
		"token with permission":             {"/metrics/resource", nil, w.serviceAccountToken("may", true), http.StatusOK},
		"token without permission":          {"/metrics/resource", nil, w.serviceAccountToken("may-not", false), http.StatusForbidden},
		"token without permission for logs": {logs, nil, w.serviceAccountToken("may-not-logs", false), http.StatusForbidden},
	} {
		response := p.get(c.path, c.certificate, c.token)
		text, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != c.want {
			w.t.Errorf("%s: %s, want %d: %s", name, response.Status, c.want, text)
		}
	}
}

// static runs a pod from a manifest.
func (w *world) static() {
	w.t.Helper()
	manifest := filepath.Join(w.root, "manifests", "echo.yaml")
	w.check(os.WriteFile(manifest, []byte(`apiVersion: v1
kind: Pod
metadata: {name: echo, namespace: default}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: c, image: `+containerdtest.Busybox+`, imagePullPolicy: Never, command: [sleep, "1000"]}
`), 0o600))
	w.pod("default", "echo-n1", "ready", ready)
	w.check(os.Remove(manifest))
	w.pod("default", "echo-n1", "gone", gone)
}
