package encryption_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/internal/etcdtest"
	"github.com/keelson-dev/keelson/storage"
	ours "github.com/keelson-dev/keelson/storage/encryption"
	"github.com/keelson-dev/keelson/storage/encryption/config"
	"github.com/keelson-dev/keelson/storage/etcd"
)

var binaries = flag.String("binaries", "../../bin/kubernetes-v1.37.1", "directory where kube-apiserver is kept")

const (
	patience = 3 * time.Minute
	token    = "admin"
)

// program returns kube-apiserver, which it builds if necessary.
func program(t *testing.T) string {
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

// apiServer is a running kube-apiserver.
type apiServer struct {
	host   string
	client *http.Client
}

func startAPIServer(t *testing.T, endpoint, encryption string) *apiServer {
	t.Helper()
	dir := t.TempDir()
	keys, tokens := filepath.Join(dir, "accounts.key"), filepath.Join(dir, "tokens.csv")
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	for path, content := range map[string]string{keys: string(block), tokens: token + `,kubernetes-admin,admin,"system:masters"` + "\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().(*net.TCPAddr)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	command := exec.Command(program(t),
		"--etcd-servers="+endpoint, "--cert-dir="+filepath.Join(dir, "certificates"), "--encryption-provider-config="+encryption,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", address.Port), "--advertise-address=192.0.2.1",
		"--authorization-mode=RBAC", "--token-auth-file="+tokens, "--service-cluster-ip-range=10.0.0.0/24",
		"--service-account-issuer=https://kubernetes.default.svc", "--disable-admission-plugins=ServiceAccount",
		"--service-account-key-file="+keys, "--service-account-signing-key-file="+keys)
	command.Stdout, command.Stderr = &log, &log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	s := &apiServer{"https://" + address.String(), &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // it listens on loopback
	}}}
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		_ = command.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(patience, func() { _ = command.Process.Kill() })
		_ = command.Wait()
		kill.Stop()
		if text := log.String(); t.Failed() {
			t.Logf("the end of kube-apiserver's log:\n%s", text[max(0, len(text)-4000):])
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		code, _, err := s.do(ctx, http.MethodGet, "/readyz", "")
		if err == nil && code == http.StatusOK {
			return s
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("kube-apiserver is not ready: %d, %v", code, err)
		}
	}
}

