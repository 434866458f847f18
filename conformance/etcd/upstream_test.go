package etcd_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var binaries = flag.String("binaries", "../../bin/kubernetes-v1.37.1", "directory where kube-apiserver is kept")

// withoutControllers are the plugins of both default sets that wait for controllers, which nobody runs here: for accounts, for what
// is used, and for finalizers to go.
var withoutControllers = []string{"ServiceAccount", "ResourceQuota", "StorageObjectInUseProtection"}

// withoutAdmission are the plugins of upstream's default set that ask webhooks and evaluate policies, which keelson has in packages
// of their own.
var withoutAdmission = []string{
	"MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook",
}

const password = "admin"

// kubeAPIServer returns the program, which it builds if necessary.
func kubeAPIServer(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(*binaries, "kube-apiserver"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		return path
	}
	const version = "k8s.io/component-base/version."
	flags := "-X " + version + "gitVersion=v1.37.1 -X " + version + "gitMajor=1 -X " + version + "gitMinor=37"
	command := exec.CommandContext(t.Context(), "go", "build", "-ldflags", flags, "-o", path, "k8s.io/kubernetes/cmd/kube-apiserver")
	command.Dir = "../apiserver/kube-apiserver"
	if text, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build kube-apiserver: %v\n%s", err, text)
	}
	return path
}

// startUpstream runs kube-apiserver on an etcd until it is stopped, or the test ends.
func startUpstream(t *testing.T, set settings) *server {
	t.Helper()
	program, dir := kubeAPIServer(t), t.TempDir()
	key, tokens := filepath.Join(dir, "accounts.key"), filepath.Join(dir, "tokens.csv")
	writeKey(t, key)
	if err := os.WriteFile(tokens, []byte(password+`,kubernetes-admin,,"system:masters"`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program,
		"--etcd-servers="+set.etcd, "--cert-dir="+filepath.Join(dir, "certificates"),
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", set.listen.Port()), "--advertise-address="+set.upstream,
		"--authorization-mode=Node,RBAC", "--token-auth-file="+tokens,
		"--service-cluster-ip-range="+set.network, "--service-node-port-range="+set.ports,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+key, "--service-account-signing-key-file="+key,
		"--disable-admission-plugins="+strings.Join(slices.Concat(withoutControllers, withoutAdmission), ","))
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	s := &server{name: "upstream", host: "https://" + set.listen.String(), client: &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // it listens on loopback
	}}}
	s.crash = func() { _ = command.Process.Kill() }
	s.end = func(t *testing.T) {
		s.client.CloseIdleConnections()
		_ = command.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(patience):
			_ = command.Process.Kill()
			<-ended
			t.Error("kube-apiserver did not end when it was asked to")
		}
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("the last complaints of kube-apiserver:\n%s", complaints(text))
		}
		_ = log.Close()
	}
	t.Cleanup(func() { s.stop(t) })
	s.awaitReady(t)
	return s
}

// complaints are the last warnings and errors of a log.
func complaints(log []byte) string {
	var lines []string
	for line := range strings.Lines(string(log)) {
		if strings.IndexAny(line, "WEF") == 0 {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-20):], "")
}

func (s *server) awaitReady(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		request, err := s.request(ctx, http.MethodGet, "/readyz", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		if response, err := s.client.Do(request); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s is not ready after %v", s.name, patience)
		}
	}
}

func freePort(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func writeKey(t *testing.T, path string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
}
