package remote_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/cni/bridge"
	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/runtimetest"
	"github.com/keelson-dev/keelson/node/containerd"
	"github.com/keelson-dev/keelson/node/containerd/containerdtest"
	"github.com/keelson-dev/keelson/node/ociimage"
)

func shell(script string) runtimetest.Program {
	return runtimetest.Program{Image: containerdtest.Busybox, Command: []string{"sh", "-c", script}}
}

// settled is a program that says when it has set its traps.
func settled(trap, loop string) runtimetest.Program {
	p := shell(trap + "; touch /ready; " + loop)
	p.Ready = []string{"test", "-e", "/ready"}
	return p
}

// registry serves an image under the names of two registries, one of which wants to know who asks.
func registry(t *testing.T) (mirrors map[string][]string) {
	t.Helper()
	archive, err := ociimage.Build(t.Context(), t.TempDir(), ociimage.Recipe{
		Name: "tiny", Version: "1",
		Images: []ociimage.Image{{References: []string{"public.example/library/tiny:1", "private.example/library/tiny:1"}}},
		Fill: func(_ context.Context, _ string, tree *ociimage.Tree) error {
			tree.File("file", 0o644, []byte("content"))
			return nil
		},
	}, testWriter{t})
	if err != nil {
		t.Fatal(err)
	}
	images, err := ociimage.NewRegistry(archive)
	if err != nil {
		t.Fatal(err)
	}
	serve := func(h http.Handler) string {
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		return server.URL
	}
	return map[string][]string{
		"public.example":  {serve(images)},
		"private.example": {serve(ociimage.Private(images, "user", "password"))},
	}
}

// network makes a bridge of the test's own, with port mappings, and returns the directory of its
// configuration.
func network(t *testing.T) (confDir string) {
	t.Helper()
	dir := t.TempDir()
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	name := fmt.Sprintf("cri%x", random)
	subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 128 | random[0]&63, random[1], 0}), 24)
	b, err := bridge.New([]netip.Prefix{subnet}, bridge.Options{Bridge: name, Network: name, DataDir: filepath.Join(dir, "addresses")})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left, err := b.Leases()
		if err != nil || len(left) > 0 {
			t.Errorf("addresses that were not given back: %v, %v", left, err)
		}
		if err := b.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if _, err := bridge.WriteFile(filepath.Join(dir, "10-bridge.conflist"), b.Config()); err != nil {
		t.Fatal(err)
	}
	return dir
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", b)
	return len(b), nil
}

// TestContainerd holds the client and containerd to the contract.
func TestContainerd(t *testing.T) {
	daemon := containerdtest.Start(t, containerdtest.Options{Containerd: containerd.Options{Mirrors: registry(t), CNIConfDir: network(t)}})
	client := dial(t, daemon.Socket())
	runtimetest.Run(t, func(*testing.T) runtimetest.Runtime { return client }, runtimetest.Options{
		Sleeper:      settled("trap 'exit 0' TERM", "while :; do sleep 0.1; done"),
		Stubborn:     settled("trap '' TERM", "while :; do sleep 1; done"),
		Failure:      shell("exit 3"),
		Success:      shell("exit 0"),
		MissingImage: "public.example/no/such:1",
		Pullable:     "public.example/library/tiny:1",
		Private:      "private.example/library/tiny:1",
		Auth:         &cri.Auth{Username: "user", Password: "password"},
		Exec:         []string{"echo", "hello"}, ExecOutput: "hello\n",
		Shell:   containerdtest.Busybox,
		Connect: connector{},
		Prepare: func(c *cri.SandboxConfig) {
			c.CgroupParent = filepath.Join(daemon.CgroupRoot(), filepath.Base(c.Metadata.UID))
		},
		Restart: func(t *testing.T, away func()) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := daemon.Kill(ctx); err != nil {
				t.Fatal(err)
			}
			away()
			if err := daemon.Start(ctx); err != nil {
				t.Fatal(err)
			}
		},
	})
}

