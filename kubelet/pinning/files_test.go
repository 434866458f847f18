package pinning_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/kubelet/pinning"
)

const cpuFile, memoryFile = "cpu_manager_state", "memory_manager_state"

// read is what is in a file of a directory; none if it is not there.
func read(t testing.TB, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if os.IsNotExist(err) {
		return "none"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// forget removes the files, so that only what is written later is there.
func forget(t testing.TB, dir string) {
	t.Helper()
	for _, name := range []string{cpuFile, memoryFile} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWritten: an admission that gives something away, or takes something back, is written down, and no other.
func TestWritten(t *testing.T) {
	dir, n := t.TempDir(), newNode()
	a := start(t, dir, n, static("", ""))
	own, shares := pod("own", sized("main", 2, "1Gi")), pod("shares", corev1.Container{Name: "main"})
	n.add(own, shares)
	admit := func(p *corev1.Pod) {
		t.Helper()
		if r := a.Admit(p); r != nil {
			t.Fatal(r)
		}
	}
	admit(shares)
	if got := read(t, dir, cpuFile) + read(t, dir, memoryFile); got != "nonenone" {
		t.Errorf("nothing was given away: %s", got)
	}
	admit(own)
	for name, want := range map[string]string{cpuFile: `"own":{"main":"1,5"}`, memoryFile: `"own":{"main":[{"numaAffinity":[0],"type":"memory","size":1073741824}]}`} {
		if got := read(t, dir, name); !strings.Contains(got, want) {
			t.Errorf("%s: %s", name, got)
		}
	}
	forget(t, dir)
	admit(own)
	if got := read(t, dir, cpuFile) + read(t, dir, memoryFile); got != "nonenone" {
		t.Errorf("nothing has changed: %s", got)
	}
	n.remove("own")
	admit(shares)
	for _, name := range []string{cpuFile, memoryFile} {
		if got := read(t, dir, name); got == "none" || strings.Contains(got, "own") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestTakenBackByRefused: what has ended is free, and written down, although the pod that asks is refused.
func TestTakenBackByRefused(t *testing.T) {
	dir, n := t.TempDir(), newNode()
	a := start(t, dir, n, static("", ""))
	own := pod("own", sized("main", 2, "1Gi"))
	n.add(own)
	if r := a.Admit(own); r != nil {
		t.Fatal(r)
	}
	n.remove("own")
	if r := a.Admit(pod("large", sized("main", 8, "1Gi"))); r == nil {
		t.Error("a pod that is too large is admitted")
	}
	if got := read(t, dir, cpuFile); strings.Contains(got, "own") || !strings.Contains(got, `"defaultCpuSet":"0-7"`) {
		t.Error(got)
	}
}

// TestRestored: a new Allocator knows what each pod has before any is admitted again.
func TestRestored(t *testing.T) {
	dir, n := t.TempDir(), newNode()
	a := start(t, dir, n, static("", ""))
	first, own := pod("first", sized("main", 2, "3Gi")), pod("own", sized("main", 2, "3Gi"))
	n.add(first, own)
	if a.Admit(first) != nil || a.Admit(own) != nil {
		t.Fatal("refused")
	}
	n.remove("first")
	if r := a.Admit(pod("shares", corev1.Container{Name: "main"})); r != nil {
		t.Fatal(r)
	}
	const want = "2,6 on 1, quota -1"
	a = start(t, dir, n, static("", ""))
	if got := pinned(a, "own", "main"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	n.remove("own") // not live yet, or no more
	if r := a.Admit(own); r != nil {
		t.Fatal(r)
	}
	if got := pinned(a, "own", "main"); got != want {
		t.Errorf("admitted again: %s, want %s", got, want)
	}
}

// TestUnsuitableFiles: files that do not suit stop the kubelet, with what to do about them.
func TestUnsuitableFiles(t *testing.T) {
	const node = `{"numberOfAssignments":0,"memoryMap":{"memory":{"total":4294967296,"systemReserved":0,"allocatable":4294967296,"reserved":0,"free":4294967296}},"cells":[0]}`
	for name, c := range map[string]struct{ file, text, want string }{
		"corrupt CPUs":       {cpuFile, `{"policyName":"static","defaultCpuSet":"0-7","checksum":1}`, "could not restore state from checkpoint: checkpoint is corrupted, please drain this node and delete the CPU manager checkpoint file"},
		"no set of CPUs":     {cpuFile, `{"policyName":"static","defaultCpuSet":"all"}`, `could not parse default CPU set "all": `},
		"no set of a pod":    {cpuFile, `{"policyName":"static","defaultCpuSet":"0-7","entries":{"uid":{"main":"some"}}}`, `could not parse cpuset "some" for container "main" in pod "uid": `},
		"reserved CPUs":      {cpuFile, `{"policyName":"static","defaultCpuSet":"1-7"}`, `invalid state, please drain node and remove policy state file: not all reserved cpus: "0" are present in defaultCpuSet: "1-7"`},
		"corrupt memory":     {memoryFile, `{"policyName":"Static","machineState":{},"checksum":1}`, "could not restore state from checkpoint: checkpoint is corrupted, please drain this node and delete the memory manager checkpoint file"},
		"another policy":     {memoryFile, `{"policyName":"None","machineState":{}}`, `[memorymanager] configured policy "Static" differs from state checkpoint policy "None"`},
		"no state of a node": {memoryFile, `{"policyName":"Static","machineState":{"0":null}}`, "NUMA node 0 has no state, please drain"},
		"no state of memory": {memoryFile, `{"policyName":"Static","machineState":{"0":{"memoryMap":{"memory":null}}}}`, "NUMA node 0 has no state of memory, please drain"},
		"another machine":    {memoryFile, `{"policyName":"Static","machineState":{"0":` + node + `}}`, "invalid state, please drain node and remove policy state file: [memorymanager] the expected machine state is different from the real one"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := pinning.New(dir, machine(), newNode(), newNode(), pinning.Options{Settings: static("", "")})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// TestUnwritable: a file that cannot be written is logged, and the pod has what it was given.
func TestUnwritable(t *testing.T) {
	for _, file := range []string{"", cpuFile, memoryFile} {
		dir, n := t.TempDir(), newNode()
		var log bytes.Buffer
		a, err := pinning.New(dir, machine(), n, n, pinning.Options{Settings: static("", ""), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if file != "" {
			if err := os.MkdirAll(filepath.Join(dir, file, "full"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if r := a.Admit(pod("own", sized("main", 2, "1Gi"))); r != nil || !a.Exclusive("own") {
			t.Errorf("%s: %v", file, r)
		}
		if got := log.String(); strings.Contains(got, "Failed to save checkpoint") != (file != "") || !strings.Contains(got, file) {
			t.Errorf("%q: %s", file, got)
		}
	}
}
