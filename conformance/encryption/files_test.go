package encryption_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/server/options/encryptionconfig"

	"github.com/keelson-dev/keelson/storage/encryption/config"
)

// normal removes from an error what cannot be equal.
func normal(err error) string {
	if err == nil {
		return "good"
	}
	text := err.Error()
	for pattern, with := range map[string]string{
		`in scheme ".*?"`: `in scheme`,
		// Go types have other names.
		`Go struct field \w+\.`:   "Go struct field ",
		`of type (\[\])?\w+\.\w+`: "of type",
		// Upstream repeats the whole file, with its keys, and the whole provider.
		`(?s)(Object '(Kind|apiVersion)' is missing) in '.*'`:                             "$1",
		`(?s)(providers\[\d+\]: Invalid value: ).*?(: provider does not|: more than one)`: "$1$2",
	} {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, with)
	}
	return text
}

func files() map[string]string {
	all := map[string]string{
		"empty":              "",
		"no kind":            "apiVersion: apiserver.config.k8s.io/v1\nresources: []\n",
		"no version":         "kind: EncryptionConfiguration\nresources: []\n",
		"other kind":         "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionSettings\n",
		"other version":      "apiVersion: apiserver.config.k8s.io/v2\nkind: EncryptionConfiguration\n",
		"old name":           strings.Replace(secrets(identity), head, "apiVersion: v1\nkind: EncryptionConfig\nresources:\n", 1),
		"no YAML":            "resources: [",
		"tabs":               "\tkind: x",
		"list":               "- a\n- b\n",
		"text":               "some text",
		"no resources":       head,
		"JSON":               `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"EncryptionConfiguration","resources":[{"resources":["secrets"],"providers":[{"identity":{}}]}]}`,
		"JSON cut":           `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"EncryptionConfiguration","resources":[{"resources`,
		"JSON twice":         `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"EncryptionConfiguration","kind":"EncryptionConfiguration","resources":[{"resources":["secrets"],"providers":[{"identity":{}}]}]}`,
		"resources are text": head + "  secrets\n",
		"no list":            head + "- providers:\n" + identity,
		"no providers":       head + "- resources: [secrets]\n",
		"unknown field":      secrets(identity) + "  extra: 1\n",
		"unknown provider":   secrets("  - rot13: {}\n"),
		"case of a field":    strings.Replace(secrets(identity), "providers", "Providers", 1),
		"field twice":        secrets(identity) + "  resources: [a]\n",
		"two errors":         secrets(keyed("aesgcm", 5, "a:1"), keyed("secretbox", 16, "b:1")),
		"same error twice":   secrets(keyed("aesgcm", 5, "a:1", "a:1")),
		"two providers":      secrets("  - identity: {}\n    aesgcm: {keys: [{name: a, secret: " + secret('1', 32) + "}]}\n"),
		"no provider":        secrets("  - {}\n"),
		"null provider":      secrets("  - identity: null\n"),
		"all providers":      secrets(keyed("aescbc", 16, "a:1"), keyed("aesgcm", 24, "a:1"), keyed("secretbox", 32, "a:1"), identity),
		"no keys":            secrets("  - aesgcm: {keys: []}\n"),
		"null keys":          secrets("  - aescbc: {}\n"),
		"no key name":        secrets("  - aesgcm: {keys: [{secret: " + secret('1', 32) + "}]}\n"),
		"no key secret":      secrets("  - aesgcm: {keys: [{name: a}]}\n"),
		"key no base64":      secrets("  - aesgcm: {keys: [{name: a, secret: '***'}]}\n"),
		"key is a number":    secrets("  - aesgcm: {keys: [{name: 1, secret: 2}]}\n"),
		"keys no list":       secrets("  - aesgcm: {keys: {name: a}}\n"),
		"key of 20 bytes":    secrets(keyed("aescbc", 20, "a:1")),
		"box of 16 bytes":    secrets(keyed("secretbox", 16, "a:1")),
		"masked by all":      head + rule("'*.*'") + rule("secrets"),
		"masked by core":     head + rule("'*.'") + rule("secrets"),
		"masked by group":    head + rule("'*.apps'") + rule("deployments.apps"),
		"group after one":    head + rule("deployments.apps") + rule("'*.apps'") + rule("'*.*'"),
		"group twice":        head + rule("'*.apps'") + rule("'*.apps'"),
		"resource twice":     head + rule("secrets") + rule("secrets"),
	}
	for _, list := range []string{
		"secrets, secrets", "secrets, '*.'", "'*.*', secrets", "secrets, '*.*'", "'*.*', '*.*'", "'*.apps', '*.apps'", "'*.apps', deployments.apps", "'*'", "Secrets", "secrets.Apps",
		"'*.extensions'", "ingresses.extensions", "events.events.k8s.io", "'*.events.k8s.io'", "'secrets.*'", "apiserveripinfo", "serviceipallocations",
		"servicenodeportallocations", "serviceipallocations.apps", "''", "'.'", "'.apps'", "secrets.", "a.b.c.d", "pods, secrets, '*.apps', '*.'", "'*., *.'", "'*', '*.'", "é, É",
	} {
		all["resources "+list] = head + rule(list)
	}
	for name, fields := range map[string]string{
		"v2":          "apiVersion: v2, name: a, endpoint: 'unix:///x'",
		"v3":          "apiVersion: v3, name: a, endpoint: 'unix:///x'",
		"colon":       "apiVersion: v2, name: 'a:b', endpoint: 'unix:///x'",
		"no name":     "apiVersion: v2, endpoint: 'unix:///x'",
		"no endpoint": "apiVersion: v2, name: a",
		"TCP":         "apiVersion: v2, name: a, endpoint: 'tcp://x'",
		"no URL":      "apiVersion: v2, name: a, endpoint: 'unix://%zz'",
		"no time":     "apiVersion: v2, name: a, endpoint: 'unix:///x', timeout: 0s",
		"past time":   "apiVersion: v2, name: a, endpoint: 'unix:///x', timeout: -1s",
		"time":        "apiVersion: v2, name: a, endpoint: 'unix:///x', timeout: soon",
		"cache":       "apiVersion: v2, name: a, endpoint: 'unix:///x', cachesize: 5",
		"v1 no cache": "apiVersion: v1, name: a, endpoint: 'unix:///x', cachesize: 0",
		"nothing":     "",
		"abstract":    "apiVersion: v2, name: a, endpoint: 'unix:///@x'",
	} {
		all["KMS "+name] = secrets("  - kms: {" + fields + "}\n")
	}
	twice := "  - kms: {apiVersion: v2, name: a, endpoint: 'unix:///x'}\n"
	all["KMS twice"] = secrets(twice, twice)
	all["KMS twice in two"] = secrets(twice) + rule("pods") + "- resources: [configmaps]\n  providers:\n" + twice
	v1 := "  - kms: {apiVersion: v1, name: b, endpoint: 'tcp://x'}\n"
	all["KMS v1 twice"] = secrets(v1, v1)
	return all
}

