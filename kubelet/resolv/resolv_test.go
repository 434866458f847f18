package resolv_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/resolv"
)

func Example() {
	r := resolv.New(resolv.Options{Servers: []netip.Addr{netip.MustParseAddr("10.96.0.10")}, Domain: "cluster.local"})
	dns, warnings, err := r.Resolve(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst},
	})
	fmt.Println(dns.Servers, dns.Searches, dns.Options, warnings, err)
	// Output: [10.96.0.10] [shop.svc.cluster.local svc.cluster.local cluster.local] [ndots:5] [] <nil>
}

// TestParse has upstream's table of resolv.conf files.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "[] [] []",
		" ":                                      "[] [] []",
		"\n":                                     "[] [] []",
		"\t\n\t":                                 "[] [] []",
		"#comment\n":                             "[] [] []",
		" #comment\n":                            "[] [] []",
		"#comment\n#comment":                     "[] [] []",
		"#comment\nnameserver":                   "error",
		"#comment\nnameserver\nsearch":           "error",
		"nameserver 1.2.3.4":                     "[1.2.3.4] [] []",
		" nameserver 1.2.3.4":                    "[1.2.3.4] [] []",
		"\tnameserver 1.2.3.4":                   "[1.2.3.4] [] []",
		"nameserver\t1.2.3.4":                    "[1.2.3.4] [] []",
		"nameserver \t 1.2.3.4":                  "[1.2.3.4] [] []",
		"nameserver 1.2.3.4\nnameserver 5.6.7.8": "[1.2.3.4 5.6.7.8] [] []",
		"nameserver 1.2.3.4 #comment":            "[1.2.3.4] [] []",
		"search ":                                "[] [] []",
		"search .":                               "[] [] []",
		"search foo":                             "[] [foo] []",
		"search foo bar":                         "[] [foo bar] []",
		"search foo. bar":                        "[] [foo bar] []",
		"search foo bar bat\n":                   "[] [foo bar bat] []",
		"search foo\nsearch bar":                 "[] [bar] []",
		"nameserver 1.2.3.4\nsearch foo bar":     "[1.2.3.4] [foo bar] []",
		"nameserver 1.2.3.4\nsearch foo\nnameserver 5.6.7.8\nsearch bar": "[1.2.3.4 5.6.7.8] [bar] []",
		"#comment\nnameserver 1.2.3.4\n#comment\nsearch foo\ncomment":    "[1.2.3.4] [foo] []",
		"options ":                   "[] [] []",
		"options ndots:5 attempts:2": "[] [] [ndots:5 attempts:2]",
		"options ndots:1\noptions ndots:5 attempts:3":  "[] [] [ndots:5 attempts:3]",
		"options ndots:5 edns0 ndots:2\noptions edns0": "[] [] [ndots:2 edns0]",
		"; comment\nsortlist 1.2.3.4\ndomain x":        "[] [] []",
	} {
		dns, err := resolv.Parse(strings.NewReader(text))
		got := fmt.Sprint(dns.Servers, dns.Searches, dns.Options)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %s (%v), want %s", text, got, err, want)
		}
	}
	if _, err := resolv.Parse(strings.NewReader(strings.Repeat("#", 10<<20+1))); err == nil {
		t.Error("a file of any size is read")
	}
	if _, err := resolv.Parse(strings.NewReader(strings.Repeat("#", 10<<20))); err != nil {
		t.Errorf("a file as large as may be: %v", err)
	}
	broken := errors.New("broken")
	if _, err := resolv.Parse(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("a file that cannot be read: %v", err)
	}
	if dns, err := resolv.Parse(strings.NewReader("#nameserver\n#search a\n #nameserver 1.2.3.4")); err != nil || len(dns.Servers)+len(dns.Searches) != 0 {
		t.Errorf("comments: %+v, %v", dns, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"nameserver 1.1.1.1\nsearch a b.\noptions x:1 y", "nameserver\n", "search .\n", "options a:b:c a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		dns, err := resolv.Parse(strings.NewReader(text))
		if err != nil {
			return
		}
		// Parsing its own output gives the same result.
		var b strings.Builder
		for _, s := range dns.Servers {
			fmt.Fprintf(&b, "nameserver %s\n", s)
		}
		fmt.Fprintf(&b, "search %s\noptions %s\n", strings.Join(dns.Searches, " "), strings.Join(dns.Options, " "))
		again, err := resolv.Parse(strings.NewReader(b.String()))
		if slices.ContainsFunc(dns.Searches, func(s string) bool { return s == "" || strings.HasSuffix(s, ".") }) {
			return // only one trailing dot is removed
		}
		if err != nil || !slices.Equal(again.Servers, dns.Servers) || !slices.Equal(again.Searches, dns.Searches) || !slices.Equal(again.Options, dns.Options) {
			t.Errorf("%+v became %+v, %v", dns, again, err)
		}
	})
}

