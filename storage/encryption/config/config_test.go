package config_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/encryption"
	"github.com/keelson-dev/keelson/storage/encryption/config"
	"github.com/keelson-dev/keelson/storage/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"

func secret(b byte) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32))
}

// rule is a list of resources with providers, each "identity" or "kind name:byte name:byte…".
func rule(resources string, providers ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "- resources: [%s]\n  providers:\n", resources)
	for _, p := range providers {
		kind, keys, _ := strings.Cut(p, " ")
		if keys == "" {
			fmt.Fprintf(&b, "  - %s: {}\n", kind)
			continue
		}
		fmt.Fprintf(&b, "  - %s:\n      keys:\n", kind)
		for _, k := range strings.Fields(keys) {
			name, key, _ := strings.Cut(k, ":")
			fmt.Fprintf(&b, "      - name: %s\n        secret: %s\n", name, secret(key[0]))
		}
	}
	return b.String()
}

func write(t testing.TB, path, content string) {
	t.Helper()
	// As editors and mounted secrets do: the file is replaced as a whole.
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func locate() config.Locate {
	return config.Prefixes("/registry/", []config.Resource{
		{Name: "secrets", Prefix: "/registry/secrets/"},
		{Name: "configmaps", Prefix: "/registry/configmaps/"},
		{Name: "services", Prefix: "/registry/services/specs/"},
		{Group: "apps", Name: "deployments", Prefix: "/registry/deployments/"},
		{Group: "apiregistration.k8s.io", Name: "apiservices", Prefix: "/registry/apiregistration.k8s.io/apiservices/"},
	})
}

func open(t testing.TB, content string, options config.Options) (*config.File, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	write(t, path, content)
	f, err := config.Open(path, locate(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f, path
}

func TestPrefixes(t *testing.T) {
	for key, want := range map[string]string{
		"/registry/secrets/default/one":                             "secrets.",
		"/registry/services/specs/default/one":                      "services.",
		"/registry/services/endpoints/default/one":                  "",
		"/registry/deployments/default/one":                         "deployments.apps",
		"/registry/apiregistration.k8s.io/apiservices/v1":           "apiservices.apiregistration.k8s.io",
		"/registry/stable.example.com/crontabs/default/one":         "crontabs.stable.example.com",
		"/registry/stable.example.com/crontabs":                     "",
		"/registry/masterleases/10.0.0.1":                           "",
		"/registry/ranges/serviceips":                               "",
		"/registry/secrets":                                         "",
		"/other/secrets/default/one":                                "",
		"":                                                          "",
		"/registry/secretsandmore/default/one":                      "",
		"/registry/stable.example.com/crontabs/secrets/default/one": "crontabs.stable.example.com",
	} {
		got := ""
		if group, name, ok := locate()(key); ok {
			got = name + "." + group
		}
		if got != want {
			t.Errorf("%q is of %q, want %q", key, got, want)
		}
	}
}

// TestRules: which rule a resource falls under, told by what is stored.
func TestRules(t *testing.T) {
	f, _ := open(t, head+
		rule("events, secrets", "aescbc one:1")+
		rule("secrets", "identity")+ // more providers for what another rule names already: they read
		rule("'*.'", "aesgcm two:2")+
		rule("deployments.apps", "identity")+
		rule("'*.apps'", "secretbox three:3")+
		rule("'*.*'", "aesgcm four:4"), config.Options{})
	inner := memory.New(memory.Options{})
	defer inner.Close()
	s := encryption.New(inner, f)
	for key, want := range map[string]string{
		"/registry/secrets/default/one":                   "k8s:enc:aescbc:v1:one:",
		"/registry/configmaps/default/one":                "k8s:enc:aesgcm:v1:two:",
		"/registry/services/specs/default/one":            "k8s:enc:aesgcm:v1:two:",
		"/registry/deployments/default/one":               "plain",
		"/registry/a.example.com/as/default/one":          "k8s:enc:aesgcm:v1:four:",
		"/registry/ranges/serviceips":                     "plain",
		"/registry/apiregistration.k8s.io/apiservices/v1": "k8s:enc:aesgcm:v1:four:",
	} {
		if _, err := s.Create(t.Context(), key, []byte("plain")); err != nil {
			t.Fatal(err)
		}
		raw, err := inner.Get(t.Context(), key)
		if err != nil || !strings.HasPrefix(string(raw.Value), want) {
			t.Errorf("%s is stored as %.30q, want %s, %v", key, raw.Value, want, err)
		}
		if r, err := s.Get(t.Context(), key); err != nil || string(r.Value) != "plain" {
			t.Errorf("%s = %q, %v", key, r.Value, err)
		}
	}
	if err := f.Check(t.Context()); err != nil {
		t.Errorf("Check: %v", err)
	}
	if _, err := inner.Create(t.Context(), "/registry/secrets/default/before", []byte("plain")); err != nil {
		t.Fatal(err)
	}
	if stale, err := s.(storage.Refresher).Stale(t.Context(), "/registry/secrets/default/before"); err != nil || !stale {
		t.Errorf("a record from before is stale: %v, %v", stale, err)
	}
}

// TestUnreadable: upstream's words for keys that are missing or wrong.
func TestUnreadable(t *testing.T) {
	inner := memory.New(memory.Options{})
	defer inner.Close()
	with := func(content string) storage.Store {
		f, _ := open(t, head+content, config.Options{})
		return encryption.New(inner, f)
	}
	for kind, mismatch := range map[string]string{
		"aescbc": "AES", "aesgcm": "AES", "secretbox": "Secretbox",
	} {
		at := "/registry/secrets/default/" + kind
		if _, err := with(rule("secrets", kind+" key1:1")).Create(t.Context(), at, []byte("plain")); err != nil {
			t.Fatal(err)
		}
		wrongKey := map[string]string{ // of CBC, wrong keys give anything
			"aesgcm": "cipher: message authentication failed", "secretbox": "output array was not large enough for encryption",
		}[kind]
		if wrongKey != "" {
			_, err := with(rule("secrets", kind+" key1:2")).Get(t.Context(), at)
			if !errors.Is(err, storage.ErrUnreadable) || !strings.HasSuffix(err.Error(), wrongKey) {
				t.Errorf("%s with a wrong key: %v", kind, err)
			}
		}
		for content, want := range map[string]string{
			rule("secrets", kind+" key2:1"):             "no matching key was found for the provided " + mismatch + " transformer",
			rule("secrets", kind+" key2:1", "identity"): "no matching key was found for the provided " + mismatch + " transformer",
			rule("secrets", "identity"):                 "no matching prefix found",
			rule("configmaps", "identity"):              "identity transformer tried to read encrypted data",
		} {
			_, err := with(content).Get(t.Context(), at)
			if !errors.Is(err, storage.ErrUnreadable) {
				t.Errorf("%s: %v", kind, err)
			} else if err.Error() != want {
				t.Errorf("%s: %v, want %s", kind, err, want)
			}
		}
	}
}

func TestFilesRefused(t *testing.T) {
	for content, want := range map[string]string{
		"": `error while parsing file: error while loading file: encryption provider configuration file "FILE" is empty`,
		"a: &a " + strings.Repeat("x", 1<<17) + "\nb: [" + strings.Repeat("*a, ", 1<<15) + "]\n": `error while parsing file: error decoding encryption provider configuration file "FILE": YAML is too large: its aliases expand to more than 3145728 bytes`,
		"kind: Pod\n":            `error while parsing file: error decoding encryption provider configuration file "FILE": Object 'apiVersion' is missing`,
		"secret: " + secret('x'): `error while parsing file: error decoding encryption provider configuration file "FILE": Object 'Kind' is missing`,
		head + rule("secrets", "identity") + "  extra: 1\n":                                                                  `error while parsing file: error decoding encryption provider configuration file "FILE": strict decoding error: unknown field "resources[0].extra"`,
		head + rule("secrets, '*.'", "identity"):                                                                             `error while parsing file: resources[0].resources: Invalid value: ["secrets","*."]: using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked`,
		head + rule("'*.*'", "identity") + rule("secrets", "identity"):                                                       `error while building transformers: resource "secrets" is masked by earlier rule "*.*"`,
		head + rule("'*.'", "identity") + rule("secrets", "identity"):                                                        `error while building transformers: resource "secrets" is masked by earlier rule "*."`,
		head + "- resources: [secrets]\n  providers:\n  - kms: {name: a, endpoint: 'unix:///x'}\n":                           `error while building transformers: KMS provider "a": KMSv1 is deprecated and not supported here. Use KMSv2 instead, with apiVersion: v2`,
		head + "- resources: [secrets]\n  providers:\n  - aesgcm: {keys: [{name: a, secret: c2hvcnQ=}]}\n":                   `error while parsing file: resources[0].providers[0].aesgcm.keys[0].secret: Invalid value: "REDACTED": secret is not of the expected length, got 5, expected one of [16 24 32]`,
		head + "- resources: [secrets]\n  providers:\n  - aesgcm: {keys: [{name: a, secret: c2hvcnQ=}]}\n    identity: {}\n": `more than one provider specified in a single element, should split into different list elements`,
	} {
		path := filepath.Join(t.TempDir(), "encryption.yaml")
		write(t, path, content)
		_, err := config.Open(path, locate(), config.Options{})
		if err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(want, "FILE", path)) {
			t.Errorf("%s:\n%v, want\n%s", content, err, want)
		} else if strings.Contains(err.Error(), secret('x')) || strings.Contains(err.Error(), "c2hvcnQ=") {
			t.Errorf("an error tells a key: %v", err)
		}
	}
	if _, err := config.Open(filepath.Join(t.TempDir(), "none"), locate(), config.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestAdvice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	write(t, path, head+rule("secrets", "aesgcm one:1"))
	var log bytes.Buffer
	options := config.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	for mode, want := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o644: true, 0o620: true} {
		log.Reset()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		f, err := config.Open(path, locate(), options)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if got := strings.Contains(log.String(), "chmod 600"); got != want {
			t.Errorf("mode %v: %s", mode, &log)
		}
	}
}

// FuzzOpen: no panic, and no error tells a key.
func FuzzOpen(f *testing.F) {
	keys := []string{secret('k'), secret('l')}
	full := head + rule("secrets, configmaps", "aescbc a:k b:l", "aesgcm c:k", "secretbox d:l", "identity") + rule("'*.apps'", "aesgcm e:k") +
		"- resources: [events]\n  providers:\n  - kms: {apiVersion: v2, name: a, endpoint: 'unix:///x', timeout: 3s}\n"
	f.Add(full)
	f.Add(strings.Replace(full, "kind: EncryptionConfiguration\n", "", 1))
	f.Add(strings.ReplaceAll(full, "secret: ", "secret"))
	f.Add(strings.ReplaceAll(full, "secret: ", "secret: ["))
	f.Add(strings.ReplaceAll(full, "secret: ", ""))
	f.Add(`{"apiVersion":"apiserver.config.k8s.io/v1","kind":"EncryptionConfiguration","resources":[{"resources":["secrets"],"providers":[{"aesgcm":{"keys":[{"name":"a","secret":"` + keys[0] + `"}]}}]}]}`)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content string) {
		path := filepath.Join(dir, fmt.Sprint(os.Getpid()))
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := config.Open(path, locate(), config.Options{Reload: true})
		if err == nil {
			for _, key := range []string{"/registry/secrets/a/b", "/registry/pods/a/b", ""} {
				_, _, _ = file.For(key).Open(t.Context(), key, []byte(content))
			}
			if err := file.Close(); err != nil {
				t.Error(err)
			}
			return
		}
		for _, key := range keys {
			if strings.Contains(err.Error(), key[:16]) {
				t.Errorf("an error tells a key: %v", err)
			}
		}
	})
}
