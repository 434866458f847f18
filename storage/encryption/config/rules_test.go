package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/storage/encryption/config"
	"github.com/keelson-dev/keelson/storage/encryption/kms"
	"github.com/keelson-dev/keelson/storage/encryption/kms/kmstest"
)

// refusal opens a file and returns why that is not possible, the longest of upstream's sentences as one word.
func refusal(t *testing.T, content string, reload bool) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	write(t, path, content)
	f, err := config.Open(path, locate(), config.Options{Reload: reload})
	if err == nil {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		return ""
	}
	return strings.NewReplacer(path, "FILE", "error while parsing file: ", "PARSING ",
		`error decoding encryption provider configuration file "`+path+`": `, "DECODING ",
		"using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked", "OVERLAP",
		"the same resource cannot be specified multiple times", "TWICE",
		"more than one provider specified in a single element, should split into different list elements", "SPLIT").Replace(err.Error())
}

// TestResourceRules: which names a rule may have, and which together.
func TestResourceRules(t *testing.T) {
	for resources, want := range map[string]string{
		"secrets":                      "",
		"secrets, configmaps":          "",
		"secrets, secrets.example.com": "",
		"'*.'":                         "",
		"'*.*'":                        "",
		"'*.', '*.apps'":               "",
		"secrets, '*.apps'":            "",
		"deployments.apps, '*.'":       "",
		"":                             `PARSING resources[0].resources: Required value: at least one resources[0].resources is required`,
		"secrets, secrets":             `PARSING resources[0].resources: Invalid value: ["secrets","secrets"]: TWICE`,
		"secrets, configmaps, secrets": `PARSING resources[0].resources: Invalid value: ["secrets","configmaps","secrets"]: TWICE`,
		"secrets, '*.'":                `PARSING resources[0].resources: Invalid value: ["secrets","*."]: OVERLAP`,
		"'*.', secrets":                `PARSING resources[0].resources: Invalid value: ["*.","secrets"]: OVERLAP`,
		"'*.apps', deployments.apps":   `PARSING resources[0].resources: Invalid value: ["*.apps","deployments.apps"]: OVERLAP`,
		"deployments.apps, '*.apps'":   `PARSING resources[0].resources: Invalid value: ["deployments.apps","*.apps"]: OVERLAP`,
		"'*.*', secrets":               `PARSING resources[0].resources: Invalid value: ["*.*","secrets"]: OVERLAP`,
		"deployments.apps, '*.*'":      `PARSING resources[0].resources: Invalid value: ["deployments.apps","*.*"]: OVERLAP`,
		"'*.', '*.*'":                  `PARSING resources[0].resources: Invalid value: ["*.","*.*"]: OVERLAP`,
		"'*.apps', '*.apps'":           `PARSING [resources[0].resources: Invalid value: ["*.apps","*.apps"]: TWICE, resources[0].resources: Invalid value: ["*.apps","*.apps"]: OVERLAP]`,
		"'*.*', '*.*'":                 `PARSING [resources[0].resources: Invalid value: ["*.*","*.*"]: TWICE, resources[0].resources: Invalid value: ["*.*","*.*"]: OVERLAP]`,
		"secrets, secrets, '*.'":       `PARSING [resources[0].resources: Invalid value: ["secrets","secrets","*."]: TWICE, resources[0].resources: Invalid value: ["secrets","secrets","*."]: OVERLAP]`,
		"'*.', '*.', secrets, secrets": `PARSING [resources[0].resources: Invalid value: ["*.","*.","secrets","secrets"]: TWICE, resources[0].resources: Invalid value: ["*.","*.","secrets","secrets"]: OVERLAP]`,
		"Secrets":                      `PARSING resources[0].resources[0]: Invalid value: "Secrets": resource name should not contain capital letters`,
		"secrets.Example.com":          `PARSING resources[0].resources[0]: Invalid value: "secrets.Example.com": resource name should not contain capital letters`,
		"'*'":                          `PARSING resources[0].resources[0]: Invalid value: "*": use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources`,
		"apiserveripinfo":              `PARSING resources[0].resources[0]: Invalid value: "apiserveripinfo": resources which do not have REST API/s cannot be encrypted`,
		"serviceipallocations":         `PARSING resources[0].resources[0]: Invalid value: "serviceipallocations": resources which do not have REST API/s cannot be encrypted`,
		"servicenodeportallocations":   `PARSING resources[0].resources[0]: Invalid value: "servicenodeportallocations": resources which do not have REST API/s cannot be encrypted`,
		"events.events.k8s.io":         `PARSING resources[0].resources[0]: Invalid value: "events.events.k8s.io": '*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file`,
		"'*.events.k8s.io'":            `PARSING resources[0].resources[0]: Invalid value: "*.events.k8s.io": '*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file`,
		"ingresses.extensions":         `PARSING resources[0].resources[0]: Invalid value: "ingresses.extensions": 'extensions' group has been removed and cannot be used for encryption`,
		"'*.extensions'":               `PARSING resources[0].resources[0]: Invalid value: "*.extensions": 'extensions' group has been removed and cannot be used for encryption`,
		"'secrets.*'":                  `PARSING resources[0].resources[0]: Invalid value: "secrets.*": encrypting the same resource across groups is not supported`,
		"secrets, Bad, '*'":            `PARSING [resources[0].resources: Invalid value: ["secrets","Bad","*"]: OVERLAP, resources[0].resources[1]: Invalid value: "Bad": resource name should not contain capital letters, resources[0].resources[2]: Invalid value: "*": use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources]`,
	} {
		if got := refusal(t, head+rule(resources, "identity"), false); got != want {
			t.Errorf("%q: %s, want %s", resources, got, want)
		}
	}
}

