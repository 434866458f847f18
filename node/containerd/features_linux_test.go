package containerd_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/node/containerd/containerdtest"
)

// What a kubelet may ask of the runtime that depends on how the tools were built and configured.

func TestSandboxSeccomp(t *testing.T) {
	ctx := t.Context()
	d := containerdtest.Start(t, containerdtest.Options{})
	c := connect(t, d)
	config := c.config(t)
	config.Linux.SecurityContext.Seccomp = &runtime.SecurityProfile{ProfileType: runtime.SecurityProfile_Localhost, LocalhostRef: d.SandboxSeccomp()}
	// A container beside it in the sandbox's process namespace sees the process that holds it as the first.
	config.Linux.SecurityContext.NamespaceOptions.Pid = runtime.NamespaceMode_POD
	p := c.sandbox(ctx, t, config)
	c.start(ctx, t, p, &runtime.LinuxContainerSecurityContext{NamespaceOptions: &runtime.NamespaceOption{Pid: runtime.NamespaceMode_POD}})
	status := c.exec(ctx, t, p, "cat", "/proc/1/status")
	if !strings.Contains(status, "Name:\tpause") || !strings.Contains(status, "Seccomp:\t2") {
		t.Errorf("the first process is not a sandbox under seccomp:\n%s", status)
	}
	c.stop(ctx, t, p)
	c.remove(ctx, t, p)
}

func TestUserNamespace(t *testing.T) {
	ctx := t.Context()
	c := connect(t, containerdtest.Start(t, containerdtest.Options{}))
	mapping := []*runtime.IDMapping{{HostId: 1 << 20, ContainerId: 0, Length: 1 << 16}}
	namespaces := &runtime.NamespaceOption{
		Pid:           runtime.NamespaceMode_CONTAINER,
		UsernsOptions: &runtime.UserNamespace{Mode: runtime.NamespaceMode_POD, Uids: mapping, Gids: mapping},
	}
	volume := t.TempDir() // belongs to root of the host, and by an idmapped mount to root of the container
	config := c.config(t)
	config.Linux.SecurityContext.NamespaceOptions = namespaces
	p := c.sandbox(ctx, t, config)
	c.start(ctx, t, p, &runtime.LinuxContainerSecurityContext{NamespaceOptions: namespaces},
		&runtime.Mount{HostPath: volume, ContainerPath: "/volume", UidMappings: mapping, GidMappings: mapping})
	if got := strings.Fields(c.exec(ctx, t, p, "cat", "/proc/self/uid_map")); fmt.Sprint(got) != "[0 1048576 65536]" {
		t.Errorf("users are mapped %v", got)
	}
	c.exec(ctx, t, p, "touch", "/volume/file", "/root/file")
	if info, err := os.Stat(volume + "/file"); err != nil || owner(info) != 0 {
		t.Errorf("the file in the volume: %v, %v", info, err)
	}
	c.stop(ctx, t, p)
	c.remove(ctx, t, p)
}

func TestSeccompOfContainers(t *testing.T) {
	ctx := t.Context()
	c := connect(t, containerdtest.Start(t, containerdtest.Options{}))
	for kind, want := range map[runtime.SecurityProfile_ProfileType]string{runtime.SecurityProfile_Unconfined: "0", runtime.SecurityProfile_RuntimeDefault: "2"} {
		p := c.sandbox(ctx, t, c.config(t))
		c.start(ctx, t, p, &runtime.LinuxContainerSecurityContext{Seccomp: &runtime.SecurityProfile{ProfileType: kind}})
		if got := c.exec(ctx, t, p, "sh", "-c", "grep ^Seccomp: /proc/1/status"); strings.Fields(got)[1] != want {
			t.Errorf("%s: %s", kind, got)
		}
	}
}

func TestEventsAreToldAtOnce(t *testing.T) {
	ctx := t.Context()
	c := connect(t, containerdtest.Start(t, containerdtest.Options{}))
	events, err := c.GetContainerEvents(ctx, &runtime.GetEventsRequest{})
	must(t, err)
	p := c.run(ctx, t)
	seen := map[string]bool{}
	for !seen[p.container+runtime.ContainerEventType_CONTAINER_STARTED_EVENT.String()] {
		e, err := events.Recv()
		must(t, err)
		seen[e.ContainerId+e.ContainerEventType.String()] = true
	}
}

func owner(info os.FileInfo) uint32 {
	return info.Sys().(*syscall.Stat_t).Uid
}
