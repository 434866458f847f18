package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/serviceaccount"
	"github.com/keelson-dev/keelson/internal/clusterprocess"
	"github.com/keelson-dev/keelson/pki"
)

// built is the example, which takes longer to link than most tests to run.
var built func() (clusterprocess.Program, error) // made by TestMain

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "keelson-cluster-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // other users run it, too
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built = sync.OnceValues(func() (clusterprocess.Program, error) { return clusterprocess.Build(context.Background(), dir) })
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// program is the example, built once for all tests of this package.
func program(t *testing.T) clusterprocess.Program {
	t.Helper()
	p, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func started(t *testing.T, p clusterprocess.Program, dir string, args ...string) *clusterprocess.Process {
	t.Helper()
	process, err := p.Start(t.Context(), dir, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Kill() }) // if the test did not end it
	return process
}

func clients(t *testing.T, process *clusterprocess.Process) (*rest.Config, kubernetes.Interface) {
	t.Helper()
	config, err := process.Config()
	if err != nil {
		t.Fatal(err)
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return config, api
}

// TestStartsThatFail: every failed start ends with exit code 1 and a message with the cause and the next step.
func TestStartsThatFail(t *testing.T) {
	p := program(t)
	used := filepath.Join(t.TempDir(), "used")
	running := started(t, p, used)
	address := strings.TrimPrefix(running.URL, "https://")
	for name, c := range map[string]struct {
		prepare func(t *testing.T, dir string)
		args    []string
		want    []string
	}{
		"port in use":       {args: []string{"--listen", address}, want: []string{"address already in use", address, "choose another port"}},
		"address of others": {args: []string{"--listen", "192.0.2.1:0"}, want: []string{"192.0.2.1", "cannot assign requested address"}},
		"directory in use":  {args: []string{"--data-dir", used}, want: []string{"in use", filepath.Join(used, "store")}},
		"foreign directory": {
			prepare: func(t *testing.T, dir string) { write(t, filepath.Join(dir, "thesis.doc"), "chapter 1") },
			want:    []string{"--data-dir", "thesis.doc", "choose an empty or new directory"},
		},
		"directory with a newer layout": {
			prepare: func(t *testing.T, dir string) { write(t, filepath.Join(dir, marker), "7\n") },
			want:    []string{"--data-dir", `"7"`, "another directory"},
		},
		"directory is a file": {
			prepare: func(t *testing.T, dir string) { remove(t, dir); write(t, dir, "x") },
			want:    []string{"--data-dir", "not a directory"},
		},
		"damaged authority": {
			prepare: func(t *testing.T, dir string) { use(t, p, dir); write(t, filepath.Join(dir, "pki", "ca.crt"), "x") },
			want:    []string{"unusable certificate or key", "ca.crt", "put the right pair back"},
		},
		"damaged store": {
			prepare: func(t *testing.T, dir string) { use(t, p, dir); damage(t, filepath.Join(dir, "store")) },
			want:    []string{"store is damaged", "at byte", "restore the directory from a backup"},
		},
		"missing etcd": {
			args: []string{"--storage", "etcd", "--etcd-endpoints", "http://127.0.0.1:1"},
			want: []string{"--storage etcd", "http://127.0.0.1:1", "connection refused", "--etcd-"},
		},
		"damaged kubeconfig": {
			prepare: func(t *testing.T, dir string) { use(t, p, dir); write(t, filepath.Join(dir, "kubeconfig"), "{{{") },
			want:    []string{"kubeconfig"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if c.prepare != nil {
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				c.prepare(t, dir)
			}
			text, code, err := p.Fail(t.Context(), append([]string{"--data-dir", dir, "--listen", "127.0.0.1:0"}, c.args...)...)
			if err != nil || code != 1 || !strings.HasPrefix(text, "error: ") || strings.Contains(text, "goroutine") || strings.Contains(text, "PRIVATE") {
				t.Fatalf("code %d, %v: %s", code, err, text)
			}
			for _, part := range c.want {
				if !strings.Contains(text, part) {
					t.Errorf("%s\ndoes not say %q", text, part)
				}
			}
		})
	}
	if text, code, err := p.Fail(t.Context(), "--nodes", "x"); err != nil || code != 2 || !strings.HasPrefix(text, "error: ") {
		t.Errorf("bad flag: code %d, %v: %s", code, err, text)
	}
	if text, code, err := p.Fail(t.Context(), "--help"); err != nil || code != 0 || !strings.Contains(text, "Usage:") {
		t.Errorf("help: code %d, %v: %s", code, err, text)
	}
	if err := running.Interrupt(); err != nil {
		t.Error(err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// use makes dir the data directory of a cluster that has run and stopped.
func use(t *testing.T, p clusterprocess.Program, dir string) {
	t.Helper()
	if err := started(t, p, dir).Interrupt(); err != nil {
		t.Fatal(err)
	}
}

// damage changes a byte in the middle of each large file.
func damage(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > 1000 {
			data[len(data)/2] ^= 0xff
			write(t, path, string(data))
		}
	}
}

// TestInterrupt: on Ctrl-C the watch ends and the process stops gracefully; only the owner can read the kubeconfig.
func TestInterrupt(t *testing.T) {
	process := started(t, program(t), filepath.Join(t.TempDir(), "data"))
	_, api := clients(t, process)
	w, err := api.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(process.Kubeconfig)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig: %v %v", info.Mode(), err)
	}
	began := time.Now()
	if err := process.Interrupt(); err != nil {
		t.Error(err)
	}
	for range w.ResultChan() {
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("the end took %v: the watch was cut off instead of ended", took)
	}
	if text := process.Output(); !strings.Contains(text, "ending") || strings.Contains(text, "error") {
		t.Error(text)
	}
}

// TestForgedAndForeignCredentials: clients with unknown credentials get 401, and a client that does not trust the
// cluster ends the handshake.
func TestForgedAndForeignCredentials(t *testing.T) {
	process := started(t, program(t), filepath.Join(t.TempDir(), "data"), "--storage", "memory")
	config, _ := clients(t, process)
	other, err := pki.New("kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	forged, err := other.Issue(pki.Subject{Name: "kubernetes-admin", Groups: []string{"system:masters"}}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	list := func(change func(*rest.Config)) error {
		c := rest.CopyConfig(config)
		change(c)
		api, err := kubernetes.NewForConfig(c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = api.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
		return err
	}
	if err := list(func(c *rest.Config) { c.CertData, c.KeyData = forged.Certificate, forged.Key }); !apierrors.IsUnauthorized(err) {
		t.Errorf("a certificate of another authority: %v", err)
	}
	if err := list(func(c *rest.Config) { c.CertData, c.KeyData = nil, nil; c.BearerToken = "secret-of-jane" }); !apierrors.IsUnauthorized(err) {
		t.Errorf("an unknown token: %v", err)
	}
	if err := list(func(c *rest.Config) { c.CertData, c.KeyData = nil, nil }); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "system:anonymous") {
		t.Errorf("no credentials: %v", err)
	}
	if err := list(func(c *rest.Config) { c.CAData = other.PEM() }); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("another authority of the server: %v", err)
	}
	if text := process.Output(); strings.Contains(text, "secret-of-jane") || strings.Contains(text, "goroutine") {
		t.Error(text)
	}
}

// TestExpiredToken: the client gets 401, the log has the reason, and nothing shows the token.
func TestExpiredToken(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	process := started(t, program(t), dir, "--storage", "memory", "--verbose")
	config, api := clients(t, process)
	var account *corev1.ServiceAccount
	eventually(t, "there is a service account", func() (ok bool) {
		var err error
		account, err = api.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	key, err := serviceaccount.OpenKey(filepath.Join(dir, "pki", "sa.key"))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := serviceaccount.NewKeys(key)
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := serviceaccount.NewIssuer("https://kubernetes.default.svc.cluster.local", keys)
	if err != nil {
		t.Fatal(err)
	}
	pods := func(expires time.Time) (token string, err error) {
		token, err = issuer.Issue(t.Context(), authn.Claims{
			Namespace: "default", ServiceAccount: authn.Ref{Name: "default", UID: string(account.UID)},
			Audiences: []string{"https://kubernetes.default.svc.cluster.local"}, IssuedAt: time.Now().Add(-time.Hour), Expires: expires,
		})
		if err != nil {
			t.Fatal(err)
		}
		c := rest.CopyConfig(config)
		c.CertData, c.KeyData, c.BearerToken = nil, nil, token
		as, err := kubernetes.NewForConfig(c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = as.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		return token, err
	}
	if _, err := pods(time.Now().Add(time.Hour)); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "system:serviceaccount:default:default") {
		t.Fatalf("a good token: %v", err)
	}
	token, err := pods(time.Now().Add(-time.Minute))
	if !apierrors.IsUnauthorized(err) {
		t.Errorf("an expired token: %v", err)
	}
	eventually(t, "the log says why", func() bool { return strings.Contains(process.Output(), "service account token has expired") })
	if strings.Contains(process.Output(), token) {
		t.Error("the token is in the log")
	}
}

// TestRequestsOutOfBounds: requests that are too large or malformed are refused with an explanation.
func TestRequestsOutOfBounds(t *testing.T) {
	process := started(t, program(t), filepath.Join(t.TempDir(), "data"), "--storage", "memory")
	config, api := clients(t, process)
	_, err := api.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "big"}, Data: map[string]string{"x": strings.Repeat("x", 4<<20)},
	}, metav1.CreateOptions{})
	if !apierrors.IsRequestEntityTooLargeError(err) || !strings.Contains(err.Error(), "limit is 3145728") {
		t.Errorf("4 MiB: %.300v", err)
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{
		`{"kind":"Pod"`:                    "unexpected end of JSON input",
		`{"kind":"Pod","apiVersion":"v9"}`: "v9",
		"\x00\x01":                         "invalid",
		`{"kind":"Pod","apiVersion":"v1","spec":{"containers":"one"}}`: "containers",
	} {
		code, text := post(t, httpClient, process.URL+"/api/v1/namespaces/default/pods", body)
		if code != http.StatusBadRequest && code != http.StatusUnprocessableEntity || !strings.Contains(text, want) || !strings.Contains(text, `"kind":"Status"`) {
			t.Errorf("%q: %d %s, want something of %q", body, code, text, want)
		}
	}
	address := strings.TrimPrefix(process.URL, "https://")
	if got := raw(t, nil, address, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.Contains(got, "HTTP request to an HTTPS server") {
		t.Errorf("plain text: %q", got)
	}
	secure := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec // what is sent is garbage
	if got := raw(t, secure, address, "no such thing\r\n\r\n"); !strings.Contains(got, "400 Bad Request") {
		t.Errorf("garbage: %q", got)
	}
	if got := raw(t, secure, address, "GET / HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 2<<20)+"\r\n\r\n"); !strings.Contains(got, "431 Request Header Fields Too Large") {
		t.Errorf("headers of 2 MiB: %.200q", got)
	}
	if text := process.Output(); strings.Contains(text, "goroutine") {
		t.Error(text)
	}
}

// TestPeopleFromFiles: tokens and passwords are in files, which are read again when they change.
func TestPeopleFromFiles(t *testing.T) {
	dir := t.TempDir()
	tokens, passwords := filepath.Join(dir, "tokens.csv"), filepath.Join(dir, "passwords.csv")
	write(t, tokens, "t0ken,jane,1,\"system:masters\"\n")
	write(t, passwords, "passw0rd,joe,2,\"system:masters\"\n")
	p := program(t)
	process := started(t, p, filepath.Join(dir, "data"), "--storage", "memory", "--token-auth-file", tokens, "--basic-auth-file", passwords)
	config, _ := clients(t, process)
	config.CertData, config.KeyData = nil, nil
	whoami := func(change func(*rest.Config)) string {
		c := rest.CopyConfig(config)
		change(c)
		api, err := kubernetes.NewForConfig(c)
		if err != nil {
			t.Fatal(err)
		}
		review, err := api.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if apierrors.IsUnauthorized(err) {
			return "401"
		}
		if err != nil {
			t.Fatal(err)
		}
		return review.Status.UserInfo.Username
	}
	for want, change := range map[string]func(*rest.Config){
		"jane": func(c *rest.Config) { c.BearerToken = "t0ken" },
		"joe":  func(c *rest.Config) { c.Username, c.Password = "joe", "passw0rd" },
		"401":  func(c *rest.Config) { c.Username, c.Password = "joe", "t0ken" },
	} {
		if got := whoami(change); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	write(t, tokens, "0ther,jane,1\n")
	eventually(t, "the old token is gone", func() bool { return whoami(func(c *rest.Config) { c.BearerToken = "t0ken" }) == "401" })
	for _, secret := range []string{"t0ken", "passw0rd"} {
		if strings.Contains(process.Output(), secret) {
			t.Errorf("%s is in the log", secret)
		}
	}
	write(t, passwords, "passw0rd\n")
	text, code, err := p.Fail(t.Context(), "--data-dir", filepath.Join(dir, "other"), "--listen", "127.0.0.1:0", "--basic-auth-file", passwords)
	if err != nil || code != 1 || !strings.Contains(text, "--basic-auth-file") || strings.Contains(text, "passw0rd") {
		t.Errorf("code %d, %v: %s", code, err, text)
	}
}

func post(t *testing.T, c *http.Client, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// raw sends bytes over TCP, or over TLS if there is a configuration, and returns the response.
func raw(t *testing.T, secure *tls.Config, address, request string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if secure != nil {
		conn = tls.Client(conn, secure)
	}
	defer func() { _ = conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	go func() { _, _ = io.WriteString(conn, request) }() // the server may close the connection before it has read everything
	var got bytes.Buffer
	_, _ = io.Copy(&got, conn)
	return got.String()
}
