package state_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/kubelet/pinning/internal/state"
)

// TestWhichPart: the part that kubelets since 1.37 write counts, if there is any of it.
func TestWhichPart(t *testing.T) {
	const newer = `"data":"{\"policyName\":\"static\",\"defaultCpuSet\":\"0-1\"}"`
	for name, c := range map[string]struct{ text, want, err string }{
		"the newer":              {`{"policyName":"none","defaultCpuSet":"","checksum":1,` + newer + `,"dataChecksum":989860433}`, "static", ""},
		"the newer without sum":  {`{"policyName":"none","defaultCpuSet":"",` + newer + `}`, "", "could not load v4 checkpoint: checkpoint is corrupted"},
		"a sum of nothing":       {`{"policyName":"none","defaultCpuSet":"","dataChecksum":989860433}`, "", "could not load v4 checkpoint: unexpected end of JSON input"},
		"the older":              {`{"policyName":"none","defaultCpuSet":""}`, "none", ""},
		"the older with another": {`{"policyName":"none","defaultCpuSet":"","checksum":1}`, "", "checkpoint is corrupted"},
	} {
		got, err := state.ReadCPUs(write(t, c.text))
		if err == nil && c.err == "" {
			if got.PolicyName != c.want {
				t.Errorf("%s: %+v", name, got)
			}
		} else if err == nil || err.Error() != c.err {
			t.Errorf("%s: %v, want %q", name, err, c.err)
		}
	}
}

// TestOlderMemory: what kubelets before 1.37 write of memory has a checksum, except in the oldest files.
func TestOlderMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := state.WriteMemory(path, state.Memory{
		PolicyName: "Static",
		MachineState: state.NUMANodeMap{0: {Cells: []int{0}, MemoryMap: map[corev1.ResourceName]*state.MemoryTable{
			"memory": {TotalMemSize: 10, Allocatable: 10, Free: 10},
		}}},
	}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	older, newer, ok := strings.Cut(string(data), `,"data":`)
	if !ok {
		t.Fatalf("%s", data)
	}
	changed := strings.Replace(older, `"free":10`, `"free":9`, 1)
	oldest, _, ok := strings.Cut(changed, `,"checksum":`)
	if !ok {
		t.Fatalf("%s", data)
	}
	if _, err := state.ReadMemory(write(t, changed+"}")); err == nil || err.Error() != "checkpoint is corrupted" {
		t.Errorf("changed: %v", err)
	}
	got, err := state.ReadMemory(write(t, oldest+"}"))
	if err != nil || got.PolicyName != "Static" || got.MachineState[0].MemoryMap["memory"].Free != 9 {
		t.Errorf("without the sum: %+v, %v", got, err)
	}
	if got, err = state.ReadMemory(write(t, changed+`,"data":`+newer)); err != nil || got.MachineState[0].MemoryMap["memory"].Free != 10 {
		t.Errorf("the newer part: %+v, %v", got, err)
	}
	_, err = state.ReadMemory(write(t, strings.Replace(string(data), `\"free\":10`, `\"free\":9`, 1)))
	if err == nil || err.Error() != "could not load v3 checkpoint: checkpoint is corrupted" {
		t.Errorf("the newer part, changed: %v", err)
	}
}

// TestMissing: without a file, and without the directory of one, the error says which.
func TestMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "file")
	if _, err := state.ReadMemory(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := state.WriteMemory(path, state.Memory{}); err == nil || !strings.Contains(err.Error(), "none") {
		t.Error(err)
	}
	if err := state.WriteCPUs(path, state.CPUs{}); err == nil || !strings.Contains(err.Error(), "none") {
		t.Error(err)
	}
}
