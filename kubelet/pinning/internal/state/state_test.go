package state_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/kubelet/pinning/internal/state"
)

// upstream is a file that upstream's kubelet 1.37.1 has written.
const upstream = `{"policyName":"static","defaultCpuSet":"0-1","checksum":1636926438,"data":"{\"policyName\":\"static\",\"defaultCpuSet\":\"0-1\"}","dataChecksum":989860433}`

func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestUpstream: a file is upstream's, byte by byte, and older ones are read.
func TestUpstream(t *testing.T) {
	want := state.CPUs{PolicyName: "static", DefaultCPUSet: "0-1"}
	path := filepath.Join(t.TempDir(), "file")
	if err := state.WriteCPUs(path, want); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != upstream {
		t.Errorf("%s, %v", data, err)
	}
	for name, text := range map[string]string{
		"1.37":            upstream,
		"1.36":            `{"policyName":"static","defaultCpuSet":"0-1","checksum":1636926438}`,
		"without the sum": `{"policyName":"static","defaultCpuSet":"0-1"}`,
	} {
		if got, err := state.ReadCPUs(write(t, text)); err != nil || got.PolicyName != want.PolicyName || got.DefaultCPUSet != want.DefaultCPUSet || len(got.Entries) != 0 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestEmptyMemory: a file of an older kubelet that has given nothing away, whose checksum is of empty maps.
func TestEmptyMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := state.WriteMemory(path, state.Memory{PolicyName: "None"}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for _, later := range []string{"data", "dataChecksum", "entries", "machineState"} {
		delete(file, later)
	}
	if data, err = json.Marshal(file); err != nil {
		t.Fatal(err)
	}
	got, err := state.ReadMemory(write(t, string(data)))
	if err != nil || got.PolicyName != "None" || len(got.Entries)+len(got.MachineState) > 0 {
		t.Errorf("of %s: %+v, %v", data, got, err)
	}
}

// TestMemory: what is written is read, also by older kubelets.
func TestMemory(t *testing.T) {
	want := state.Memory{
		PolicyName: "Static",
		MachineState: state.NUMANodeMap{0: {
			NumberOfAssignments: 1, Cells: []int{0},
			MemoryMap: map[corev1.ResourceName]*state.MemoryTable{"memory": {TotalMemSize: 10, SystemReserved: 1, Allocatable: 9, Reserved: 2, Free: 7}},
		}},
		Entries: state.ContainerMemoryAssignments{"uid": {"main": {{NUMAAffinity: []int{0}, Type: "memory", Size: 2}}}},
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := state.WriteMemory(path, want); err != nil {
		t.Fatal(err)
	}
	if got, err := state.ReadMemory(path); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	older, _, _ := strings.Cut(string(data), `,"data":`)
	if got, err := state.ReadMemory(write(t, older+"}")); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("as an older kubelet writes it: %+v, %v", got, err)
	}
}

// TestCorrupt: what was changed is refused.
func TestCorrupt(t *testing.T) {
	for name, text := range map[string]string{
		"data":         strings.Replace(upstream, `\"0-1\"`, `\"0-2\"`, 1),
		"no JSON":      upstream[:40],
		"no JSON data": strings.Replace(upstream, `{\"policyName`, `\"policyName`, 1),
		"older":        `{"policyName":"static","defaultCpuSet":"0-2","checksum":1636926438}`,
		"empty":        "",
	} {
		if got, err := state.ReadCPUs(write(t, text)); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
		if got, err := state.ReadMemory(write(t, text)); err == nil {
			t.Errorf("%s, as memory: %+v", name, got)
		}
	}
	_, err := state.ReadCPUs(write(t, strings.Replace(upstream, `\"0-1\"`, `\"0-2\"`, 1)))
	if err == nil || err.Error() != "could not load v4 checkpoint: checkpoint is corrupted" {
		t.Error(err)
	}
	if _, err := state.ReadCPUs(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
