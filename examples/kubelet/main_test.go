package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestHelp(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"--help"}, &out); !errors.Is(err, pflag.ErrHelp) {
		t.Error(err)
	}
	for _, want := range []string{"system:node:NAME", "--client-ca", "leave the containers running"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help does not say %q:\n%s", want, out.String())
		}
	}
}

func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "kubeconfig")
	text := `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]}`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	good := []string{"--kubeconfig", config, "--node-name", "n1", "--root-dir", dir}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no flags":            {nil, "--kubeconfig is required"},
		"not a flag":          {append(good, "n1"), `"n1" is not a flag`},
		"half a pair":         {append(good, "--tls-cert", "x"), "go together"},
		"two certificates":    {append(good, "--tls-cert", "x", "--tls-key", "x", "--rotate-server-certificates"), "exclude each other"},
		"foreign certificate": {append(good, "--rotate-certificates"), "kubelet-client-current.pem"},
		"missing bootstrap":   {[]string{"--kubeconfig", filepath.Join(dir, "none"), "--bootstrap-kubeconfig", filepath.Join(dir, "nor")}, "--bootstrap-kubeconfig"},
		"missing file":        {[]string{"--kubeconfig", filepath.Join(dir, "none")}, "none"},
		"bad network":         {append(good, "--pod-cidr", "10.0.0.0"), "--pod-cidr"},
		"bad threshold":       {append(good, "--eviction-hard", "memory=1"), "--eviction-hard"},
		"bad endpoint":        {append(good, "--runtime-endpoint", "tcp://x"), "tcp://x"},
		"missing authority":   {append(good, "--client-ca", filepath.Join(dir, "ca.crt")), "--client-ca"},
		"missing certificate": {append(good, "--tls-cert", "/x.crt", "--tls-key", "/x.key"), "x.crt"},
		"port taken":          {append(good, "--listen", taken.Addr().String()), "address already in use"},
		"relative root-dir":   {append(good, "--root-dir", "x/y", "--listen", "none"), "absolute"},
	} {
		if err := run(t.Context(), c.args, &strings.Builder{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want something of %q", name, err, c.want)
		}
	}
}
