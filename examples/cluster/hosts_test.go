package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/cni/netns"
	"github.com/keelson-dev/keelson/internal/kubectl"
)

// TestHosts runs the script of testdata/hosts on three nodes that are hosts of their own, and asks services from the hosts and
// from outside. A cluster that is killed finds its hosts again; one that is interrupted, or removed, leaves no trace.
func TestHosts(t *testing.T) {
	nginx, _ := containersHere(t)
	images := filepath.Dir(nginx)
	path, err := kubectl.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := program(t)
	dir := filepath.Join(t.TempDir(), "data")
	args := []string{
		"--runtime", "containerd", "--hosts", "netns", "--nodes", "3", "--images", images, "--cluster-cidr", "10.82.0.0/16", "--host-cidr", "10.81.0.0/24",
	}
	t.Cleanup(func() {
		if text, code, err := p.Fail(context.Background(), "--data-dir", dir, "--down"); err != nil || code != 0 {
			t.Errorf("--down: code %d, %v: %s", code, err, text)
		}
	})
	before := traces(t)
	process := started(t, p, dir, args...)
	_, api := clients(t, process)
	waitForNodes(t, api, 3)
	s, err := readScript("testdata/hosts/hosts.txt")
	if err != nil {
		t.Fatal(err)
	}
	t.Run(s.name, func(t *testing.T) { play(t, s, path, process) })
	services(t, api, dir)

	pods := keepRunning(t, api)
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	process = started(t, p, dir, args...)
	_, api = clients(t, process)
	waitForNodes(t, api, 3)
	stillRunning(t, api, pods)
	services(t, api, dir)
	if err := process.Interrupt(); err != nil {
		t.Error(err)
	}
	if text := process.Output(); strings.Contains(text, "goroutine ") || strings.Contains(text, "error:") {
		t.Error(text)
	}
	left(t, before, dir)

	process = started(t, p, dir, args...)
	_, api = clients(t, process)
	waitForNodes(t, api, 3)
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	if text, code, err := p.Fail(t.Context(), "--data-dir", dir, "--down"); err != nil || code != 0 {
		t.Fatalf("--down: code %d, %v: %s", code, err, text)
	}
	left(t, before, dir)
}

// left fails if a cluster has left traces.
func left(t *testing.T, before map[string]bool, dir string) {
	t.Helper()
	wire, err := newWire(&settings{dataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for trace := range traces(t) {
		if !before[trace] && (strings.Contains(trace, dir) || strings.Contains(trace, wire.bridge())) {
			t.Errorf("left: %s", trace)
		}
	}
}

// services asks the service web from each host by its cluster IP, and from outside at the node port of each host.
func services(t *testing.T, api kubernetes.Interface, dir string) {
	t.Helper()
	service, err := api.CoreV1().Services("hosts").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := api.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes.Items {
		inside := func(ctx context.Context, network, address string) (c net.Conn, err error) {
			err = netns.Do(filepath.Join(dir, "hosts", node.Name), func() error {
				c, err = new(net.Dialer).DialContext(ctx, network, address)
				return err
			})
			return c, err
		}
		within(t, time.Minute, func(ctx context.Context) error {
			return errors.Join(
				page(ctx, inside, service.Spec.ClusterIP), page(ctx, nil, fmt.Sprintf("%s:%d", internalIP(node), service.Spec.Ports[0].NodePort)),
			)
		})
	}
}

func internalIP(node corev1.Node) string {
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// page fails unless nginx answers at an address.
func page(ctx context.Context, dial func(ctx context.Context, network, address string) (net.Conn, error), address string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address, nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil || !strings.Contains(string(text), "Welcome to nginx!") {
		return fmt.Errorf("%s answers %q, %w", address, text, err)
	}
	return nil
}