// TestProviderRules: what a provider must and must not say, in upstream's words, all of it at once.
func TestProviderRules(t *testing.T) {
	k16, k24, k32 := "MDEyMzQ1Njc4OWFiY2RlZg==", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3", secret('k')
	for provider, want := range map[string]string{
		"{identity: {}}": "",
		"{aesgcm: {keys: [{name: a, secret: " + k16 + "}, {name: b, secret: " + k24 + "}, {name: c, secret: " + k32 + "}]}}": "",
		"{aescbc: {keys: [{name: a, secret: " + k16 + "}, {name: b, secret: " + k24 + "}, {name: c, secret: " + k32 + "}]}}": "",
		"{secretbox: {keys: [{name: c, secret: " + k32 + "}]}}":                                                              "",
		"{kms: {apiVersion: v2, name: a, endpoint: 'unix:///x'}}":                                                            "",
		"{kms: {apiVersion: v2, name: a, endpoint: 'unix:///x', timeout: 1ns}}":                                              "",
		"{}": `PARSING resources[0].providers[0]: Invalid value: null: provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity`,
		"{identity: {}, aesgcm: {keys: [{name: a, secret: " + k32 + "}]}}":                                                                     `PARSING resources[0].providers[0]: Invalid value: ["AESGCM","Identity"]: SPLIT`,
		"{aesgcm: {keys: [{name: a, secret: " + k32 + "}]}, aescbc: {}, secretbox: {}, kms: {apiVersion: v2, name: a, endpoint: 'unix:///x'}}": `PARSING resources[0].providers[0]: Invalid value: ["KMS","AESGCM","AESCBC","Secretbox"]: SPLIT`,
		"{aesgcm: {}}":                  `PARSING resources[0].providers[0].aesgcm.keys: Required value: at least one keys is required`,
		"{aescbc: {}}":                  `PARSING resources[0].providers[0].aescbc.keys: Required value: at least one keys is required`,
		"{secretbox: {}}":               `PARSING resources[0].providers[0].secretbox.keys: Required value: at least one keys is required`,
		"{aesgcm: {keys: [{}]}}":        `PARSING [resources[0].providers[0].aesgcm.keys[0].name: Required value: name is a mandatory field for a key, resources[0].providers[0].aesgcm.keys[0].secret: Required value: secret is a mandatory field for a key]`,
		"{aesgcm: {keys: [{name: a}]}}": `PARSING resources[0].providers[0].aesgcm.keys[0].secret: Required value: secret is a mandatory field for a key`,
		"{aescbc: {keys: [{name: a, secret: '!'}, {secret: " + k32 + "}]}}": `PARSING [resources[0].providers[0].aescbc.keys[0].secret: Invalid value: "REDACTED": secrets must be base64 encoded, resources[0].providers[0].aescbc.keys[1].name: Required value: name is a mandatory field for a key]`,
		"{aescbc: {keys: [{name: a, secret: c2hvcnQ=}]}}":                   `PARSING resources[0].providers[0].aescbc.keys[0].secret: Invalid value: "REDACTED": secret is not of the expected length, got 5, expected one of [16 24 32]`,
		"{aesgcm: {keys: [{name: a, secret: c2hvcnQ=}]}}":                   `PARSING resources[0].providers[0].aesgcm.keys[0].secret: Invalid value: "REDACTED": secret is not of the expected length, got 5, expected one of [16 24 32]`,
		"{secretbox: {keys: [{name: a, secret: " + k16 + "}]}}":             `PARSING resources[0].providers[0].secretbox.keys[0].secret: Invalid value: "REDACTED": secret is not of the expected length, got 16, expected one of [32]`,
		"{kms: {}}":               `PARSING [resources[0].providers[0].kms.name: Required value: name is a mandatory field for a provider, resources[0].providers[0].kms.endpoint: Invalid value: "": endpoint is a mandatory field for a kms]`,
		"{kms: {apiVersion: v2}}": `PARSING [resources[0].providers[0].kms.name: Required value: name is a mandatory field for a provider, resources[0].providers[0].kms.endpoint: Invalid value: "": endpoint is a mandatory field for a kms]`,
		"{kms: {apiVersion: v1, name: a, endpoint: 'unix:///x', cachesize: 0}}":      `PARSING resources[0].providers[0].kms.cachesize: Invalid value: 0: cachesize should be a positive value, or negative to disable`,
		"{kms: {apiVersion: v1, name: 'a:b', endpoint: 'unix:///x', cachesize: -1}}": `error while building transformers: KMS provider "a:b": KMSv1 is deprecated and not supported here. Use KMSv2 instead, with apiVersion: v2`,
		"{kms: {apiVersion: v2, name: 'a:b', endpoint: 'unix:///x', cachesize: 5}}":  `PARSING [resources[0].providers[0].kms.name: Invalid value: "a:b": invalid KMS provider name a:b, must not contain ':', resources[0].providers[0].kms.cachesize: Invalid value: 5: cachesize is not supported in v2]`,
		"{kms: {apiVersion: v3, name: a, endpoint: 'unix:///x'}}":                    `PARSING resources[0].providers[0].kms.apiVersion: Invalid value: "v3": unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported`,
		"{kms: {apiVersion: v2, name: a, endpoint: 'unix:///x', timeout: 0s}}":       `PARSING resources[0].providers[0].kms.timeout: Invalid value: "0s": timeout should be a positive value`,
		"{kms: {apiVersion: v2, name: a, endpoint: 'unix:///x', timeout: -1s}}":      `PARSING resources[0].providers[0].kms.timeout: Invalid value: "-1s": timeout should be a positive value`,
		"{kms: {apiVersion: v2, name: a, endpoint: 'tcp://127.0.0.1:1'}}":            `PARSING resources[0].providers[0].kms.endpoint: Invalid value: "tcp://127.0.0.1:1": unsupported scheme "tcp" for KMS provider, only unix is supported`,
		"{kms: {apiVersion: v2, name: a, endpoint: 'unix://%zz'}}":                   `PARSING resources[0].providers[0].kms.endpoint: Invalid value: "unix://%zz": invalid endpoint for kms provider, error: parse "unix://%zz": invalid URL escape "%zz"`,
	} {
		if got := refusal(t, head+"- resources: [secrets]\n  providers:\n  - "+provider+"\n", false); got != want {
			t.Errorf("%q: %s, want %s", provider, got, want)
		}
	}
}

