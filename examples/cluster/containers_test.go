package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/internal/kubectl"
	"github.com/keelson-dev/keelson/node/nodetools"
	"github.com/keelson-dev/keelson/node/ociimage"
)

// containersHere installs what real containers need, and skips the test where they cannot run; in CI they can. It
// returns an archive for --images and a mirror that has another image.
func containersHere(t *testing.T) (images, mirror string) {
	t.Helper()
	if err := nodetools.Supported(t.Context()); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	tools, err := nodetools.Install(t.Context(), nodetools.Options{Progress: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	nginx, err := ociimage.Nginx(t.Context(), tools.Images, &log)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	busybox, err := ociimage.Busybox(t.Context(), tools.Images, &log)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	registry, err := ociimage.NewRegistry(busybox)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry)
	t.Cleanup(server.Close)
	return nginx, server.URL
}

// TestNoNodesOfContainers: a cluster may wait for nodes of others.
func TestNoNodesOfContainers(t *testing.T) {
	containersHere(t)
	process := started(t, program(t), filepath.Join(t.TempDir(), "data"), "--runtime", "containerd", "--storage", "memory", "--nodes", "0")
	if err := process.Interrupt(); err != nil {
		t.Error(err)
	}
}

// TestFallback: users who may not run containers get simulated ones, and are told why.
func TestFallback(t *testing.T) {
	p := program(t)
	dir := t.TempDir()
	if os.Geteuid() == 0 {
		const nobody = 65534
		p = p.As(nobody)
		if err := errors.Join(os.Chown(dir, nobody, nobody), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	process := started(t, p, filepath.Join(dir, "data"), "--runtime", "containerd", "--storage", "memory")
	if text := process.Output(); !strings.Contains(text, "containers are simulated: ") || !strings.Contains(text, "root") {
		t.Errorf("it says %q", text)
	}
	_, api := clients(t, process)
	waitForNodes(t, api, 1)
	if err := process.Interrupt(); err != nil {
		t.Error(err)
	}
}

// TestContainers runs the scripts of testdata/containers, in TestKubectl's format, on three nodes of real containers.
// Then it kills the cluster, starts it again, expects to find everything unchanged, and removes it without a trace.
func TestContainers(t *testing.T) {
	images, mirror := containersHere(t)
	path, err := kubectl.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := program(t)
	dir := filepath.Join(t.TempDir(), "data")
	args := []string{"--runtime", "containerd", "--nodes", "3", "--images", images, "--registry-mirror", mirror, "--cluster-cidr", "10.80.0.0/16"}
	t.Cleanup(func() {
		if text, code, err := p.Fail(context.Background(), "--data-dir", dir, "--down"); err != nil || code != 0 {
			t.Errorf("--down: code %d, %v: %s", code, err, text)
		}
	})
	before := traces(t)
	process := started(t, p, dir, args...)
	_, api := clients(t, process)
	waitForNodes(t, api, 3)
	scripts, err := filepath.Glob("testdata/containers/*.txt")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range scripts {
		s, err := readScript(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(s.name, func(t *testing.T) { play(t, s, path, process) })
	}
	if text := process.Output(); strings.Contains(text, "goroutine ") {
		t.Error(text)
	}

	pods := keepRunning(t, api)
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	process = started(t, p, dir, args...)
	_, api = clients(t, process)
	waitForNodes(t, api, 3)
	stillRunning(t, api, pods)

	if text, code, err := p.Fail(t.Context(), "--data-dir", dir, "--down"); err != nil || code != 0 {
		t.Fatalf("--down: code %d, %v: %s", code, err, text)
	}
	for trace := range traces(t) {
		if !before[trace] && strings.Contains(trace, dir) {
			t.Errorf("--down left %s", trace)
		}
	}
}

// traces are mounts, processes and network devices on this machine.
func traces(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		found["mount "+line] = true
	}
	devices, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range devices {
		found["device "+d.Name] = true
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range lines {
		if command, err := os.ReadFile(file); err == nil {
			found["process "+file+" "+strings.ReplaceAll(string(command), "\x00", " ")] = true
		}
	}
	return found
}

func waitForNodes(t *testing.T, api kubernetes.Interface, count int) {
	t.Helper()
	within(t, time.Minute, func(ctx context.Context) error {
		list, err := api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		ready := 0
		for _, n := range list.Items {
			for _, c := range n.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && time.Since(c.LastHeartbeatTime.Time) < time.Minute {
					ready++
				}
			}
		}
		if ready < count {
			return fmt.Errorf("%d of %d nodes are ready", ready, count)
		}
		return nil
	})
}

// within repeats ask until it succeeds.
func within(t *testing.T, limit time.Duration, ask func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("after %v: %v", limit, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// keepRunning starts two pods and returns their containers.
func keepRunning(t *testing.T, api kubernetes.Interface) map[string]string {
	t.Helper()
	for _, name := range []string{"keep-1", "keep-2"} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
		}
		if _, err := api.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	found := map[string]string{}
	within(t, time.Minute, func(ctx context.Context) (err error) {
		found, err = runningContainers(ctx, api)
		if err == nil && len(found) != 2 {
			err = fmt.Errorf("running: %v", found)
		}
		return err
	})
	return found
}

// runningContainers returns the ready containers of the namespace default, by their pods.
func runningContainers(ctx context.Context, api kubernetes.Interface) (map[string]string, error) {
	list, err := api.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, pod := range list.Items {
		for _, s := range pod.Status.ContainerStatuses {
			if s.Ready {
				found[pod.Name] = fmt.Sprintf("%s, %d restarts, at %s", s.ContainerID, s.RestartCount, pod.Status.PodIP)
			}
		}
	}
	return found, nil
}

// stillRunning fails unless the pods are unchanged and answer a newly started kubelet.
func stillRunning(t *testing.T, api kubernetes.Interface, before map[string]string) {
	t.Helper()
	within(t, time.Minute, func(ctx context.Context) error {
		for name := range before {
			if _, err := api.CoreV1().Pods("default").GetLogs(name, &corev1.PodLogOptions{}).DoRaw(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	after, err := runningContainers(t.Context(), api)
	if err != nil {
		t.Fatal(err)
	}
	for name, was := range before {
		if after[name] != was {
			t.Errorf("pod %s was %s before the kill, and is %s", name, was, after[name])
		}
	}
}
