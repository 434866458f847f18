package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/cluster"
)

// TestLogin: the flags about users of other systems become stages, or errors in upstream's words.
func TestLogin(t *testing.T) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	if err := os.WriteFile(file, []byte(head+"anonymous: {enabled: false}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte("{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: 'https://x'}}], contexts: [{name: c, context: {cluster: c}}], current-context: c}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"":                       "",
		"--anonymous-auth":       "",
		"--anonymous-auth=false": "anonymous",
		"--oidc-issuer-url https://x --oidc-client-id y --oidc-signing-algs RS256,ES256":                          "jwt",
		"--oidc-issuer-url https://x --oidc-client-id y --anonymous-auth=false":                                   "jwt anonymous",
		"--authentication-config " + file:                                                                         "jwt anonymous",
		"--enable-bootstrap-token-auth":                                                                           "bootstraptoken",
		"--authentication-token-webhook-config-file " + kubeconfig + " --authentication-token-webhook-version v1": "webhook",
		"--authentication-token-webhook-config-file " + kubeconfig + " --authentication-token-webhook-version v3": `error: unsupported authentication webhook version "v3"`,
		"--oidc-issuer-url https://x":                                                                             "error: oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set",
		"--oidc-issuer-url https://x --authentication-config " + file:                                             "error: authentication-config file and oidc-* flags are mutually exclusive",
		"--anonymous-auth --authentication-config " + file:                                                        "error: --anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file",
		"--oidc-client-id y --oidc-issuer-url " + usualIssuer:                                                     "error: URL must not overlap with disallowed issuers",
		"--authentication-config /none":                                                                           "error: /none: stat /none: no such file",
	} {
		s, err := parse(append(strings.Fields(args), "--data-dir", "/d"), noEnvironment, io.Discard)
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		var p people
		err = s.login.others(&p, &s)
		wrong, isWrong := strings.CutPrefix(want, "error: ")
		switch {
		case isWrong && (err == nil || !strings.Contains(err.Error(), wrong)):
			t.Errorf("%s: %v", args, err)
		case !isWrong && (err != nil || !slices.Equal(cluster.StageNames(p.others), strings.Fields(want))):
			t.Errorf("%s: %v, %v", args, cluster.StageNames(p.others), err)
		case !isWrong && len(p.extensions) != strings.Count(want, "jwt"):
			t.Errorf("%s: %d extensions", args, len(p.extensions))
		}
	}
}

// TestPermission: the flags about who may do what make a chain, or errors in upstream's words.
func TestPermission(t *testing.T) {
	file := filepath.Join(t.TempDir(), "authorization.yaml")
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n"
	if err := os.WriteFile(file, []byte(head+"authorizers: [{type: RBAC, name: rbac}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"":                               "",
		"--authorization-mode RBAC,Node": "",
		"--authorization-config " + file: "",
		"--authorization-mode X":         `authorization-mode "X" is not a valid mode`,
		"--authorization-mode Webhook":   "authorization-mode Webhook's authorization config file not passed",
		"--authorization-mode RBAC --authorization-config " + file: "--authorization-config can not be specified when --authorization-mode or",
		"--authorization-config /none":                             "no such file",
	} {
		s, err := parse(append(strings.Fields(args), "--data-dir", "/d"), noEnvironment, io.Discard)
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		o := s.options()
		if err := s.permission.apply(&s, &o); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
