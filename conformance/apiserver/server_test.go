package apiserver_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/internal/etcdtest"
)

// withoutAdmission are the plugins of upstream's default set that keelson does not have yet. ServiceAccount is left
// out, too: no controller creates the accounts that it requires.
var withoutAdmission = []string{
	"ServiceAccount", "LimitRanger", "TaintNodesByCondition", "PodSecurity", "DefaultStorageClass",
	"StorageObjectInUseProtection", "PersistentVolumeClaimResize", "RuntimeClass", "CertificateApproval",
	"CertificateSigning", "ClusterTrustBundleAttest", "CertificateSubjectRestriction", "DefaultIngressClass",
	"PodTopologyLabels", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy",
	"ValidatingAdmissionWebhook", "ResourceQuota",
}

// users are the tokens that requests may carry.
const users = `admin,admin,admin,"system:masters"
editor,editor,editor
nobody,nobody,nobody
`

// build builds the program in dir unless it exists, and returns its path.
func build(t *testing.T, dir string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(dir, "kube-apiserver"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		return path
	}
	const version = "k8s.io/component-base/version."
	flags := "-X " + version + "gitVersion=v1.37.1 -X " + version + "gitMajor=1 -X " + version + "gitMinor=37"
	command := exec.CommandContext(t.Context(), "go", "build", "-ldflags", flags, "-o", path, "k8s.io/kubernetes/cmd/kube-apiserver")
	command.Dir = "kube-apiserver"
	if text, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build kube-apiserver: %v\n%s", err, text)
	}
	return path
}

// start runs upstream's API server with its own etcd, on loopback, and returns its address.
func start(t *testing.T, program string) string {
	t.Helper()
	dir, port := t.TempDir(), freePort(t)
	key := filepath.Join(dir, "accounts.key")
	writeKey(t, key)
	tokens := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte(users), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, dir, program,
		"--etcd-servers="+etcdtest.Start(t, etcdtest.Options{}).Endpoint(0), "--cert-dir="+filepath.Join(dir, "certificates"),
		"--bind-address=127.0.0.1", "--secure-port="+port[strings.LastIndex(port, ":")+1:],
		"--authorization-mode=Node,RBAC", "--token-auth-file="+tokens,
		"--service-cluster-ip-range=10.0.0.0/24", "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+key, "--service-account-signing-key-file="+key,
		"--disable-admission-plugins="+strings.Join(withoutAdmission, ","))
	host := "https://" + port
	await(t, host)
	return host
}

// transport accepts the server's self-signed certificate: the server listens on loopback.
func transport() *http.Transport {
	return &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
}

func await(t *testing.T, host string) {
	t.Helper()
	client := &http.Client{Transport: transport(), Timeout: 5 * time.Second}
	deadline := time.Now().Add(3 * time.Minute)
	for time.Now().Before(deadline) {
		if response, err := client.Get(host + "/readyz"); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Fatal("the API server is not ready after three minutes")
}

// run keeps a program running until the test ends. Its output is shown if the test fails.
func run(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, filepath.Base(program)+".log"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, program, args...)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = command.Wait() // killed
		log.Close()
		if t.Failed() {
			if text, err := os.ReadFile(log.Name()); err == nil {
				t.Logf("%s:\n%s", program, text[max(0, len(text)-4000):])
			}
		}
	})
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return fmt.Sprint(l.Addr())
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
