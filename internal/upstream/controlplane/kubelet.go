package controlplane

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/kubelet/cgroup"
	"github.com/keelson-dev/keelson/node/containerd"
	"github.com/keelson-dev/keelson/pki"
)

// Kubelet returns the arguments of a kubelet for the node of that name, on a runtime of its own, with its files in
// root. It writes the files that they name, and creates the cgroups.
func (a *Access) Kubelet(ctx context.Context, node string, runtime *containerd.Daemon, root string) ([]string, error) {
	serving := pki.Subject{Name: "system:node:" + node, Groups: []string{"system:nodes"}, Hosts: []string{node, "127.0.0.1"}}
	if _, err := a.Authority.Keep("kubelet", serving, time.Hour); err != nil {
		return nil, err
	}
	config, err := a.Kubeconfig(ctx, "kubelet", "system:node:"+node, "system:nodes")
	if err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	if err := makeCgroups(ctx, runtime.CgroupRoot()); err != nil {
		return nil, err
	}
	settings := a.File("kubelet.yaml")
	if err := os.WriteFile(settings, []byte(kubeletConfig(a, runtime.Socket(), runtime.CgroupRoot(), port)), 0o600); err != nil {
		return nil, err
	}
	return []string{"--config=" + settings, "--kubeconfig=" + config, "--hostname-override=" + node, "--root-dir=" + root}, nil
}

// makeCgroups creates the root of a kubelet's cgroups, which upstream's kubelet requires, with version 1 in every
// hierarchy, including those that limit nothing, such as systemd's.
func makeCgroups(ctx context.Context, root string) error {
	tree, err := cgroup.New(root, cgroup.Options{})
	if err != nil {
		return err
	}
	// Creating the cgroup of a fictitious pod creates the root with all its settings.
	if _, err := tree.Ensure(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "none"}}); err != nil {
		return err
	}
	if tree.Machine().Unified {
		return nil
	}
	mounts, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	if err != nil {
		return err
	}
	for _, procs := range mounts {
		if err := os.MkdirAll(filepath.Join(filepath.Dir(procs), root), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// kubeletConfig is upstream's default except for what this machine needs: its cgroups, its swap, and its disk, which is
// shared.
func kubeletConfig(a *Access, socket, cgroups string, port int) string {
	return `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: ` + strconv.Itoa(port) + `
healthzPort: 0
oomScoreAdj: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: ` + strconv.Quote(a.File("ca.crt")) + `}}
authorization: {mode: Webhook}
tlsCertFile: ` + a.File("kubelet.crt") + `
tlsPrivateKeyFile: ` + a.File("kubelet.key") + `
containerRuntimeEndpoint: unix://` + socket + `
cgroupDriver: cgroupfs
cgroupRoot: ` + cgroups + `
failCgroupV1: false
failSwapOn: false
podLogsDir: ` + a.File("pods") + `
evictionHard: {memory.available: 100Mi, nodefs.available: 0%, imagefs.available: 0%, nodefs.inodesFree: 0%, imagefs.inodesFree: 0%}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
`
}
