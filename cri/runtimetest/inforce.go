package runtimetest

import (
	"errors"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/cri"
)

// memoryLimit prints the limit that a container sees of itself, with either version of cgroups.
const memoryLimit = "cat /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes"

// resources checks that limits reach the kernel, at the start and when they change.
func (s suite) resources(t *testing.T) {
	_, id := s.shell(t, idle, func(_ *cri.SandboxConfig, c *cri.ContainerConfig) {
		c.Resources = cri.Resources{MemoryLimit: 64 << 20, CPUQuota: 20_000, CPUPeriod: 100_000, CPUs: "0"}
	})
	s.says(t, id, memoryLimit, "67108864")
	s.says(t, id, "grep ^Cpus_allowed_list: /proc/1/status | cut -f2", "0")
	resizer, ok := s.runtime.(cri.Resizer)
	if !ok {
		return
	}
	if err := resizer.UpdateContainerResources(s.context(t), id, cri.Resources{MemoryLimit: 96 << 20}); err != nil {
		t.Fatalf("UpdateContainerResources: %v", err)
	}
	s.says(t, id, memoryLimit, "100663296")
}

// cpuGrows checks that CPU time grows with work.
func (s suite) cpuGrows(t *testing.T) {
	reader, ok := s.runtime.(cri.StatsReader)
	if !ok {
		return
	}
	sandbox, id := s.shell(t, "trap 'exit 0' TERM; head -c 1000000 /dev/zero > /written; while :; do :; done", nil)
	stats := func() cri.ContainerStats {
		list, err := reader.ListContainerStats(s.context(t), cri.Filter{ID: id})
		if err != nil || len(list) != 1 {
			t.Fatalf("ListContainerStats: %v, %v", list, err)
		}
		return list[0]
	}
	first := stats().CPU
	s.eventually(t, "the CPU time grows by 50 ms", func() bool {
		now := stats().CPU
		return now.CoreNanoSeconds >= first.CoreNanoSeconds+50e6 && now.At.After(first.At)
	})
	s.eventually(t, "what is written shows", func() bool { return stats().WritableLayer.UsedBytes >= 1_000_000 })
	pods, err := reader.ListSandboxStats(s.context(t), cri.Filter{ID: sandbox})
	if errors.Is(err, cri.ErrUnsupported) {
		return
	}
	if err != nil || len(pods) != 1 || pods[0].CPU.CoreNanoSeconds == 0 || len(pods[0].Network) == 0 || pods[0].Network[0].Name != "eth0" {
		t.Errorf("ListSandboxStats: %+v, %v", pods, err)
	}
}

// cgroupParent checks that a container is below its pod's cgroup, as far as it can see that: with version 2 it has a
// view of its own.
func (s suite) cgroupParent(t *testing.T) {
	sandbox, id := s.shell(t, idle, nil)
	parent := s.pods[sandbox].CgroupParent
	if parent == "" {
		t.Log("pods have no cgroup parent here")
		return
	}
	for _, line := range strings.Split(s.sh(t, id, "cat /proc/1/cgroup"), "\n") {
		parts := strings.SplitN(line, ":", 3)
		if len(parts) != 3 || parts[1] == "" || strings.HasPrefix(parts[1], "name=") {
			continue
		}
		if !strings.HasPrefix(parts[2], parent+"/") && parts[2] != "/" {
			t.Errorf("the cgroup of %s is %s, not below %s", parts[1], parts[2], parent)
		}
	}
}
