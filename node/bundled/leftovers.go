package bundled

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Leftovers lists what pods have left behind on a node that knows no pods any more: processes, mounts, network
// namespaces and devices, cgroups, addresses and directories. It does not list the node itself, running or not.
func (n *Node) Leftovers(ctx context.Context) ([]string, error) {
	list, err := n.daemon.Leftovers(ctx)
	if err != nil {
		return nil, err
	}
	own := "mount " + filepath.Dir(n.daemon.Socket())
	list = slices.DeleteFunc(list, func(name string) bool {
		return name == own || strings.HasPrefix(name, "containerd ") || strings.HasPrefix(name, "cgroup ")
	})
	leases, err := n.bridge.Leases()
	if err != nil {
		return nil, err
	}
	for _, l := range leases {
		list = append(list, fmt.Sprintf("address %s of sandbox %s", l.Address, l.ContainerID))
	}
	for _, find := range []func() ([]string, error){n.cgroups, n.ports, n.directories} {
		more, err := find()
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	return list, nil
}

// cgroups are those of pods and containers, in each hierarchy.
func (n *Node) cgroups() ([]string, error) {
	tops, err := filepath.Glob("/sys/fs/cgroup/*" + n.cgroup + "/kubepods")
	if err != nil {
		return nil, err
	}
	var list []string
	for _, top := range append(tops, "/sys/fs/cgroup"+n.cgroup+"/kubepods") {
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			switch name := filepath.Base(path); {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			case d.IsDir() && path != top && name != "besteffort" && name != "burstable":
				list = append(list, "cgroup "+path)
				return fs.SkipDir
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// ports are the devices attached to the node's bridge.
func (n *Node) ports() ([]string, error) {
	return named("device", filepath.Join("/sys/class/net", n.device, "brif"))
}

// directories are those of pods.
func (n *Node) directories() (list []string, err error) {
	for _, dir := range []string{filepath.Join(n.dir, "kubelet", "pods"), filepath.Join(n.dir, "logs")} {
		more, err := named("directory", dir)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	return list, nil
}

// named are the entries of a directory, which may not exist.
func named(what, dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []string
	for _, e := range entries {
		list = append(list, what+" "+filepath.Join(dir, e.Name()))
	}
	return list, nil
}