func (s *apiServer) do(ctx context.Context, method, path, body string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.host+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

func (s *apiServer) must(t *testing.T, method, path, body string) string {
	t.Helper()
	code, text, err := s.do(t.Context(), method, path, body)
	if err != nil || code/100 != 2 {
		t.Fatalf("%s %s: %d, %v: %s", method, path, code, err, text)
	}
	return text
}

// one object of a resource of each provider.
type one struct{ path, prefix, stored, body string }

func objects() []one {
	return []one{
		{"/api/v1/namespaces/default/secrets", "/registry/secrets/", "k8s:enc:kms:v2:vault:", `{"metadata":{"name":"a"},"stringData":{"k":"the-text"}}`},
		{"/api/v1/namespaces/default/configmaps", "/registry/configmaps/", "k8s:enc:aescbc:v1:key1:", `{"metadata":{"name":"a"},"data":{"k":"the-text"}}`},
		{"/api/v1/namespaces/default/serviceaccounts", "/registry/serviceaccounts/", "k8s:enc:aesgcm:v1:key1:", `{"metadata":{"name":"a","labels":{"k":"the-text"}}}`},
		{"/apis/coordination.k8s.io/v1/namespaces/default/leases", "/registry/leases/", "k8s:enc:secretbox:v1:key1:", `{"metadata":{"name":"a"},"spec":{"holderIdentity":"the-text"}}`},
		{"/api/v1/namespaces/default/limitranges", "/registry/limitranges/", "k8s\x00", `{"metadata":{"name":"a","labels":{"k":"the-text"}},"spec":{"limits":[]}}`},
	}
}

// TestKubeAPIServer: data that the real server encrypted is read here, written again, and read there.
func TestKubeAPIServer(t *testing.T) {
	members := etcdtest.Start(t, etcdtest.Options{})
	_, path := socket(t)
	rules := func(name string, provider string) string {
		return "- resources: [" + name + "]\n  providers:\n" + provider
	}
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(file, []byte(head+rules("secrets", plugin("vault", path))+rules("configmaps", keyed("aescbc", 32, "key1:1"))+
		rules("serviceaccounts", keyed("aesgcm", 32, "key1:1"))+rules("leases.coordination.k8s.io", keyed("secretbox", 32, "key1:1"))), 0o600); err != nil {
		t.Fatal(err)
	}
	upstream := startAPIServer(t, members.Endpoints()[0], file)
	for _, o := range objects() {
		upstream.must(t, http.MethodPost, o.path, o.body)
	}
	inner, err := etcd.Open(t.Context(), etcd.Config{Endpoints: members.Endpoints()}, etcd.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := inner.Close(); err != nil {
			t.Error(err)
		}
	}()
	transformers, err := config.Open(file, config.Prefixes("/registry/", []config.Resource{
		{Name: "secrets", Prefix: "/registry/secrets/"}, {Name: "configmaps", Prefix: "/registry/configmaps/"},
		{Name: "serviceaccounts", Prefix: "/registry/serviceaccounts/"}, {Group: "coordination.k8s.io", Name: "leases", Prefix: "/registry/leases/"},
	}), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := transformers.Close(); err != nil {
			t.Error(err)
		}
	}()
	store := ours.New(inner, transformers)
	page, err := store.List(t.Context(), "/registry/", storage.ListOptions{})
	if err != nil || len(page.Records) < len(objects()) {
		t.Fatalf("%d records, %v", len(page.Records), err)
	}
	for _, r := range page.Records {
		if r.Err != nil || bytes.HasPrefix(r.Value, []byte(ours.Reserved)) {
			t.Errorf("%s: %.30q, %v", r.Key, r.Value, r.Err)
		}
	}
	for _, o := range objects() {
		rewriteAndRead(t, o, store, inner, upstream)
	}
	t.Logf("%d records of kube-apiserver read", len(page.Records))
}

// rewriteAndRead rewrites an object of kube-apiserver and has kube-apiserver read it.
func rewriteAndRead(t *testing.T, o one, store, inner storage.Store, upstream *apiServer) {
	t.Helper()
	key := o.prefix + "default/a"
	theirs, err := inner.Get(t.Context(), key)
	if err != nil || !bytes.HasPrefix(theirs.Value, []byte(o.stored)) {
		t.Fatalf("%s is stored as %.40q, %v", key, theirs.Value, err)
	}
	r, err := store.Get(t.Context(), key)
	if err != nil || !bytes.HasPrefix(r.Value, []byte("k8s\x00")) || !bytes.Contains(r.Value, []byte("the-text")) {
		t.Fatalf("%s: %.40q, %v", key, r.Value, err)
	}
	revision, err := store.Update(t.Context(), key, r.Value, r.Revision)
	if err != nil {
		t.Fatal(err)
	}
	our, err := inner.Get(t.Context(), key)
	if err != nil || !bytes.HasPrefix(our.Value, []byte(o.stored)) || len(our.Value) != len(theirs.Value) {
		t.Errorf("%s: upstream stores %d bytes, we %d: %.40q, %v", key, len(theirs.Value), len(our.Value), our.Value, err)
	}
	if o.stored != "k8s\x00" && bytes.Equal(our.Value, theirs.Value) {
		t.Errorf("%s was not written again", key)
	}
	text := upstream.must(t, http.MethodGet, o.path+"/a", "")
	if !strings.Contains(text, fmt.Sprintf(`"resourceVersion":"%d"`, revision)) ||
		!strings.Contains(text, "the-text") && !strings.Contains(text, "dGhlLXRleHQ=") {
		t.Errorf("kube-apiserver reads at %d: %s", revision, text)
	}
	if list := upstream.must(t, http.MethodGet, o.path, ""); !strings.Contains(list, `"name":"a"`) {
		t.Errorf("kube-apiserver lists: %s", list)
	}
}
