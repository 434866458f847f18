package containerd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containernetworking/cni/libcni"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// attachment is libcni's cached record of an attachment that was not removed.
type attachment struct {
	ContainerID    string         `json:"containerId"`
	Config         []byte         `json:"config"`
	IfName         string         `json:"ifName"`
	Network        string         `json:"networkName"`
	NetNS          string         `json:"netns"`
	CniArgs        [][2]string    `json:"cniArgs"`
	CapabilityArgs map[string]any `json:"capabilityArgs"`
}

// attachments returns those whose network namespace is pinned in our directory.
func (d *Daemon) attachments() ([]attachment, error) {
	paths, err := filepath.Glob(filepath.Join(libcni.CacheDir, "results", "*"))
	if err != nil {
		return nil, fmt.Errorf("list network attachments: %w", err)
	}
	var ours []attachment
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("read a network attachment: %w", err)
		}
		var a attachment
		if json.Unmarshal(b, &a) == nil && strings.HasPrefix(a.NetNS, d.paths.run+"/") {
			ours = append(ours, a)
		}
	}
	return ours, nil
}

// plugin is a process that attaches or detaches a sandbox.
type plugin struct {
	process
	sandbox string
}

// plugins are the CNI plugins that currently work on our network namespaces. They survive a killed daemon.
func (d *Daemon) plugins() ([]plugin, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var found []plugin
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(b, []byte("CNI_NETNS="+d.paths.run+"/")) {
			continue // it has ended, or is another process
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue // not of a process
		}
		p, err := identify(pid)
		if err != nil || !p.alive() {
			continue
		}
		for variable := range bytes.SplitSeq(b, []byte{0}) {
			if id, ok := bytes.CutPrefix(variable, []byte("CNI_CONTAINERID=")); ok {
				found = append(found, plugin{p, string(id)})
			}
		}
	}
	return found, nil
}

// family is the daemon and the plugins that it runs.
func (d *Daemon) family() ([]process, error) {
	all, err := d.daemons()
	if err != nil {
		return nil, err
	}
	plugins, err := d.plugins()
	for _, p := range plugins {
		all = append(all, p.process)
	}
	return all, err
}

// sandboxes lists those that a dead daemon remembers: it may have died before it recorded a plugin's result. The daemon
// is started for this; if it does not start, nothing more is known.
func (d *Daemon) sandboxes(ctx context.Context) []string {
	r, err := d.running()
	if _, never := os.Stat(filepath.Join(d.paths.root(), "io.containerd.metadata.v1.bolt")); err != nil || never != nil || r.Process.alive() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := d.start(ctx); err != nil {
		d.log.Warn("the state of a containerd that has ended cannot be read", "err", err)
		return nil
	}
	conn, err := d.dial()
	if err != nil {
		return nil
	}
	defer func() { _ = conn.Close() }() // nothing is lost with it
	answer, err := runtime.NewRuntimeServiceClient(conn).ListPodSandbox(ctx, &runtime.ListPodSandboxRequest{})
	if err != nil {
		d.log.Warn("the state of a containerd that has ended cannot be read", "err", err)
		return nil
	}
	var ids []string
	for _, s := range answer.Items {
		ids = append(ids, s.Id)
	}
	return ids
}

// unfinished makes attachments for the sandboxes without a record. Detaching what was never attached does nothing.
func (d *Daemon) unfinished(sandboxes []string, known []attachment) ([]attachment, error) {
	files, err := libcni.ConfFiles(settings{paths: d.paths, options: d.options}.cniConfDir(), []string{".conflist"})
	if err != nil || len(files) == 0 {
		return nil, err
	}
	slices.Sort(files)
	config, err := os.ReadFile(files[0]) // the one that the daemon uses
	if err != nil {
		return nil, fmt.Errorf("read the network's configuration: %w", err)
	}
	slices.Sort(sandboxes)
	var more []attachment
	for _, id := range slices.Compact(sandboxes) {
		if !slices.ContainsFunc(known, func(a attachment) bool { return a.ContainerID == id }) {
			more = append(more, attachment{ContainerID: id, Config: config, IfName: "eth0", Network: filepath.Base(files[0])})
		}
	}
	return more, nil
}

// detachNetworks frees addresses and rules through the plugins that allocated them.
func (d *Daemon) detachNetworks(ctx context.Context, sandboxes []string) error {
	all, err := d.attachments()
	if err != nil {
		return err
	}
	more, err := d.unfinished(sandboxes, all)
	if err != nil {
		return err
	}
	return each(append(all, more...), func(a attachment) error { return d.detach(ctx, a) })
}

func (d *Daemon) detach(ctx context.Context, a attachment) error {
	list, err := libcni.NetworkConfFromBytes(a.Config)
	if err != nil {
		return fmt.Errorf("detach %s from network %s: %w", a.ContainerID, a.Network, err)
	}
	bins := settings{tools: d.tools, options: d.options}.cniBinDirs()
	rt := &libcni.RuntimeConf{ContainerID: a.ContainerID, NetNS: a.NetNS, IfName: a.IfName, Args: a.CniArgs, CapabilityArgs: a.CapabilityArgs}
	one, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := libcni.NewCNIConfig(bins, nil).DelNetworkList(one, list, rt); err != nil {
		return fmt.Errorf("detach %s from network %s: %w", a.ContainerID, a.Network, err)
	}
	return nil
}