// TestFileRules: what else a file must be.
func TestFileRules(t *testing.T) {
	kms1, kms2 := kmsRule("secrets", "a", "/x", "3s"), kmsRule("configmaps", "a", "/x", "3s")
	v1 := strings.NewReplacer("v2", "v1")
	for _, c := range []struct {
		name, content, want, reload string
	}{
		{"no rules", head, `PARSING resources: Required value: at least one resources is required`, ""},
		{"an empty list", strings.TrimSuffix(head, "\n") + " []\n", `PARSING resources: Required value: at least one resources is required`, ""},
		{"nothing in a rule", head + "- {}\n", `PARSING [resources[0].resources: Required value: at least one resources[0].resources is required, resources[0].providers: Required value: at least one resources[0].providers is required]`, ""},
		{"the second rule is wrong", head + rule("secrets", "identity") + "- resources: [configmaps]\n", `PARSING resources[1].providers: Required value: at least one resources[1].providers is required`, ""},
		{"two plugins of a name", head + kms1 + kms2, `PARSING resources[1].providers[0].kms.name: Invalid value: "a": duplicate KMS provider name a, names must be unique`, ""},
		{"of version 1", head + v1.Replace(kms1+kms2), `error while building transformers: KMS provider "a": KMSv1 is deprecated and not supported here. Use KMSv2 instead, with apiVersion: v2`, `PARSING resources[1].providers[0].kms.name: Invalid value: "a": duplicate KMS provider name a, names must be unique`},
		{"two plugins", head + kms1 + strings.Replace(kms2, "name: a", "name: b", 1), "", ""},
		{"the name that the documentation had", strings.NewReplacer("apiserver.config.k8s.io/v1", "v1", "EncryptionConfiguration", "EncryptionConfig").Replace(head) + rule("secrets", "identity"), "", ""},
		{"another kind", strings.Replace(head, "EncryptionConfiguration", "SomethingElseAltogether", 1) + rule("secrets", "identity"), `PARSING DECODING no kind "SomethingElseAltogether" is registered for version "apiserver.config.k8s.io/v1" in scheme "pkg/runtime/scheme.go:111"`, ""},
		{"another kind, with digits", strings.Replace(head, "EncryptionConfiguration", "Something0Else1Altogether", 1) + rule("secrets", "identity"), `PARSING DECODING no kind "REDACTED" is registered for version "apiserver.config.k8s.io/v1" in scheme "pkg/runtime/scheme.go:111"`, ""},
		{"a key for a kind", strings.Replace(head, "EncryptionConfiguration", secret('k'), 1) + rule("secrets", "identity"), `PARSING DECODING no kind "REDACTED" is registered for version "apiserver.config.k8s.io/v1" in scheme "pkg/runtime/scheme.go:111"`, ""},
		{"a key for a field", head + rule("secrets", "identity") + "  " + secret('k') + ": 1\n", `PARSING DECODING strict decoding error: unknown field "resources[0].REDACTED"`, ""},
		{"a key of letters alone for a field", head + rule("secrets", "identity") + "  " + strings.Repeat("Ab", 12) + ": 1\n", `PARSING DECODING strict decoding error: unknown field "resources[0].REDACTED"`, ""},
	} {
		if got := refusal(t, c.content, false); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if c.reload == "" {
			c.reload = c.want
		}
		if got := refusal(t, c.content, true); got != c.reload {
			t.Errorf("%s, to be read again: %s, want %s", c.name, got, c.reload)
		}
	}
}