// TestContainerdWebsocket: streams of a real runtime over websockets.
func TestContainerdWebsocket(t *testing.T) {
	daemon := containerdtest.Start(t, containerdtest.Options{})
	client := dial(t, daemon.Socket())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pod := cri.SandboxConfig{
		Metadata: cri.SandboxMetadata{Name: "a", Namespace: "b", UID: "c"}, CgroupParent: daemon.CgroupRoot() + "/pod",
		Namespaces: cri.Namespaces{Network: cri.NamespaceNode},
	}
	sandbox, err := client.RunPodSandbox(ctx, pod)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.RemovePodSandbox(context.Background(), sandbox); err != nil {
			t.Error(err)
		}
	})
	container, err := client.CreateContainer(ctx, sandbox, cri.ContainerConfig{
		Metadata: cri.ContainerMetadata{Name: "main"}, Image: cri.ImageSpec{Image: containerdtest.Busybox},
		Process: cri.Process{Command: []string{"sleep", "1000"}}, Namespaces: pod.Namespaces,
	}, pod)
	if err == nil {
		err = client.StartContainer(ctx, container)
	}
	if err != nil {
		t.Fatal(err)
	}
	url, err := client.Exec(ctx, cri.ExecRequest{
		ContainerID: container, Command: []string{"sh", "-c", "echo out; echo err >&2; exit 4"}, Streams: cri.Streams{Stdout: true, Stderr: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr strings.Builder
	code, err := connector{websocket: true}.Stream(ctx, url, runtimetest.Streams{Stdout: &stdout, Stderr: &stderr})
	if err != nil || code != 4 || stdout.String() != "out\n" || stderr.String() != "err\n" {
		t.Errorf("code %d, stdout %q, stderr %q, %v", code, &stdout, &stderr, err)
	}
}

// TestContainerdErrors: the texts are those that users of Kubernetes know, and their kinds show.
func TestContainerdErrors(t *testing.T) {
	daemon := containerdtest.Start(t, containerdtest.Options{Containerd: containerd.Options{Mirrors: registry(t)}})
	client := dial(t, daemon.Socket())
	ctx := t.Context()
	config := cri.SandboxConfig{Metadata: cri.SandboxMetadata{Name: "a", Namespace: "b", UID: "c"}}
	call := func(_ any, err error) error { return err }
	for _, c := range []struct {
		err, want error
		text      string
	}{
		{
			call(client.PullImage(ctx, cri.ImageSpec{Image: "public.example/no/such:1"}, nil)), cri.ErrNotFound,
			`rpc error: code = NotFound desc = failed to pull and unpack image "public.example/no/such:1": `,
		},
		{
			call(client.PullImage(ctx, cri.ImageSpec{Image: "127.0.0.1:1/no/such:1"}, nil)), nil,
			`failed to pull and unpack image "127.0.0.1:1/no/such:1": `,
		},
		{
			call(client.ContainerStatus(ctx, "missing")), cri.ErrNotFound,
			`rpc error: code = NotFound desc = an error occurred when try to find container "missing": not found`,
		},
		{
			call(client.CreateContainer(ctx, "missing", cri.ContainerConfig{}, config)), cri.ErrNotFound,
			`rpc error: code = NotFound desc = failed to find sandbox id "missing": not found`,
		},
		{
			call(client.Exec(ctx, cri.ExecRequest{ContainerID: "missing", Streams: cri.Streams{Stdout: true}})), cri.ErrNotFound,
			`rpc error: code = NotFound desc = failed to find container "missing" in store: `,
		},
	} {
		if c.err == nil || !strings.HasPrefix(c.err.Error(), c.text) || c.want != nil && !errors.Is(c.err, c.want) {
			t.Errorf("error %v, want %v as %q", c.err, c.want, c.text)
		}
	}
}

// BenchmarkContainerd is what calls to a real runtime take: those of this client, and bare ones.
func BenchmarkContainerd(b *testing.B) {
	daemon := containerdtest.Start(b, containerdtest.Options{})
	client := dial(b, daemon.Socket())
	pod := cri.SandboxConfig{
		Metadata: cri.SandboxMetadata{Name: "a", Namespace: "b", UID: "c"}, CgroupParent: daemon.CgroupRoot() + "/pod",
		Namespaces: cri.Namespaces{Network: cri.NamespaceNode},
	}
	sandbox, err := client.RunPodSandbox(b.Context(), pod)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := client.RemovePodSandbox(context.Background(), sandbox); err != nil {
			b.Error(err)
		}
	})
	container, err := client.CreateContainer(b.Context(), sandbox, cri.ContainerConfig{
		Metadata: cri.ContainerMetadata{Name: "main"}, Image: cri.ImageSpec{Image: containerdtest.Busybox},
		Process: cri.Process{Command: []string{"sleep", "1000"}}, Namespaces: pod.Namespaces,
	}, pod)
	if err == nil {
		err = client.StartContainer(b.Context(), container)
	}
	if err != nil {
		b.Fatal(err)
	}
	conn, err := grpc.NewClient("unix:"+daemon.Socket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	bare := v1.NewRuntimeServiceClient(conn)
	for name, call := range map[string]func() error{
		"ContainerStatus/client": func() error { _, err := client.ContainerStatus(b.Context(), container); return err },
		"ContainerStatus/bare": func() error {
			_, err := bare.ContainerStatus(b.Context(), &v1.ContainerStatusRequest{ContainerId: container})
			return err
		},
		"SandboxStatus/client":  func() error { _, err := client.SandboxStatus(b.Context(), sandbox); return err },
		"ListContainers/client": func() error { _, err := client.ListContainers(b.Context(), cri.Filter{}); return err },
		"ContainerStats/client": func() error { _, err := client.ListContainerStats(b.Context(), cri.Filter{}); return err },
		"ExecSync/client": func() error {
			_, err := client.ExecSync(b.Context(), container, []string{"true"}, 0)
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := call(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
