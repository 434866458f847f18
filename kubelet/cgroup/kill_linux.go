package cgroup

import (
	"os"
	"path/filepath"
	"syscall"

	libcgroups "github.com/opencontainers/cgroups"
)

// kill kills every process in the cgroups and those below them, as far as it can. Callers must check whether any are
// left.
func kill(dirs []string) {
	for _, dir := range dirs {
		if libcgroups.WriteFile(dir, "cgroup.kill", "1") == nil {
			continue // cgroup v2 since Linux 5.14
		}
		for _, pid := range processes(dir) {
			// 0 stands for a process of another PID namespace.
			if pid > 1 && pid != os.Getpid() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// processes lists the processes in a cgroup and those below it, as far as they can be read.
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
