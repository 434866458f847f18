package components_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/wire"
	"github.com/keelson-dev/keelson/internal/upstream"
	"github.com/keelson-dev/keelson/internal/upstream/controlplane"
	"github.com/keelson-dev/keelson/lifecycle"
	services "github.com/keelson-dev/keelson/proxy"
	"github.com/keelson-dev/keelson/proxy/nftables"
)

var inside = flag.Bool("inside", false, "set by TestSwaps itself once it is in its network namespace")

// pods are the addresses of a node that brings its own containerd.
var pods = netip.MustParsePrefix("10.78.0.0/24")

// again runs TestSwaps in a network namespace of its own, as another process: upstream's proxy is about all services of a
// host, so that two clusters with the same addresses for services would disturb each other.
func again(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := flag.Lookup("test.run").Value.String()
	if !strings.HasPrefix(run, "^TestSwaps$") { // without one, or one that selects other tests, too
		run = "^TestSwaps$"
	}
	var said strings.Builder
	c := exec.CommandContext(t.Context(), "unshare", "--net", "--", self, "-inside", "-test.v", "-test.timeout=0", "-test.count=1", "-test.run="+run, "-results="+*results)
	c.Stdout = io.MultiWriter(&said, t.Output())
	c.Stderr = c.Stdout
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "--- PASS: TestSwaps ") {
		t.Error("it did not run")
	}
}

// uplink gives the network namespace a route to elsewhere, which programs take the host's address from. Name servers are out of
// reach, and say so at once: programs that look up the host's name would wait long for no answer.
func uplink(t *testing.T) {
	t.Helper()
	links, err := net.Interfaces()
	if err != nil || len(links) != 1 {
		t.Fatalf("this is not a network namespace of its own: %v, %v", links, err)
	}
	commands := []string{
		"ip link set dev lo up", "ip link add uplink0 type veth peer name uplink1", "ip address add 192.0.2.1/24 dev uplink0", "ip link set dev uplink0 up", "ip link set dev uplink1 up",
		"ip route add default dev uplink0",
	}
	resolv, err := os.ReadFile("/etc/resolv.conf")
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(resolv)) {
		if words := strings.Fields(line); len(words) == 2 && words[0] == "nameserver" {
			if server, err := netip.ParseAddr(words[1]); err == nil && !server.IsLoopback() {
				commands = append(commands, "ip route replace unreachable "+server.WithZone("").String())
			}
		}
	}
	for _, command := range commands {
		words := strings.Fields(command)
		if out, err := exec.CommandContext(t.Context(), words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
}

// startProxy runs upstream's proxy.
func startProxy(t *testing.T, at controlplane.Access) {
	t.Helper()
	credentials, err := at.Kubeconfig(t.Context(), "kube-proxy", "system:kube-proxy")
	if err != nil {
		t.Fatal(err)
	}
	upstreams(t, upstream.Proxy, "--kubeconfig="+credentials, "--proxy-mode=nftables", "--hostname-override=node-0", "--cluster-cidr="+pods.String(),
		"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0")
}

// runProxy runs keelson's proxy, in this process, as the user to whom upstream's roles for proxies are bound.
func runProxy(t *testing.T, at controlplane.Access) {
	t.Helper()
	config, err := at.Config("system:kube-proxy")
	if err != nil {
		t.Fatal(err)
	}
	sources := services.Sources{
		Services:       watched[*corev1.Service](t, config, corev1.SchemeGroupVersion, "services"),
		EndpointSlices: watched[*discoveryv1.EndpointSlice](t, config, discoveryv1.SchemeGroupVersion, "endpointslices"),
		Nodes:          watched[*corev1.Node](t, config, corev1.SchemeGroupVersion, "nodes"),
	}
	writer, err := nftables.New(nftables.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := services.New(sources, writer, services.Options{
		Settings: services.Settings{Pods: []netip.Prefix{pods}, Services: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}, Nodes: []string{"node-0"},
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- lifecycle.Group(sources.Services, sources.EndpointSlices, sources.Nodes, p).Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := errors.Join(writer.Remove(context.Background()), writer.Close()); err != nil {
			t.Error(err)
		}
	})
}

func watched[T informer.Object](t *testing.T, config *rest.Config, version schema.GroupVersion, resource string) *informer.Informer[T] {
	t.Helper()
	source, err := wire.New[T](config, scheme.Scheme, version.WithResource(resource), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return informer.New(source, informer.Options{})
}

// answers waits until the service's address answers this host or, if it has no pods, refuses connections.
func (w *world) answers(t *testing.T, want bool) {
	t.Helper()
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	eventually(t, fmt.Sprintf("that the service answers (%t)", want), func(ctx context.Context) (string, error) {
		s, err := w.api.CoreV1().Services("shop").Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(s.Spec.ClusterIP, "80"), http.NoBody)
		if err != nil {
			return "", err
		}
		r, err := client.Do(q)
		if !want {
			if err == nil {
				_ = r.Body.Close()
			}
			if errors.Is(err, syscall.ECONNREFUSED) {
				return "", nil
			}
			return fmt.Sprintf("it does not refuse: %v", err), nil
		}
		if err != nil {
			return "", err
		}
		defer func() { _ = r.Body.Close() }()
		return differ(r.StatusCode, http.StatusOK), nil
	})
}
