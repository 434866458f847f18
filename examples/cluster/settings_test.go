package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/cluster"
)

func noEnvironment(string) string { return "" }

func TestFlags(t *testing.T) {
	home := func(name string) string {
		if name == "HOME" {
			return "/home/jane"
		}
		return ""
	}
	s, err := parse(nil, home, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := settings{
		dataDir: "/home/jane/.keelson", kubeconfig: "/home/jane/.keelson/kubeconfig", listen: "127.0.0.1:6443",
		storage: "embedded", nodes: 1, auditing: auditing{file: "/home/jane/.keelson/audit.log"},
	}
	if s.dataDir != want.dataDir || s.kubeconfig != want.kubeconfig || s.listen != want.listen || s.storage != want.storage ||
		s.nodes != want.nodes || s.auditing.file != want.auditing.file || len(s.disable) != 0 {
		t.Errorf("defaults are %+v, want %+v", s, want)
	}
	s, err = parse([]string{"--data-dir", "/d", "--nodes=3", "--disable", "scheduler,nodes", "--storage", "memory", "--audit-log", ""}, noEnvironment, io.Discard)
	if err != nil || s.kubeconfig != filepath.Join("/d", "kubeconfig") || s.nodes != 3 || !s.disabled("nodes") || s.disabled("controllers") || s.auditing.file != "" {
		t.Errorf("got %+v, %v", s, err)
	}
	s, err = parse([]string{"--disable-admission-plugins", "PodSecurity,NodeRestriction"}, home, io.Discard)
	if o := s.options(); err != nil || !slices.Equal(o.Disable, []string{"PodSecurity", "NodeRestriction"}) {
		t.Errorf("leaves out %v, %v", o.Disable, err)
	}
	usual := cluster.StageNames(s.options().Admission)
	s, err = parse([]string{"--enable-admission-plugins", "AlwaysPullImages,NamespaceExists"}, home, io.Discard)
	if o := s.options(); err != nil || !slices.Equal(cluster.StageNames(o.Admission), append(usual, "NamespaceExists", "AlwaysPullImages")) {
		t.Errorf("has %v, %v", cluster.StageNames(o.Admission), err)
	}
	// The help names the plugins that run.
	slices.Sort(usual)
	if told := slices.Sorted(slices.Values(usualPlugins())); !slices.Equal(told, usual) {
		t.Errorf("the help says that %v run, and %v do", told, usual)
	}
}

// TestGiven: what /flagz tells, also of flags that are functions, in every way to write them.
func TestGiven(t *testing.T) {
	args := []string{"--nodes", "3", "-storage=memory", "--enable-admission-plugins", "AlwaysDeny", "--enable-admission-plugins=AlwaysAdmit", "--verbose", "--anonymous-auth=false", "--oidc-required-claim", "a=b", "--storage=etcd",
		"--etcd-endpoints", "https://ann:s3cr3t@a:1,https://b:1,https://bob:s3c@r3t@c:1"}
	s, err := parse(args, func(string) string { return "/home" }, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"nodes": "3", "storage": "etcd", "etcd-endpoints": "https://xxxxx@a:1,https://b:1,https://xxxxx@c:1", "enable-admission-plugins": "AlwaysDeny,AlwaysAdmit", "verbose": "true", "anonymous-auth": "false", "oidc-required-claim": "a=b", "listen": defaultListen, "disable-admission-plugins": "",
	} {
		if got, ok := s.given[name]; !ok || got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestBadFlags: each error names the flag and what to write instead.
func TestBadFlags(t *testing.T) {
	for args, want := range map[string][]string{
		"--color":                                     {"-color", "--help lists the flags"},
		"--nodes many":                                {"-nodes", "many"},
		"--disable-admission-plugins Node":            {"-disable-admission-plugins", `"Node" is not known`, "NodeRestriction"},
		"--scheduler-config /none":                    {"--scheduler-config", "/none", "no such file"},
		"--policy-config-file /none":                  {"--policy-config-file", "/none", "no such file"},
		"--scheduler-config a --policy-config-file b": {"exclude each other"},
		"--admission-control-config-file /none":       {"--admission-control-config-file", "/none", "no such file"},
		"--enable-admission-plugins X":                {"-enable-admission-plugins", `"X" is not known`, "AlwaysPullImages"},
		"--enable-admission-plugins AlwaysDeny --disable-admission-plugins AlwaysDeny": {"both name AlwaysDeny"},
		"--nodes -1":                          {"--nodes -1", "from 0 to 5000"},
		"--anonymous-auth=perhaps":            {"-anonymous-auth", "perhaps"},
		"--oidc-required-claim x":             {"-oidc-required-claim", "malformed pair"},
		"--cors-allowed-origins example.com":  {"--cors-allowed-origins", "parts of other hosts"},
		"--tls-cert-file a":                   {"--tls-cert-file and --tls-private-key-file"},
		"--storage paper":                     {`--storage "paper"`, "memory or embedded or etcd"},
		"--storage etcd":                      {"--etcd-endpoints", "http://127.0.0.1:2379"},
		"--storage etcd --etcd-endpoints a:1": {`--etcd-endpoints "a:1"`, "http://HOST:PORT"},
		"--etcd-endpoints http://a:1":         {"--storage etcd"},
		"--storage etcd --etcd-servers http://a:1 --etcd-compaction-interval -1s": {"--etcd-compaction-interval", "5m"},
		"--etcd-prefix /x": {"--storage etcd"},
		"--storage etcd --etcd-servers http://a:1 --etcd-prefix x":   {"--etcd-prefix \"x\"", "/registry"},
		"--storage etcd --etcd-servers http://a:1 --etcd-certfile x": {"--etcd-certfile", "--etcd-keyfile"},
		"--storage etcd --etcd-servers http://a:1 --etcd-user x":     {"--etcd-user", "--etcd-password-file"},
		"--runtime docker":                                         {"--runtime \"docker\"", "simulated or containerd"},
		"--images x":                                               {"--images", "--runtime containerd"},
		"--cluster-cidr 10.0.0.0":                                  {"--cluster-cidr", "ADDRESS/BITS"},
		"--nodes 3 --cluster-cidr 10.0.0.0/23":                     {"--cluster-cidr", "room for 2 nodes"},
		"--runtime containerd --registry-mirror example.com":       {"--registry-mirror", "http://HOST:PORT"},
		"--runtime podman":                                         {`--runtime "podman"`, "simulated"},
		"--audit-log-maxage -1":                                    {"--audit-log-maxage -1", "days", "or 0"},
		"--audit-log-maxage 106752":                                {"--audit-log-maxage 106752", "36500"},
		"--audit-log-maxbackup -1":                                 {"--audit-log-maxbackup -1", "or 0 for all"},
		"--audit-log-maxsize -1":                                   {"--audit-log-maxsize -1", "MiB"},
		"--audit-log-maxsize 9000000000000000000":                  {"--audit-log-maxsize", "1048576"},
		"--audit-log= --audit-log-maxsize 1":                       {"--audit-log-maxsize", "--audit-log is empty"},
		"--max-requests-inflight -1":                               {"--max-requests-inflight -1", "or 0"},
		"--max-mutating-requests-inflight -1":                      {"--max-mutating-requests-inflight -1", "or 0"},
		"--listen 6443":                                            {`--listen "6443"`, "ADDRESS:PORT"},
		"--listen 127.0.0.1:https":                                 {"--listen", "from 0 to 65535"},
		"--listen 127.0.0.1:65536":                                 {"--listen", "from 0 to 65535"},
		"--listen example.org:1":                                   {"--listen", "is an IP"},
		"--load-balancer-range 192.0.2.1":                          {"load-balancer-range", "write it as ADDRESS/BITS"},
		"--load-balancer-range 192.0.2.0/24 --disable controllers": {"--load-balancer-range needs the controllers"},
		"--hosts pods":                                             {`--hosts "pods"`, "shared or netns"},
		"--hosts netns":                                            {"--hosts netns", "--runtime containerd"},
		"--kubelet-config x":                                       {"--kubelet-config", "--runtime containerd"},
		"--runtime containerd --nodes 2 --kubelet-config x":        {"--kubelet-config", "the only node"},
		"--runtime containerd --kubelet-config testdata/none.yaml": {"--kubelet-config: ", "no such file"},
		"--host-cidr 10.0.0.0":                                     {`--host-cidr "10.0.0.0"`, "ADDRESS/BITS"},
		"--host-cidr 10.0.0.0/31":                                  {"--host-cidr", "16 to 30 bits"},
		"--runtime containerd --hosts netns --host-cidr 10.63.0.0/29 --nodes 6":      {"--host-cidr 10.63.0.0/29", "room for 5 hosts, not for 6"},
		"--runtime containerd --hosts netns --host-cidr 10.64.3.0/24":                {"--host-cidr 10.64.3.0/24 overlaps with --cluster-cidr"},
		"--runtime containerd --hosts netns --disable controllers":                   {"--hosts netns needs the controllers"},
		"--runtime containerd --hosts netns --disable nodes":                         {"--hosts netns needs", "the nodes"},
		"--runtime containerd --hosts netns --registry-mirror http://localhost:1":    {"--registry-mirror http://localhost:1", "loopback"},
		"--runtime containerd --hosts netns --registry-mirror http://127.0.0.1:5000": {"--registry-mirror", "loopback"},
		"--disable etcd":    {`--disable "etcd"`, "scheduler, controllers, nodes"},
		"--data-dir=":       {"--data-dir is empty"},
		"--data-dir=~/data": {`--data-dir "~/data"`, "in full"},     // which no shell expands
		"":                  {`--data-dir "~/.keelson"`, "in full"}, // HOME is not set
		"start":             {`unexpected argument "start"`, "--help"},
	} {
		_, err := parse(strings.Fields(args), noEnvironment, io.Discard)
		if err == nil {
			t.Errorf("%s is accepted", args)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, which does not say %q", args, err, part)
			}
		}
	}
}

func TestHelpNamesEveryFlag(t *testing.T) {
	var help bytes.Buffer
	if _, err := parse([]string{"--help"}, noEnvironment, &help); !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	for _, name := range []string{
		"--data-dir DIR", "--kubeconfig FILE", "--listen ADDR:PORT", "--storage KIND", "--nodes N", "--runtime KIND", "--disable LIST",
		"--audit-log FILE", "--audit-log-maxage DAYS", "--audit-log-maxbackup N", "--audit-log-maxsize MIB", "(default 30, 50, 20)",
		"--max-requests-inflight N", "--max-mutating-requests-inflight N", "(default 400, 200)", "--verbose", "Examples:", "Ctrl-C",
	} {
		if !strings.Contains(help.String(), name) {
			t.Errorf("the help does not tell %s", name)
		}
	}
}

// TestRetention: what the flags of the audit log mean for its files, and how much of it unauthenticated requests may
// take.
func TestRetention(t *testing.T) {
	const day = 24 * time.Hour
	for args, want := range map[string]struct {
		file      audit.FileOptions
		strangers audit.Budget
	}{
		"": {audit.FileOptions{MaxSize: 20 << 20, Keep: 50, MaxAge: 30 * day}, audit.Budget{Bytes: 51 * 5 << 20 / 240, Every: 3 * time.Hour}},
		"--audit-log-maxage 8 --audit-log-maxbackup 1 --audit-log-maxsize 1": {
			audit.FileOptions{MaxSize: 1 << 20, Keep: 1, MaxAge: 8 * day}, audit.Budget{Bytes: 64 << 10, Every: day}},
		"--audit-log-maxage 0":    {audit.FileOptions{MaxSize: 20 << 20, Keep: 50}, audit.Budget{}},
		"--audit-log-maxbackup 0": {audit.FileOptions{MaxSize: 20 << 20, Keep: -1, MaxAge: 30 * day}, audit.Budget{}},
		"--audit-log-maxsize 0":   {audit.FileOptions{MaxSize: math.MaxInt64, Keep: 50, MaxAge: 30 * day}, audit.Budget{}},
	} {
		s, err := parse(append([]string{"--data-dir", "/d"}, strings.Fields(args)...), noEnvironment, io.Discard)
		if err != nil {
			t.Errorf("%q: %v", args, err)
			continue
		}
		if file, strangers := s.auditing.retention.options(), s.auditing.retention.strangers(); file != want.file || strangers != want.strangers {
			t.Errorf("%q: %+v %+v, want %+v", args, file, strangers, want)
		}
	}
}

// TestInflight: only the sum counts, as for kube-apiserver.
func TestInflight(t *testing.T) {
	for args, want := range map[string]int{
		"":                          600,
		"--max-requests-inflight 0": 200,
		"--max-mutating-requests-inflight 0 --max-requests-inflight 7": 7,
		"--max-mutating-requests-inflight 0 --max-requests-inflight 0": -1,
	} {
		s, err := parse(append([]string{"--data-dir", "/d"}, strings.Fields(args)...), noEnvironment, io.Discard)
		if err != nil {
			t.Errorf("%q: %v", args, err)
			continue
		}
		var o cluster.Server
		if s.inflight.apply(&o); o.Seats != want {
			t.Errorf("%q: %d, want %d", args, o.Seats, want)
		}
	}
}

// TestKubeletConfig: a file for the node's kubelet says what it gives to containers alone, and nothing else.
func TestKubeletConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubelet.yaml")
	read := func(text string) (settings, error) {
		if err := os.WriteFile(file, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		return parse([]string{"--runtime", "containerd", "--data-dir", "/d", "--kubelet-config", file}, noEnvironment, io.Discard)
	}
	s, err := read("cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n")
	if p := s.kubelet.pinning.Policies.CPUs; err != nil || p.Policy != "static" || p.Reserved.String() != "0" {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := read("cpuManagerPolicy: static\nmaxPods: 5\n"); err == nil || !strings.Contains(err.Error(), "maxPods is decided by this program") {
		t.Error(err)
	}
	if _, err := read("cpuManagerPolicy: most\n"); err == nil || !strings.Contains(err.Error(), "cpuManagerPolicy") {
		t.Error(err)
	}
}