func addrs(list ...string) (out []netip.Addr) {
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func TestResolve(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte("nameserver 8.8.8.8\nsearch corp.example cluster.local\noptions timeout:1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cluster := resolv.Options{Servers: addrs("10.0.0.10", "fd00::10"), Domain: "cluster.local", File: file}
	missing := []string{`MissingClusterDNS: pod: "web_ns(uid)". kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.`}
	const searches = "ns.svc.cluster.local svc.cluster.local cluster.local corp.example"
	for name, c := range map[string]struct {
		options  resolv.Options
		policy   corev1.DNSPolicy
		host     bool
		config   *corev1.PodDNSConfig
		want     string
		warnings []string
	}{
		"clusterFirst": {options: cluster, policy: corev1.DNSClusterFirst, want: "[10.0.0.10 fd00::10] [" + searches + "] [ndots:5]"},
		"hostNetwork":  {options: cluster, policy: corev1.DNSClusterFirst, host: true, want: "[8.8.8.8] [corp.example cluster.local] [timeout:1]"},
		"withHostNet":  {options: cluster, policy: corev1.DNSClusterFirstWithHostNet, host: true, want: "[10.0.0.10 fd00::10] [" + searches + "] [ndots:5]"},
		"default":      {options: cluster, policy: corev1.DNSDefault, want: "[8.8.8.8] [corp.example cluster.local] [timeout:1]"},
		"none":         {options: cluster, policy: corev1.DNSNone, want: "[] [] []"},
		"unknown":      {options: cluster, policy: "Whatever", want: "[10.0.0.10 fd00::10] [" + searches + "] [ndots:5]"},
		"unset":        {options: cluster, want: "[10.0.0.10 fd00::10] [" + searches + "] [ndots:5]"},
		"noDomain":     {options: resolv.Options{Servers: cluster.Servers[:1], File: file}, policy: corev1.DNSClusterFirst, want: "[10.0.0.10] [corp.example cluster.local] [ndots:5]"},
		"noCluster":    {options: resolv.Options{File: file}, policy: corev1.DNSClusterFirst, want: "[8.8.8.8] [corp.example cluster.local] [timeout:1]", warnings: missing},
		"nothing":      {policy: corev1.DNSDefault, want: "[127.0.0.1] [.] []"},
		"nothing6":     {options: resolv.Options{NodeIPs: addrs("fd00::1", "192.168.0.1", "::ffff:1.2.3.4")}, policy: corev1.DNSDefault, want: "[::1 127.0.0.1 127.0.0.1] [.] []"},
		"nothingAtAll": {policy: corev1.DNSClusterFirst, want: "[127.0.0.1] [.] []", warnings: missing},
		"config": {options: cluster, policy: corev1.DNSClusterFirst, config: &corev1.PodDNSConfig{
			Nameservers: []string{"1.1.1.1", "10.0.0.10"}, Searches: []string{"more", "cluster.local"},
			Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: new("2")}, {Name: "edns0"}, {Name: "empty", Value: new("")}},
		}, want: "[10.0.0.10 fd00::10 1.1.1.1] [" + searches + " more] [ndots:2 edns0 empty]"},
		"onlyConfig": {options: cluster, policy: corev1.DNSNone, config: &corev1.PodDNSConfig{Nameservers: []string{"1.1.1.1"}, Searches: []string{"a"}}, want: "[1.1.1.1] [a] []"},
		"tooManyServers": {options: cluster, policy: corev1.DNSNone, config: &corev1.PodDNSConfig{Nameservers: []string{"1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"}}, want: "[1.1.1.1 1.1.1.2 1.1.1.3] [] []",
			warnings: []string{"DNSConfigForming: Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 1.1.1.1 1.1.1.2 1.1.1.3"}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "uid"}, Spec: corev1.PodSpec{DNSPolicy: c.policy, HostNetwork: c.host, DNSConfig: c.config}}
			dns, warnings, err := resolv.New(c.options).Resolve(pod)
			if got := fmt.Sprint(dns.Servers, dns.Searches, dns.Options); err != nil || got != c.want || !slices.Equal(warnings, c.warnings) {
				t.Errorf("%s %q, %v\nwant %s %q", got, warnings, err, c.want, c.warnings)
			}
		})
	}
}

