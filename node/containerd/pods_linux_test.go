package containerd_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/node/containerd"
	"github.com/keelson-dev/keelson/node/containerd/containerdtest"
)

// client speaks CRI with a daemon, as a kubelet does.
type client struct {
	d *containerd.Daemon
	runtime.RuntimeServiceClient
	runtime.ImageServiceClient
}

func connect(t testing.TB, d *containerd.Daemon) client {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+d.Socket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return client{d, runtime.NewRuntimeServiceClient(conn), runtime.NewImageServiceClient(conn)}
}

var pods atomic.Int64

// pod is a sandbox with one container that sleeps.
type pod struct {
	config             *runtime.PodSandboxConfig
	sandbox, container string
}

// config is that of a sandbox with a name of its own.
func (c client) config(t testing.TB) *runtime.PodSandboxConfig {
	n := pods.Add(1)
	uid := fmt.Sprintf("%08d-0000-0000-0000-%012d", n, time.Now().UnixNano()%1e12)
	return &runtime.PodSandboxConfig{
		Metadata:     &runtime.PodSandboxMetadata{Name: fmt.Sprintf("pod-%d", n), Uid: uid, Namespace: "default"},
		Hostname:     fmt.Sprintf("pod-%d", n),
		LogDirectory: t.TempDir(),
		DnsConfig:    &runtime.DNSConfig{},
		Linux: &runtime.LinuxPodSandboxConfig{
			CgroupParent: c.d.CgroupRoot() + "/pod" + uid,
			SecurityContext: &runtime.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtime.NamespaceOption{Pid: runtime.NamespaceMode_CONTAINER},
				Seccomp:          &runtime.SecurityProfile{ProfileType: runtime.SecurityProfile_Localhost, LocalhostRef: c.d.SandboxSeccomp()},
			},
		},
	}
}

func (c client) sandbox(ctx context.Context, t testing.TB, config *runtime.PodSandboxConfig) *pod {
	t.Helper()
	answer, err := c.RunPodSandbox(ctx, &runtime.RunPodSandboxRequest{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	return &pod{config: config, sandbox: answer.PodSandboxId}
}

func (c client) start(ctx context.Context, t testing.TB, p *pod, security *runtime.LinuxContainerSecurityContext, mounts ...*runtime.Mount) {
	t.Helper()
	p.container = c.create(ctx, t, p, security, mounts...)
	if _, err := c.StartContainer(ctx, &runtime.StartContainerRequest{ContainerId: p.container}); err != nil {
		t.Fatal(err)
	}
}

// create makes the container that start starts.
func (c client) create(ctx context.Context, t testing.TB, p *pod, security *runtime.LinuxContainerSecurityContext, mounts ...*runtime.Mount) string {
	t.Helper()
	if security.NamespaceOptions == nil {
		security.NamespaceOptions = p.config.Linux.SecurityContext.NamespaceOptions
	}
	created, err := c.CreateContainer(ctx, &runtime.CreateContainerRequest{
		PodSandboxId:  p.sandbox,
		SandboxConfig: p.config,
		Config: &runtime.ContainerConfig{
			Metadata: &runtime.ContainerMetadata{Name: "main"},
			Image:    &runtime.ImageSpec{Image: containerdtest.Busybox},
			Command:  []string{"sleep", "100000"},
			LogPath:  "main.log",
			Mounts:   mounts,
			Linux:    &runtime.LinuxContainerConfig{SecurityContext: security},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return created.ContainerId
}

// run starts a pod and its container.
func (c client) run(ctx context.Context, t testing.TB) *pod {
	t.Helper()
	p := c.sandbox(ctx, t, c.config(t))
	c.start(ctx, t, p, &runtime.LinuxContainerSecurityContext{})
	return p
}

func (c client) stop(ctx context.Context, t testing.TB, p *pod) {
	t.Helper()
	if _, err := c.StopContainer(ctx, &runtime.StopContainerRequest{ContainerId: p.container}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.StopPodSandbox(ctx, &runtime.StopPodSandboxRequest{PodSandboxId: p.sandbox}); err != nil {
		t.Fatal(err)
	}
}

func (c client) remove(ctx context.Context, t testing.TB, p *pod) {
	t.Helper()
	if _, err := c.RemoveContainer(ctx, &runtime.RemoveContainerRequest{ContainerId: p.container}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.RemovePodSandbox(ctx, &runtime.RemovePodSandboxRequest{PodSandboxId: p.sandbox}); err != nil {
		t.Fatal(err)
	}
}

func (c client) exec(ctx context.Context, t testing.TB, p *pod, cmd ...string) string {
	t.Helper()
	answer, err := c.ExecSync(ctx, &runtime.ExecSyncRequest{ContainerId: p.container, Cmd: cmd})
	if err != nil {
		t.Fatal(err)
	}
	if answer.ExitCode != 0 {
		t.Fatalf("%v: exit code %d: %s", cmd, answer.ExitCode, answer.Stderr)
	}
	return string(answer.Stdout)
}