// TestOtherPlaces: what is not below the root is no custom resource.
func TestOtherPlaces(t *testing.T) {
	for _, key := range []string{"stable.example.com/crontabs/default/one", "/stable.example.com/crontabs/default/one", "/registrystable.example.com/crontabs/one", "/registry"} {
		if group, name, ok := locate()(key); ok || group != "" || name != "" {
			t.Errorf("%q is of %s.%s", key, name, group)
		}
	}
	if group, name, ok := config.Prefixes("", nil)("stable.example.com/crontabs/default/one"); !ok || group != "stable.example.com" || name != "crontabs" {
		t.Errorf("without a root: %s.%s, %v", name, group, ok)
	}
}

// TestReadableFileWithoutALog: nobody has to be told.
func TestReadableFileWithoutALog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	write(t, path, head+rule("secrets", "aesgcm one:1"))
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := config.Open(path, locate(), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// TestToldAgain: an error is told once, and again when the file was good in between; so is new content, and who may read it.
func TestToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logged
		good := head + rule("secrets", "aesgcm one:1")
		f, path := open(t, good, config.Options{Reload: true, Logger: log.logger()})
		defer run(t, f)()
		for i, step := range []struct {
			content            string
			mode               os.FileMode
			errors, news, open int
		}{
			{good, 0o600, 0, 0, 0}, {"wrong: [", 0o600, 1, 0, 0}, {"wrong: [", 0o644, 1, 0, 0}, {good, 0o600, 1, 0, 0}, {"wrong: [", 0o600, 2, 0, 0},
			{good + "# as before\n", 0o600, 2, 1, 0}, {good + "# for all\n", 0o644, 2, 2, 1}, {good + "# for all\n", 0o640, 2, 2, 1},
		} {
			write(t, path, step.content)
			if err := os.Chmod(path, step.mode); err != nil {
				t.Fatal(err)
			}
			time.Sleep(25 * time.Second)
			synctest.Wait()
			for what, want := range map[string]int{"error processing encryption config file": step.errors, "has new content": step.news, "chmod 600": step.open} {
				if got := strings.Count(log.String(), what); got != want {
					t.Errorf("step %d: %q was told %d times, want %d:\n%s", i, what, got, want, log.String())
				}
			}
		}
	})
}

