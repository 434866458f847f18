// Package state has the files in which upstream's kubelet keeps what its CPU manager and its memory manager have handed out. The
// names of its types are upstream's: the checksums for older kubelets are those of a text in which they appear.
//
// A file that does not exist gives fs.ErrNotExist; all other errors are for people.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/dump"

	"github.com/keelson-dev/keelson/internal/atomicfile"
)

// Checksum is a hash of a value as text.
type Checksum uint64

func checksumOf(value any) Checksum {
	text := dump.ForHash(value)
	if rest, ok := strings.CutSuffix(text, "(state.Checksum)0}"); ok {
		text = rest + "(checksum.Checksum)0}" // where upstream has the type
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(text))
	return Checksum(hash.Sum32())
}

// CPUs is what the CPU manager has handed out.
type CPUs struct {
	PolicyName    string                       `json:"policyName"`
	DefaultCPUSet string                       `json:"defaultCpuSet"`
	Entries       map[string]map[string]string `json:"entries,omitempty"`
}

// CPUManagerCheckpoint is the same as kubelets before 1.37 write it.
type CPUManagerCheckpoint struct {
	PolicyName    string                       `json:"policyName"`
	DefaultCPUSet string                       `json:"defaultCpuSet"`
	Entries       map[string]map[string]string `json:"entries,omitempty"`
	Checksum      Checksum                     `json:"checksum"`
}

// payload is what kubelets since 1.37 add.
type payload struct {
	Data         string   `json:"data"`
	DataChecksum Checksum `json:"dataChecksum"`
}

func payloadOf(value any) (payload, error) {
	data, err := json.Marshal(value)
	return payload{string(data), checksumOf(string(data))}, err
}

// into decodes the payload. It reports whether there is one.
func (p payload) into(value any, version string) (found bool, err error) {
	if p.Data == "" && p.DataChecksum == 0 {
		return false, nil
	}
	if err := json.Unmarshal([]byte(p.Data), value); err != nil {
		return true, fmt.Errorf("could not load %s checkpoint: %w", version, err)
	}
	if err := verify(p.DataChecksum, checksumOf(p.Data)); err != nil {
		return true, fmt.Errorf("could not load %s checkpoint: %w", version, err)
	}
	return true, nil
}

func verify(want, got Checksum) error {
	if want != got {
		return errors.New("checkpoint is corrupted")
	}
	return nil
}

// WriteCPUs writes a file.
func WriteCPUs(path string, c CPUs) error {
	if c.Entries == nil {
		c.Entries = map[string]map[string]string{}
	}
	old := CPUManagerCheckpoint{PolicyName: c.PolicyName, DefaultCPUSet: c.DefaultCPUSet, Entries: c.Entries}
	old.Checksum = checksumOf(&old)
	p, err := payloadOf(c)
	if err != nil {
		return err
	}
	return write(path, struct {
		CPUManagerCheckpoint
		payload
	}{old, p})
}

// ReadCPUs reads a file.
func ReadCPUs(path string) (CPUs, error) {
	var c CPUs
	data, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	var file struct {
		CPUManagerCheckpoint
		payload
	}
	file.Entries = map[string]map[string]string{}
	if err := json.Unmarshal(data, &file); err != nil {
		return c, err
	}
	if found, err := file.into(&c, "v4"); found {
		return c, err
	}
	old := file.CPUManagerCheckpoint
	c = CPUs{old.PolicyName, old.DefaultCPUSet, old.Entries}
	sum := old.Checksum
	old.Checksum = 0
	if sum == 0 { // of the oldest files
		return c, nil
	}
	return c, verify(sum, checksumOf(&old))
}

func write(path string, file any) error {
	data, err := json.Marshal(file)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, data, 0o600)
}

// Memory is what the memory manager has handed out.
type Memory struct {
	PolicyName   string                     `json:"policyName"`
	MachineState NUMANodeMap                `json:"machineState"`
	Entries      ContainerMemoryAssignments `json:"entries,omitempty"`
}

// MemoryManagerCheckpoint is the same as kubelets before 1.37 write it.
type MemoryManagerCheckpoint struct {
	PolicyName   string                     `json:"policyName"`
	MachineState NUMANodeMap                `json:"machineState"`
	Entries      ContainerMemoryAssignments `json:"entries,omitempty"`
	Checksum     Checksum                   `json:"checksum"`
}

// NUMANodeMap is the memory of each NUMA node.
type NUMANodeMap map[int]*NUMANodeState

// NUMANodeState is the memory of one node.
type NUMANodeState struct {
	NumberOfAssignments int                                  `json:"numberOfAssignments"`
	MemoryMap           map[corev1.ResourceName]*MemoryTable `json:"memoryMap"`
	Cells               []int                                `json:"cells"`
}

// MemoryTable is one kind of memory of a node.
type MemoryTable struct {
	TotalMemSize   uint64 `json:"total"`
	SystemReserved uint64 `json:"systemReserved"`
	Allocatable    uint64 `json:"allocatable"`
	Reserved       uint64 `json:"reserved"`
	Free           uint64 `json:"free"`
}

// Block is memory of a container.
type Block struct {
	NUMAAffinity []int               `json:"numaAffinity"`
	Type         corev1.ResourceName `json:"type"`
	Size         uint64              `json:"size"`
}

// ContainerMemoryAssignments is the memory of containers, by pod and name.
type ContainerMemoryAssignments map[string]map[string][]Block

// WriteMemory writes a file.
func WriteMemory(path string, m Memory) error {
	if m.Entries == nil {
		m.Entries = ContainerMemoryAssignments{}
	}
	if m.MachineState == nil {
		m.MachineState = NUMANodeMap{}
	}
	old := MemoryManagerCheckpoint{PolicyName: m.PolicyName, MachineState: m.MachineState, Entries: m.Entries}
	old.Checksum = checksumOf(&old)
	p, err := payloadOf(m)
	if err != nil {
		return err
	}
	return write(path, struct {
		MemoryManagerCheckpoint
		payload
	}{old, p})
}

// ReadMemory reads a file.
func ReadMemory(path string) (Memory, error) {
	var m Memory
	data, err := os.ReadFile(path)
	if err != nil {
		return m, err
	}
	var file struct {
		MemoryManagerCheckpoint
		payload
	}
	file.Entries, file.MachineState = ContainerMemoryAssignments{}, NUMANodeMap{}
	if err := json.Unmarshal(data, &file); err != nil {
		return m, err
	}
	if found, err := file.into(&m, "v3"); found {
		return m, err
	}
	old := file.MemoryManagerCheckpoint
	m = Memory{old.PolicyName, old.MachineState, old.Entries}
	sum := old.Checksum
	old.Checksum = 0
	if sum == 0 { // of the oldest files
		return m, nil
	}
	return m, verify(sum, checksumOf(&old))
}
