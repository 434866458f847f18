package main

import (
	"errors"
	"io"
	"net"
	"net/netip"
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
		"bad configuration":   {append(good, "--config", config), config + ":1: apiVersion"},
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

// TestConfig: a KubeletConfiguration decides about what no flag was given for.
func TestConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	text := `{apiVersion: kubelet.config.k8s.io/v1beta1, kind: KubeletConfiguration, staticPodPath: /manifests, podLogsDir: /l, clusterDomain: d.example,
		clusterDNS: [10.96.0.10], podCIDR: 10.1.0.0/24, port: 1, cgroupRoot: /a, rotateCertificates: true, serverTLSBootstrap: true, maxPods: 7,
		containerRuntimeEndpoint: "unix:///x", authentication: {x509: {clientCAFile: /ca}}, evictionHard: {memory.available: 1Gi}, resolvConf: /r}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	address := netip.MustParseAddr("10.0.0.1")
	s, err := parse([]string{"--kubeconfig", "k", "--config", path}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.options(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.static != "/manifests" || s.logs != "/l" || s.domain != "d.example" || len(s.dns) != 1 || len(s.cidrs) != 1 || s.listen != ":1" || s.cgroups != "/a/kubepods" ||
		!s.rotateClient || !s.rotateServing || s.endpoint != "unix:///x" || s.clientCA != "/ca" || s.root != "/var/lib/kubelet" || s.config.Capacity.Pods().Value() != 7 {
		t.Errorf("got %+v", s)
	}
	if o.StaticDir != "/manifests" || o.DNS.ResolvConf != "/r" || len(o.DNS.Servers) != 1 || len(o.Upkeep.Thresholds) != 2 || o.Addresses[0] != address || o.Upkeep.Images == nil {
		t.Errorf("got %+v", o)
	}
	s, err = parse([]string{
		"--kubeconfig", "k", "--config", path, "--static-pods", "/s", "--cluster-dns", "10.0.0.2", "--pod-cidr", "10.2.0.0/24", "--pod-cidr", "10.3.0.0/24",
		"--listen", "none", "--rotate-certificates=false", "--rotate-server-certificates=false", "--eviction-hard", "nodefs.available=1%",
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o, err = s.options(address, nil); err != nil || s.static != "/s" || len(s.dns) != 1 || s.dns[0].String() != "10.0.0.2" || len(s.cidrs) != 2 || s.listen != "none" ||
		s.rotateClient || s.rotateServing || len(o.Upkeep.Thresholds) != 1 || s.logs != "/l" {
		t.Errorf("with flags: %+v, %v", s, err)
	}
}