func TestSearchLimits(t *testing.T) {
	search := func(n, length int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("%0*d", length, i))
		}
		return list
	}
	for name, c := range map[string]struct {
		searches []string
		want     int
	}{
		"fit":     {search(32, 63), 32},
		"many":    {search(40, 4), 32},
		"exactly": {append(search(8, 227), search(1, 224)...), 9}, // 8*227 + 224 + 8 spaces = 2048
		"long":    {append(search(8, 227), search(1, 225)...), 8},
		"much":    {search(32, 100), 20},
		"domain":  {append(search(2, 10), search(1, 254)...), 2},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{DNSPolicy: corev1.DNSNone, DNSConfig: &corev1.PodDNSConfig{Searches: c.searches}}}
		dns, warnings, err := resolv.New(resolv.Options{}).Resolve(pod)
		if err != nil || !slices.Equal(dns.Searches, c.searches[:c.want]) {
			t.Errorf("%s: %d, %v", name, len(dns.Searches), err)
		}
		line := "DNSConfigForming: Search Line limits were exceeded, some search paths have been omitted, the applied search line is: " + strings.Join(dns.Searches, " ")
		if c.want < len(c.searches) != slices.Equal(warnings, []string{line}) {
			t.Errorf("%s: %.100q", name, warnings)
		}
	}
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	pod := &corev1.Pod{Spec: corev1.PodSpec{DNSPolicy: corev1.DNSDefault}}
	r := resolv.New(resolv.Options{File: dir + "/resolv.conf"})
	if _, _, err := r.Resolve(pod); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	for text, want := range map[string]string{"nameserver 1.1.1.1": "1.1.1.1", "nameserver 2.2.2.2": "2.2.2.2", "nameserver": ""} {
		if err := os.WriteFile(dir+"/resolv.conf", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		dns, _, err := r.Resolve(pod)
		if (err != nil) != (want == "") || want != "" && !slices.Equal(dns.Servers, []string{want}) {
			t.Errorf("%s: %+v, %v", text, dns, err)
		}
	}
	var none cri.DNS
	if dns, _, err := r.Resolve(pod); err == nil && !slices.Equal(dns.Servers, none.Servers) {
		t.Log("read in another order")
	}
}

