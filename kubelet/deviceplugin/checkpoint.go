package deviceplugin

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	devices "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/keelson-dev/keelson/internal/atomicfile"
	"github.com/keelson-dev/keelson/kubelet/deviceplugin/internal/checkpoint"
)

// noNode is where upstream's file has the devices of no NUMA node.
const noNode = -1

const checkpointName = "kubelet_internal_checkpoint"

func (p *Plugins) checkpointPath() string { return filepath.Join(p.sockets(), checkpointName) }

// load reads which devices pods have. No plugin has registered yet.
func (p *Plugins) load() error {
	content, err := os.ReadFile(p.checkpointPath())
	if err != nil {
		return err
	}
	entries, registered, err := checkpoint.Decode(content)
	if err != nil {
		return fmt.Errorf("%s: %w", p.checkpointPath(), err)
	}
	for _, e := range entries {
		answer := &devices.ContainerAllocateResponse{}
		if err := proto.Unmarshal(e.AllocResp, answer); err != nil {
			p.log.Warn("Can't unmarshal allocResp", "podUID", e.PodUID, "containerName", e.ContainerName, "resourceName", e.ResourceName, "error", err)
			continue
		}
		g := &grant{nodes: e.DeviceIDs, answer: answer}
		for _, ids := range e.DeviceIDs {
			g.ids = append(g.ids, ids...)
		}
		slices.Sort(g.ids)
		g.ids = slices.Compact(g.ids)
		p.hold(types.UID(e.PodUID)).set(e.ContainerName, e.ResourceName, g)
	}
	for name := range registered {
		p.resources[name] = &source{listed: true, stopped: time.Now(), devices: map[string]device{}}
	}
	return nil
}

// encode returns the content of the checkpoint.
func (p *Plugins) encode() ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var entries []checkpoint.PodDevicesEntry
	for _, uid := range slices.Sorted(maps.Keys(p.pods)) {
		containers := p.pods[uid].containers
		for _, container := range slices.Sorted(maps.Keys(containers)) {
			for _, name := range slices.Sorted(maps.Keys(containers[container])) {
				g := containers[container][name]
				if g.answer == nil {
					continue
				}
				answer, err := proto.MarshalOptions{Deterministic: true}.Marshal(g.answer)
				if err != nil {
					return nil, err
				}
				entries = append(entries, checkpoint.PodDevicesEntry{
					PodUID: string(uid), ContainerName: container, ResourceName: name, DeviceIDs: g.nodes, AllocResp: answer,
				})
			}
		}
	}
	registered := map[string][]string{}
	for name, s := range p.resources {
		if s.listed {
			registered[name] = slices.AppendSeq([]string{}, maps.Keys(s.healthy()))
			slices.Sort(registered[name])
		}
	}
	return checkpoint.Encode(entries, registered)
}

// save writes the checkpoint if it has changed.
func (p *Plugins) save() error {
	p.writing.Lock()
	defer p.writing.Unlock()
	content, err := p.encode()
	if err == nil && string(content) == p.written {
		return nil
	}
	if err == nil {
		err = os.MkdirAll(p.sockets(), 0o750)
	}
	if err == nil {
		err = atomicfile.Write(p.checkpointPath(), content, 0o600)
	}
	if err != nil {
		return fmt.Errorf("failed to write checkpoint file %q: %w", checkpointName, err)
	}
	p.written = string(content)
	return nil
}

// keep is save where nobody waits for it.
func (p *Plugins) keep(when string) {
	if err := p.save(); err != nil {
		p.log.Warn("Writing checkpoint encountered", "when", when, "error", err)
	}
}