func rule(list string) string { return "- resources: [" + list + "]\n  providers:\n" + identity }

func compare(t *testing.T, content string, reload bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	// Canceled: upstream should not look for plugins that do not exist.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, theirs := encryptionconfig.LoadEncryptionConfig(ctx, path, reload, "id")
	file, err := config.Open(path, locate(), config.Options{Reload: reload})
	if err == nil {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}
	a, b := normal(theirs), normal(err)
	if errors.Is(err, config.ErrKMSv1) && strings.Contains(a, "KMSv1 is deprecated") {
		return // our own text, since there is no feature gate
	}
	if a != b {
		t.Errorf("%s\nupstream: %s\nwe:       %s", content, a, b)
	}
}

// TestFiles: both give the same errors for configuration files.
func TestFiles(t *testing.T) {
	for name, content := range files() {
		for _, reload := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", reload ", reload), func(t *testing.T) { compare(t, content, reload) })
		}
	}
}

// TestUpstreamsFiles compares the files of upstream's own tests.
func TestUpstreamsFiles(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "k8s.io/apiserver/pkg/server/options/encryptionconfig").Output()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	err = filepath.WalkDir(filepath.Join(strings.TrimSpace(string(out)), "testdata"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found++
		compare(t, string(content), false)
		compare(t, string(content), true)
		return nil
	})
	if err != nil || found < 10 {
		t.Errorf("%d files, %v", found, err)
	}
}

// TestChangedFiles compares files with lines and words removed, duplicated and moved.
func TestChangedFiles(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	all := files()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for range 15 {
			lines := strings.SplitAfter(all[name], "\n")
			for range 1 + random.IntN(2) {
				i, j := random.IntN(len(lines)), random.IntN(len(lines))
				switch random.IntN(4) {
				case 0:
					lines = slices.Delete(lines, i, i+1)
				case 1:
					lines = slices.Insert(lines, j, lines[i])
				case 2:
					lines[i], lines[j] = lines[j], lines[i]
				case 3:
					lines[i] = strings.Replace(lines[i], " ", "", 1)
				}
				if len(lines) == 0 {
					lines = []string{""}
				}
			}
			compare(t, strings.Join(lines, ""), random.IntN(2) == 0)
		}
	}
}