// TestMachineFile: the file found does not point to the machine itself.
func TestMachineFile(t *testing.T) {
	for name, c := range map[string]struct {
		machine, resolved string
		want              string
	}{
		"plain":    {"nameserver 1.1.1.1", "nameserver 2.2.2.2", "etc/resolv.conf"},
		"stub":     {"nameserver 127.0.0.53\noptions edns0", "nameserver 2.2.2.2", "run/systemd/resolve/resolv.conf"},
		"mixed":    {"nameserver 127.0.0.53\nnameserver 1.1.1.1", "nameserver 2.2.2.2", "etc/resolv.conf"},
		"loopback": {"nameserver ::1", "", "etc/resolv.conf"},
		"empty":    {"#", "nameserver 2.2.2.2", "etc/resolv.conf"},
		"missing":  {"", "nameserver 2.2.2.2", "etc/resolv.conf"},
		"name":     {"nameserver localhost", "nameserver 2.2.2.2", "etc/resolv.conf"},
	} {
		root := t.TempDir()
		for path, text := range map[string]string{"etc/resolv.conf": c.machine, "run/systemd/resolve/resolv.conf": c.resolved} {
			if text == "" {
				continue
			}
			file := filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := resolv.File(root); got != filepath.Join(root, c.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestHostname(t *testing.T) {
	long := strings.Repeat("a", 62) + "-bcd"
	for name, c := range map[string]struct {
		pod              corev1.PodSpec
		name             string
		host, domain     string
		kernel           string
		err, kernelError string
	}{
		"name":      {name: "web", host: "web", kernel: "web"},
		"hostname":  {name: "web", pod: corev1.PodSpec{Hostname: "other"}, host: "other", kernel: "other"},
		"subdomain": {name: "web", pod: corev1.PodSpec{Hostname: "h", Subdomain: "sub"}, host: "h", domain: "sub.ns.svc.cluster.local", kernel: "h"},
		"fqdn":      {name: "web", pod: corev1.PodSpec{Subdomain: "sub", SetHostnameAsFQDN: new(true)}, host: "web", domain: "sub.ns.svc.cluster.local", kernel: "web.sub.ns.svc.cluster.local"},
		"fqdnNoSub": {name: "web", pod: corev1.PodSpec{SetHostnameAsFQDN: new(true)}, host: "web", kernel: "web"},
		"long":      {name: long, host: strings.Repeat("a", 62), kernel: strings.Repeat("a", 62)},
		"override":  {name: "web", pod: corev1.PodSpec{HostnameOverride: new("over.ride"), Hostname: "h", Subdomain: "sub"}, host: "over.ride", kernel: "over.ride"},
		"longest":   {name: strings.Repeat("a", 62) + "-", host: strings.Repeat("a", 62) + "-", kernel: strings.Repeat("a", 62) + "-"},
		"fqdnOff":   {name: "web", pod: corev1.PodSpec{Subdomain: "sub", SetHostnameAsFQDN: new(false)}, host: "web", domain: "sub.ns.svc.cluster.local", kernel: "web"},
		"fqdnOver":  {name: "web", pod: corev1.PodSpec{HostnameOverride: new("over"), SetHostnameAsFQDN: new(true)}, host: "over", kernel: "over"},
		"fqdnLongest": {name: strings.Repeat("w", 39), pod: corev1.PodSpec{Subdomain: "sub", SetHostnameAsFQDN: new(true)}, host: strings.Repeat("w", 39), domain: "sub.ns.svc.cluster.local",
			kernel: strings.Repeat("w", 39) + ".sub.ns.svc.cluster.local"},
		"badHost":    {name: "web", pod: corev1.PodSpec{Hostname: "A.b"}, err: `pod Hostname "A.b" is not a valid DNS label: `},
		"badSub":     {name: "web", pod: corev1.PodSpec{Subdomain: "A.b"}, err: `pod Subdomain "A.b" is not a valid DNS label: `},
		"badOver":    {name: "web", pod: corev1.PodSpec{HostnameOverride: new("A_")}, err: `pod HostnameOverride "A_" is not a valid DNS subdomain: `},
		"onlyDashes": {name: strings.Repeat("-", 64), err: `hostname for pod "` + strings.Repeat("-", 64) + `" was invalid: `},
		"fqdnLong": {name: strings.Repeat("w", 50), pod: corev1.PodSpec{Subdomain: "sub", SetHostnameAsFQDN: new(true)}, host: strings.Repeat("w", 50), domain: "sub.ns.svc.cluster.local",
			kernelError: "failed to construct FQDN from pod hostname and cluster domain, FQDN " + strings.Repeat("w", 50) + ".sub.ns.svc.cluster.local is too long (64 characters is the max, 75 characters requested)"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: c.name}, Spec: c.pod}
		host, domain, err := resolv.Hostname(pod, "cluster.local")
		if c.err != "" {
			if err == nil || !strings.HasPrefix(err.Error(), c.err) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || host != c.host || domain != c.domain {
			t.Errorf("%s: %q %q, %v", name, host, domain, err)
		}
		names, _ := resolv.New(resolv.Options{Domain: "cluster.local"}).Names(pod)
		if c.kernelError == "" && (names.Hostname != c.host || names.Domain != c.domain || names.Kernel != c.kernel) {
			t.Errorf("%s: %+v", name, names)
		}
		kernel, err := resolv.KernelHostname(pod, host, domain)
		if kernel != c.kernel || (err == nil) != (c.kernelError == "") || err != nil && err.Error() != c.kernelError {
			t.Errorf("%s: %q, %v", name, kernel, err)
		}
	}
}

// Every kind of invalid name is an error.
func TestNames(t *testing.T) {
	r := resolv.New(resolv.Options{Domain: "cluster.local"})
	for name, spec := range map[string]corev1.PodSpec{
		"hostname": {Hostname: "A.b"},
		"FQDN":     {Subdomain: strings.Repeat("s", 60), SetHostnameAsFQDN: new(true)},
	} {
		if got, err := r.Names(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}, Spec: spec}); err == nil || got.Kernel != "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// Options may be modified after New.
func TestOptionsAreTheCallers(t *testing.T) {
	servers := addrs("10.0.0.10")
	ips := addrs("192.168.0.1")
	r := resolv.New(resolv.Options{Servers: servers, NodeIPs: ips})
	servers[0], ips[0] = netip.MustParseAddr("10.0.0.11"), netip.MustParseAddr("fd00::1")
	for policy, want := range map[corev1.DNSPolicy]string{corev1.DNSClusterFirst: "10.0.0.10", corev1.DNSDefault: "127.0.0.1"} {
		dns, _, err := r.Resolve(&corev1.Pod{Spec: corev1.PodSpec{DNSPolicy: policy}})
		if err != nil || !slices.Equal(dns.Servers, []string{want}) {
			t.Errorf("%s: %v, %v", policy, dns.Servers, err)
		}
	}
}

// A search domain may have at most 253 characters.
func TestLongestSearch(t *testing.T) {
	for length, want := range map[int]int{253: 1, 254: 0} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{DNSPolicy: corev1.DNSNone, DNSConfig: &corev1.PodDNSConfig{Searches: []string{strings.Repeat("a", length)}}}}
		dns, warnings, err := resolv.New(resolv.Options{}).Resolve(pod)
		if err != nil || len(dns.Searches) != want || len(warnings) != 1-want {
			t.Errorf("%d: %v, %v, %v", length, dns.Searches, warnings, err)
		}
	}
}
