package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// childVariable names the directory of the programs in a child that starts a control plane and waits to be killed.
const childVariable = "KEELSON_ASSETS_CHILD"

// TestMain lets the test's own binary be the programs: install copies it.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case etcdName, apiServerName:
		main()
		return
	}
	if dir := os.Getenv(childVariable); dir != "" {
		env := &envtest.Environment{BinaryAssetsDirectory: dir}
		_, err := env.Start()
		fmt.Println("started", err)
		select {}
	}
	os.Exit(m.Run())
}

// patience bounds what takes milliseconds.
const patience = 30 * time.Second

// installed installs the programs.
func installed(t testing.TB, flags ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "assets")
	if err := install(t.Context(), append(flags, dir)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// begin starts an environment on the programs.
func begin(t testing.TB, dir string, env *envtest.Environment) *rest.Config {
	t.Helper()
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	return config
}

func clientOf(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	api, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// running returns the command lines of the programs of a directory that run.
func running(t testing.TB, dir string) []string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("there is no list of processes in files")
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range lines {
		if line, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(line), dir+"/") {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// program is one of the programs that was started by itself.
type program struct {
	*exec.Cmd
	out  bytes.Buffer
	done chan struct{}
}

// launch starts a program, which is killed at the end of the test.
func launch(t *testing.T, path string, args ...string) *program {
	t.Helper()
	p := &program{Cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.Stdout, p.Stderr = &p.out, &p.out
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.done
	})
	return p
}

// ended waits for the end of a program and returns what it said.
func (p *program) ended(t *testing.T) string {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatalf("%s does not end", p.Path)
	}
	return p.out.String()
}

// launchEtcd starts an etcd and returns its URL.
func launchEtcd(t *testing.T, dir string) string {
	t.Helper()
	url := "http://" + freeAddress(t)
	launch(t, filepath.Join(dir, etcdName), "--data-dir="+t.TempDir(), "--listen-client-urls="+url, "--unsafe-no-fsync=true")
	await(t, "etcd is healthy", func() bool { return healthy(t.Context(), http.DefaultClient, url+"/health") })
	return url
}

func healthy(ctx context.Context, c *http.Client, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := c.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// TestRestart: the API server alone is stopped and started again, and the state is as before.
func TestRestart(t *testing.T) {
	env := &envtest.Environment{}
	config := begin(t, installed(t), env)
	api := clientOf(t, config)
	before := &corev1.ConfigMap{Data: map[string]string{"a": "b"}}
	before.Namespace, before.Name = "default", "kept"
	if err := api.Create(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	server := env.ControlPlane.GetAPIServer()
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := api.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "kept"}, &corev1.ConfigMap{}); err == nil {
		t.Error("it serves after its end")
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	user, err := env.AddUser(envtest.User{Name: "again", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var after corev1.ConfigMap
	if err := clientOf(t, user.Config()).Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "kept"}, &after); err != nil {
		t.Fatal(err)
	}
	if after.UID != before.UID || after.Data["a"] != "b" {
		t.Errorf("it is %+v after the restart", after)
	}
}

// TestNothingRemains: after Stop, and after the death of the process that started them, the programs are gone.
func TestNothingRemains(t *testing.T) {
	dir := installed(t)
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	env := &envtest.Environment{}
	if _, err := env.Start(); err != nil {
		t.Fatal(err)
	}
	if all := running(t, dir); len(all) != 2 {
		t.Errorf("running: %q", all)
	}
	if err := env.Stop(); err != nil {
		t.Error(err)
	}
	if all := running(t, dir); len(all) > 0 {
		t.Errorf("after the end: %q", all)
	}

	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(own)
	child.Env = append(os.Environ(), childVariable+"="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 200)
	n, _ := out.Read(said)
	if all := running(t, dir); string(said[:n]) != "started <nil>\n" || len(all) != 2 {
		t.Errorf("the child says %q and runs %q", said[:n], all)
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	await(t, "the programs of a killed process end", func() bool { return len(running(t, dir)) == 0 })
}

// TestKilled: a killed API server loses nothing.
func TestKilled(t *testing.T) {
	dir := installed(t)
	etcd := launchEtcd(t, dir)
	tokens := file(t, "tokens.csv", "t0ken,admin,1,system:masters\n")
	var uid types.UID
	for _, phase := range []string{"first", "second"} {
		address := freeAddress(t)
		host, port, _ := strings.Cut(address, ":")
		p := launch(t, filepath.Join(dir, apiServerName), "--etcd-servers="+etcd, "--bind-address="+host, "--secure-port="+port,
			"--cert-dir="+t.TempDir(), "--token-auth-file="+tokens, "--authorization-mode=RBAC")
		config := &rest.Config{Host: "https://" + address, BearerToken: "t0ken", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
		plain, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		await(t, "the server is ready", func() bool { return healthy(t.Context(), plain, config.Host+"/readyz") })
		api := clientOf(t, config)
		object := &corev1.ConfigMap{}
		object.Namespace, object.Name = "default", "kept"
		if phase == "first" {
			if err := api.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			uid = object.UID
		} else if err := api.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil || object.UID != uid {
			t.Errorf("%v, %q, was %q", err, object.UID, uid)
		}
		_ = p.Process.Kill()
		p.ended(t)
	}
}

const admissionConfiguration = `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AdmissionConfiguration","plugins":[
	{"name":"PodNodeSelector","configuration":{"podNodeSelectorPluginConfig":{"clusterDefaultNodeSelector":"pool=blue"}}}]}`

// TestABAC: a policy file decides, and plugins that are off by default can be added.
func TestABAC(t *testing.T) {
	env := &envtest.Environment{}
	policies := file(t, "policies", `{"user":"reader","namespace":"default","readonly":true}`+"\n"+
		`{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"reader","nonResourcePath":"/api*","readonly":true}}`)
	env.ControlPlane.GetAPIServer().Configure().Set("authorization-mode", "ABAC").Set("authorization-policy-file", policies).
		Set("enable-admission-plugins", "AlwaysPullImages", "PodNodeSelector").Set("admission-control-config-file", file(t, "admission.yaml", admissionConfiguration))
	config := begin(t, installed(t), env)
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web", ImagePullPolicy: corev1.PullNever}}}}
	pod.Namespace, pod.Name = "default", "p"
	if err := clientOf(t, config).Create(t.Context(), pod); err != nil || pod.Spec.Containers[0].ImagePullPolicy != corev1.PullAlways || pod.Spec.NodeSelector["pool"] != "blue" {
		t.Errorf("%v, %v", pod.Spec, err)
	}
	config.Impersonate.UserName = "reader"
	as := clientOf(t, config)
	if err := as.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		t.Error(err)
	}
	if err := as.Delete(t.Context(), pod); !apierrors.IsForbidden(err) {
		t.Errorf("the reader deletes: %v", err)
	}
	if err := as.List(t.Context(), &corev1.PodList{}, client.InNamespace("kube-system")); !apierrors.IsForbidden(err) {
		t.Errorf("the reader reads elsewhere: %v", err)
	}
}

// TestStartsThatFail: what a program cannot do, it says, and how to go on.
func TestStartsThatFail(t *testing.T) {
	dir := installed(t)
	etcd := launchEtcd(t, dir)
	used := strings.TrimPrefix(etcd, "http://")
	host, port, _ := strings.Cut(used, ":")
	text := file(t, "text", "no certificate\n")
	half := t.TempDir()
	write(t, filepath.Join(half, "apiserver.crt"), "x")
	write(t, filepath.Join(half, "apiserver.key"), "x")
	good := []string{"--etcd-servers=" + etcd, "--bind-address=127.0.0.1", "--secure-port=0", "--cert-dir=" + t.TempDir()}
	other := launch(t, filepath.Join(dir, apiServerName), good...)
	held := filepath.Join(dataOf(t, etcd), "LOCK")
	await(t, "the first server has the state", func() bool { _, err := os.Stat(held); return err == nil })
	for name, c := range map[string]struct {
		program string
		args    []string
		want    []string
	}{
		"etcd's port is in use":      {etcdName, []string{"--data-dir=" + t.TempDir(), "--listen-client-urls=" + etcd}, []string{"--listen-client-urls", "address already in use", used}},
		"etcd's directory is a file": {etcdName, []string{"--data-dir=" + text}, []string{"--data-dir", "not a directory"}},
		"etcd with TLS":              {etcdName, []string{"--data-dir=" + t.TempDir(), "--listen-client-urls=https://127.0.0.1:0"}, []string{"--listen-client-urls", "http://HOST:PORT"}},
		"the port is in use":         {apiServerName, append(good, "--bind-address="+host, "--secure-port="+port), []string{"--secure-port", "address already in use", used}},
		"no etcd":                    {apiServerName, good[1:], []string{"--etcd-servers is missing"}},
		"no etcd there":              {apiServerName, append(good[1:], "--etcd-servers=http://"+freeAddress(t)), []string{"--etcd-servers", "connection refused"}},
		"another etcd":               {apiServerName, append(good[1:], "--etcd-servers="+etcd+"/other"), []string{"--etcd-servers", "the etcd beside it only", "404"}},
		"a second API server":        {apiServerName, good, []string{"--etcd-servers", "another kube-apiserver works with it", "one at a time"}},
		"a certificate that is none": {apiServerName, append(good, "--cert-dir="+half), []string{"--cert-dir", half, "PEM"}},
		"no client authority":        {apiServerName, append(good, "--client-ca-file="+filepath.Join(half, "none")), []string{"--client-ca-file", "no such file"}},
		"a bad client authority":     {apiServerName, append(good, "--client-ca-file="+text), []string{"--client-ca-file", "malformed"}},
		"a bad signing key":          {apiServerName, append(good, "--service-account-signing-key-file="+text), []string{"--service-account-signing-key-file", text}},
		"a bad mode":                 {apiServerName, append(good, "--authorization-mode=AABC"), []string{`authorization-mode "AABC" is not a valid mode`}},
		"ABAC without policies":      {apiServerName, append(good, "--authorization-mode=ABAC"), []string{"authorization-mode ABAC's authorization policy file not passed"}},
		"policies without ABAC":      {apiServerName, append(good, "--authorization-policy-file="+text), []string{"cannot specify --authorization-policy-file without mode ABAC"}},
		"a bad configuration":        {apiServerName, append(good, "--admission-control-config-file="+text), []string{"--admission-control-config-file: " + text}},
		"bad policies":               {apiServerName, append(good, "--authorization-mode=ABAC", "--authorization-policy-file="+text), []string{"error reading policy file " + text + ", line 1: no certificate"}},
		"a bad network":              {apiServerName, append(good, "--service-cluster-ip-range=10.0.0.0"), []string{"--service-cluster-ip-range"}},
		"a bad number":               {apiServerName, append(good, "--secure-port=x"), []string{"--secure-port", "invalid"}},
		"a bad audit policy":         {apiServerName, append(good, "--audit-log-path="+filepath.Join(half, "log"), "--audit-policy-file="+text), []string{"--audit-policy-file"}},
		"too many nodes":             {apiServerName, append(good, "--keelson-nodes=9999"), []string{"--keelson-nodes", "5000"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := launch(t, filepath.Join(dir, c.program), c.args...)
			said := p.ended(t)
			if p.ProcessState.Success() {
				t.Error("it ends without an error")
			}
			for _, want := range append(c.want, "error: ") {
				if !strings.Contains(said, want) {
					t.Errorf("it does not say %q:\n%s", want, said)
				}
			}
		})
	}
	if err := other.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if said := other.ended(t); !other.ProcessState.Success() {
		t.Errorf("%v: %s", other.ProcessState, said)
	}
}

// TestHelp: envtest looks for flags in the text, which has one at the beginning of a line.
func TestHelp(t *testing.T) {
	dir := installed(t)
	for _, c := range []struct {
		program, flag string
		want          bool
	}{
		{etcdName, "unsafe-no-fsync", true}, {apiServerName, "insecure-port", false}, {apiServerName, "secure-port", true},
	} {
		out, err := exec.Command(filepath.Join(dir, c.program), "--help").CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		if found := regexp.MustCompile(`(?m)^\s*--` + c.flag + `\b`).Match(out); found != c.want {
			t.Errorf("%s --help has --%s: %t\n%s", c.program, c.flag, found, out)
		}
	}
}

// TestInstall: programs are written anew while they run, and what cannot be done is said.
func TestInstall(t *testing.T) {
	dir := installed(t)
	launchEtcd(t, dir)
	if err := install(t.Context(), []string{dir, "--keelson-nodes=3"}); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, rememberedName)); err != nil || !strings.Contains(string(text), "nodes=3") {
		t.Errorf("%s, %v", text, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 4 {
		t.Errorf("it leaves %v, %v", entries, err)
	}
	for _, args := range [][]string{{}, {dir, dir}, {"--no-such-flag", dir}, {"--keelson-nodes=-1", dir}, {file(t, "text", "")}} {
		if err := install(t.Context(), args); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}

// BenchmarkStart measures what a suite waits for at its start.
func BenchmarkStart(b *testing.B) {
	b.Setenv("KUBEBUILDER_ASSETS", installed(b))
	for b.Loop() {
		env := &envtest.Environment{}
		if _, err := env.Start(); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := env.Stop(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	write(t, path, text)
	return path
}

// dataOf asks an etcd for its directory.
func dataOf(t *testing.T, etcd string) string {
	t.Helper()
	l, err := borrow(t.Context(), etcd)
	if err != nil {
		t.Fatal(err)
	}
	return l.Dir
}