// TestInterval: the file is looked at every ten seconds, or as often as was said.
func TestInterval(t *testing.T) {
	for interval, want := range map[time.Duration]time.Duration{0: 10 * time.Second, -1: 10 * time.Second, time.Minute: time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			f, path := open(t, head+rule("secrets", "aesgcm one:1"), config.Options{Reload: true, Interval: interval})
			defer run(t, f)()
			synctest.Wait()
			write(t, path, head+rule("secrets", "aesgcm two:2"))
			time.Sleep(want - 1)
			synctest.Wait()
			if got := form(t, f); !strings.HasPrefix(got, "k8s:enc:aesgcm:v1:one:") {
				t.Errorf("an interval of %v: too early: %.30q", interval, got)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if got := form(t, f); !strings.HasPrefix(got, "k8s:enc:aesgcm:v1:two:") {
				t.Errorf("an interval of %v: too late: %.30q", interval, got)
			}
		})
	}
}

// TestHealth: it is said which plugin is not well.
func TestHealth(t *testing.T) {
	dir := t.TempDir()
	plugin := kmstest.New("key")
	if err := plugin.Start(filepath.Join(dir, "one")); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := plugin.Stop(); err != nil {
			t.Error(err)
		}
	}()
	content := head + kmsRule("secrets", "one", filepath.Join(dir, "one"), "1m") + kmsRule("configmaps", "two", filepath.Join(dir, "two"), "50ms")
	path := filepath.Join(dir, "encryption.yaml")
	write(t, path, content)
	f, err := config.Open(path, locate(), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Check(t.Context()); !errors.Is(err, kms.ErrUnavailable) || !strings.HasPrefix(err.Error(), "kms-provider-1: ") || strings.Contains(err.Error(), "kms-provider-0") {
		t.Errorf("Check: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err == nil {
		t.Error("closed twice, and nobody minds")
	}
}

// TestEndsWhileAPluginIsAwaited: that the server ends is no fault of the file.
func TestEndsWhileAPluginIsAwaited(t *testing.T) {
	dir := t.TempDir()
	plugin := kmstest.New("key")
	plugin.Hang(true)
	if err := plugin.Start(filepath.Join(dir, "one")); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := plugin.Stop(); err != nil {
			t.Error(err)
		}
	}()
	var log logged
	f, path := open(t, head+rule("secrets", "identity"), config.Options{Reload: true, Interval: time.Millisecond, Logger: log.logger()})
	stop := run(t, f)
	write(t, path, head+kmsRule("secrets", "one", filepath.Join(dir, "one"), "1m"))
	eventually(t, "the plugin is asked", func() bool { return plugin.Calls().Status > 0 })
	stop()
	if strings.Contains(log.String(), "error processing") {
		t.Errorf("told of an error: %s", log.String())
	}
	if got := form(t, f); got != "plain" {
		t.Errorf("the plugin is in use: %.30q", got)
	}
}
