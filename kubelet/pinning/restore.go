package pinning

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"github.com/keelson-dev/keelson/kubelet/pinning/internal/state"
	"github.com/keelson-dev/keelson/kubelet/pinning/memory"
)

// restore reads the files, and checks that they suit the policies.
func (a *Allocator) restore() error {
	const advice = "could not restore state from checkpoint: %w, please drain this node and delete the %s manager checkpoint file %q before restarting Kubelet"
	if err := a.restoreCPUs(); err != nil {
		return fmt.Errorf(advice, err, "CPU", filepath.Join(a.dir, cpuFile))
	}
	if err := a.restoreMemory(); err != nil {
		return fmt.Errorf(advice, err, "memory", filepath.Join(a.dir, memoryFile))
	}
	var err error
	if p := a.policies.cpus; p != nil {
		if a.have.cpus, err = p.Restore(a.have.cpus); err != nil {
			return fmt.Errorf("invalid state, please drain node and remove policy state file: %w", err)
		}
	}
	if p := a.policies.memory; p != nil {
		if a.have.memory, err = p.Restore(a.have.memory); err != nil {
			return fmt.Errorf("invalid state, please drain node and remove policy state file: %w", err)
		}
	}
	return nil
}

// restoreCPUs reads the file about CPUs.
func (a *Allocator) restoreCPUs() error {
	found, err := state.ReadCPUs(filepath.Join(a.dir, cpuFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if policy := cmp.Or(a.settings.CPUs.Policy, CPUsShared); found.PolicyName != policy {
		return fmt.Errorf("configured policy %q differs from state checkpoint policy %q", policy, found.PolicyName)
	}
	s := &a.have.cpus
	if s.Shared, err = cpuset.Parse(found.DefaultCPUSet); err != nil {
		return fmt.Errorf("could not parse default CPU set %q: %w", found.DefaultCPUSet, err)
	}
	s.Own = map[types.UID]map[string]cpuset.CPUSet{}
	for uid, pod := range found.Entries {
		own := map[string]cpuset.CPUSet{}
		for name, text := range pod {
			if own[name], err = cpuset.Parse(text); err != nil {
				return fmt.Errorf("could not parse cpuset %q for container %q in pod %q: %w", text, name, uid, err)
			}
		}
		s.Own[types.UID(uid)] = own
	}
	return nil
}

// restoreMemory reads the file about memory.
func (a *Allocator) restoreMemory() error {
	found, err := state.ReadMemory(filepath.Join(a.dir, memoryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if policy := cmp.Or(a.settings.Memory.Policy, MemoryShared); found.PolicyName != policy {
		return fmt.Errorf("[memorymanager] configured policy %q differs from state checkpoint policy %q", policy, found.PolicyName)
	}
	s := memory.State{Nodes: map[int]memory.Node{}, Own: map[types.UID]map[string][]memory.Block{}}
	for id, n := range found.MachineState {
		if n == nil {
			return fmt.Errorf("NUMA node %d has no state", id)
		}
		tables := map[corev1.ResourceName]memory.Table{}
		for name, t := range n.MemoryMap {
			if t == nil {
				return fmt.Errorf("NUMA node %d has no state of %s", id, name)
			}
			tables[name] = memory.Table{Total: t.TotalMemSize, SystemReserved: t.SystemReserved, Allocatable: t.Allocatable, Reserved: t.Reserved, Free: t.Free}
		}
		s.Nodes[id] = memory.Node{Assignments: n.NumberOfAssignments, Memory: tables, Group: n.Cells}
	}
	for uid, pod := range found.Entries {
		own := map[string][]memory.Block{}
		for name, blocks := range pod {
			for _, b := range blocks {
				own[name] = append(own[name], memory.Block{Nodes: b.NUMAAffinity, Type: b.Type, Size: b.Size})
			}
		}
		s.Own[types.UID(uid)] = own
	}
	a.have.memory = s
	return nil
}

// save writes the files. The lock is held.
func (a *Allocator) save() {
	if err := errors.Join(a.saveCPUs(), a.saveMemory()); err != nil {
		a.log.Error("Failed to save checkpoint", "error", err)
	}
}

func (a *Allocator) saveCPUs() error {
	have := a.have.cpus
	out := state.CPUs{
		PolicyName: cmp.Or(a.settings.CPUs.Policy, CPUsShared), DefaultCPUSet: have.Shared.String(), Entries: map[string]map[string]string{},
	}
	for uid, pod := range have.Own {
		own := map[string]string{}
		for name, set := range pod {
			own[name] = set.String()
		}
		out.Entries[string(uid)] = own
	}
	return state.WriteCPUs(filepath.Join(a.dir, cpuFile), out)
}

func (a *Allocator) saveMemory() error {
	have := a.have.memory
	out := state.Memory{
		PolicyName: cmp.Or(a.settings.Memory.Policy, MemoryShared), MachineState: state.NUMANodeMap{}, Entries: state.ContainerMemoryAssignments{},
	}
	for id, n := range have.Nodes {
		tables := map[corev1.ResourceName]*state.MemoryTable{}
		for name, t := range n.Memory {
			tables[name] = &state.MemoryTable{TotalMemSize: t.Total, SystemReserved: t.SystemReserved, Allocatable: t.Allocatable, Reserved: t.Reserved, Free: t.Free}
		}
		out.MachineState[id] = &state.NUMANodeState{NumberOfAssignments: n.Assignments, MemoryMap: tables, Cells: n.Group}
	}
	for uid, pod := range have.Own {
		own := map[string][]state.Block{}
		for name, blocks := range pod {
			for _, b := range blocks {
				own[name] = append(own[name], state.Block{NUMAAffinity: b.Nodes, Type: b.Type, Size: b.Size})
			}
		}
		out.Entries[string(uid)] = own
	}
	return state.WriteMemory(filepath.Join(a.dir, memoryFile), out)
}
