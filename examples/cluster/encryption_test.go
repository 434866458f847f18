package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/internal/clusterprocess"
	"github.com/keelson-dev/keelson/internal/kubectl"
)

// encryptedCluster is a data directory with encrypted secrets, and kubectl for the cluster on it.
type encryptedCluster struct {
	*testing.T
	program clusterprocess.Program
	kubectl kubectl.Kubectl
	dir     string
	process *clusterprocess.Process
}

// write writes a configuration with the named keys in that order; the bytes of each key derive from its name.
func (c *encryptedCluster) write(names ...string) {
	c.Helper()
	var b strings.Builder
	b.WriteString("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n  - aesgcm:\n      keys:\n")
	for _, name := range names {
		fmt.Fprintf(&b, "      - name: %s\n        secret: %s\n", name, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(name[:1]), 32)))
	}
	b.WriteString("  - identity: {}\n")
	write(c.T, c.config(), b.String())
}

func (c *encryptedCluster) config() string {
	return filepath.Join(filepath.Dir(c.dir), "encryption.yaml")
}

func (c *encryptedCluster) start() {
	c.Helper()
	c.process = started(c.T, c.program, c.dir, "--nodes", "0", "--encryption-provider-config", c.config(), "--encryption-provider-config-automatic-reload")
	c.kubectl.Kubeconfig = filepath.Join(c.dir, "kubeconfig")
}

func (c *encryptedCluster) stop() {
	c.Helper()
	if err := c.process.Interrupt(); err != nil {
		c.Fatal(err)
	}
}

// run runs kubectl with a line of arguments.
func (c *encryptedCluster) run(stdin, line string) kubectl.Answer {
	c.Helper()
	answer, err := c.kubectl.Run(c.Context(), stdin, strings.Fields(line)...)
	if err != nil {
		c.Fatal(err)
	}
	return answer
}

func (c *encryptedCluster) must(stdin, line string) string {
	c.Helper()
	answer := c.run(stdin, line)
	if answer.Code != 0 {
		c.Fatalf("kubectl %s: %s", line, answer.Stderr)
	}
	return answer.Stdout
}

// stored reports whether the store's files contain a text.
func (c *encryptedCluster) stored(text string) bool {
	c.Helper()
	found := false
	err := filepath.WalkDir(filepath.Join(c.dir, "store"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		found = found || bytes.Contains(content, []byte(text))
		return err
	})
	if err != nil {
		c.Fatal(err)
	}
	return found
}

func newEncryptedCluster(t *testing.T) *encryptedCluster {
	t.Helper()
	path, err := kubectl.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &encryptedCluster{T: t, program: program(t), kubectl: kubectl.Kubectl{Path: path, Home: t.TempDir()}, dir: filepath.Join(t.TempDir(), "data")}
}

// TestEncryptionRotates: a secret's text is not on the disk, and the old key can be removed when all secrets have been
// rewritten.
func TestEncryptionRotates(t *testing.T) {
	c := newEncryptedCluster(t)
	c.write("one")
	c.start()
	c.must("", "create secret generic bank --from-literal=pin=text-of-the-secret")
	c.must("", "create configmap open --from-literal=note=text-of-the-configmap")
	if c.stored("text-of-the-secret") || !c.stored("text-of-the-configmap") || !c.stored("k8s:enc:aesgcm:v1:one:") {
		t.Errorf("the store's files hold the secret's text: %v, the config map's: %v", c.stored("text-of-the-secret"), c.stored("text-of-the-configmap"))
	}
	c.write("two", "one") // while it runs
	deadline := time.Now().Add(2 * time.Minute)
	for n := 0; !c.stored("k8s:enc:aesgcm:v1:two:"); n++ {
		if time.Now().After(deadline) {
			t.Fatal("the new key is not in use")
		}
		c.must("", fmt.Sprintf("create secret generic attempt-%d --from-literal=a=b", n))
		time.Sleep(100 * time.Millisecond)
	}
	c.must(c.must("", "get secrets -A -o json"), "replace -f -")
	c.stop()
	c.write("two")
	c.start()
	pin := c.must("", "get secret bank -o jsonpath={.data.pin}")
	if text, err := base64.StdEncoding.DecodeString(pin); err != nil || string(text) != "text-of-the-secret" {
		t.Errorf("the secret without the old key: %q, %v", text, err)
	}
	c.stop()
}

// TestEncryptionWithoutKey: a secret that cannot be read has its own error, and everything else works.
func TestEncryptionWithoutKey(t *testing.T) {
	c := newEncryptedCluster(t)
	c.write("one")
	c.start()
	c.must("", "create secret generic bank --from-literal=pin=1234")
	c.must("", "create configmap open --from-literal=note=text")
	c.stop()
	c.write("three")
	c.start()
	answer := c.run("", "get secret bank")
	want := "Error from server (InternalError): Internal error occurred: StorageError: corrupt object, Code: 7, Key: /registry/secrets/default/bank, " +
		"ResourceVersion: 0, AdditionalErrorMsg: data from the storage is not transformable revision="
	if answer.Code == 0 || !strings.HasPrefix(answer.Stderr, want) || !strings.Contains(answer.Stderr, "no matching key was found for the provided AES transformer") {
		t.Errorf("get: code %d, %s", answer.Code, answer.Stderr)
	}
	c.must("", "create secret generic other --from-literal=a=b")
	if list := c.must("", "get secrets"); !strings.Contains(list, "other") || strings.Contains(list, "bank") {
		t.Errorf("list: %s", list)
	}
	c.must("", "get configmap open")
	c.stop()
	c.write("three", "one")
	c.start()
	c.must("", "get secret bank other")
	c.stop()
}

// TestEncryptionFlags: an invalid file prevents the start, and no key is printed.
func TestEncryptionFlags(t *testing.T) {
	p := program(t)
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	const key = "MTIzNDU2Nzg5MDEyMzQ1Njc4OTA="
	write(t, file, "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n  - aesgcm: {keys: [{name: a, secret: "+key+"}]}\n")
	text, code, err := p.Fail(t.Context(), "--data-dir", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0", "--encryption-provider-config", file)
	if err != nil || code != 1 || !strings.Contains(text, "--encryption-provider-config: error while parsing file: resources[0].providers[0].aesgcm.keys[0].secret") || strings.Contains(text, key) {
		t.Errorf("code %d, %v: %s", code, err, text)
	}
	write(t, file, "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n  - kms: {apiVersion: v2, name: vault, endpoint: 'unix:///nowhere/kms.sock'}\n")
	text, code, err = p.Fail(t.Context(), "--data-dir", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0", "--encryption-provider-config", file)
	if err != nil || code != 1 || !strings.Contains(text, "start the KMS plugin first") || !strings.Contains(text, "/nowhere/kms.sock") {
		t.Errorf("code %d, %v: %s", code, err, text)
	}
	if text, code, err := p.Fail(t.Context(), "--encryption-provider-config-automatic-reload"); err != nil || code != 2 || !strings.Contains(text, "--encryption-provider-config: add it") {
		t.Errorf("code %d, %v: %s", code, err, text)
	}
}
