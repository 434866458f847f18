package cgroup

import (
	"os"
	"path/filepath"
	"syscall"

	libcgroups "github.com/opencontainers/cgroups"
)

// kill ends every process in the cgroups and in those below them, as far as it can. Whoever needs them
// gone looks again.
func kill(dirs []string) {
	for _, dir := range dirs {
		if libcgroups.WriteFile(dir, "cgroup.kill", "1") == nil {
			continue // cgroup v2 since Linux 5.14
		}
		for _, pid := range processes(dir) {
			// 0 is a process of another PID namespace.
			if pid > 1 && pid != os.Getpid() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// processes are those in a cgroup and in those below it, as far as they can be read.
func processes(dir string) []int {
	pids, _ := libcgroups.GetPids(dir)
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if entry.IsDir() {
			pids = append(pids, processes(filepath.Join(dir, entry.Name()))...)
		}
	}
	return pids
}
