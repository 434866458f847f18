package cpus_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"github.com/keelson-dev/keelson/kubelet/pinning/cpus"
	"github.com/keelson-dev/keelson/kubelet/pinning/numa"
)

var update = flag.Bool("update", false, "write what containers get into testdata/choices.txt")

// layout returns the machine of a text such as "socket:2 node:1 cache:2 core:4 thread:2": two sockets with a NUMA node each, and so
// on. The first threads of all cores come before the second ones.
func layout(text string) (cpus.Topology, error) {
	var names []string
	var sizes []int
	cores := 1
	for _, word := range strings.Fields(text) {
		name, number, _ := strings.Cut(word, ":")
		size := 0
		if _, err := fmt.Sscan(number, &size); err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		names, sizes = append(names, name), append(sizes, size)
		if name != "thread" {
			cores *= size
		}
	}
	if len(names) != 5 || names[3] != "core" || names[4] != "thread" {
		return nil, fmt.Errorf("%s is no layout", text)
	}
	t := cpus.Topology{}
	for id := range cores * sizes[4] {
		core := id % cores
		cache := core / sizes[3]
		inner, outer := cache/sizes[2], cache/sizes[2]/sizes[1]
		t[id] = cpus.CPU{Core: core, Cache: cache, Node: inner, Socket: outer}
		if names[0] == "node" {
			t[id] = cpus.CPU{Core: core, Cache: cache, Node: outer, Socket: inner}
		}
	}
	return t, nil
}

// choose returns what a container gets, for a line of the file without its result.
func choose(t *testing.T, columns []string) string {
	t.Helper()
	on, err := layout(columns[0])
	if err != nil {
		t.Fatal(err)
	}
	var o cpus.Options
	for _, name := range strings.Fields(columns[4]) {
		switch name {
		case "full":
			o.FullCores = true
		case "across":
			o.AcrossNodes = true
		case "cache":
			o.ByCache = true
		default:
			t.Fatalf("unknown option %q", name)
		}
	}
	p := policy(t, on, strings.TrimPrefix(columns[1], "reserved "), o)
	s, err := p.Restore(cpus.State{})
	if err != nil {
		t.Fatal(err)
	}
	taken := set(t, strings.TrimSpace(strings.TrimPrefix(columns[2], "taken")))
	s = cpus.State{Shared: s.Shared.Difference(taken), Own: map[types.UID]map[string]cpuset.CPUSet{"other": {"main": taken}}}
	near := set(t, strings.TrimSpace(strings.TrimPrefix(columns[3], "near")))
	main := sized("main", columns[5])
	s, err = p.Allocate(s, pod("a", nil, main), &main, numa.MaskOf(near.List()...))
	if err != nil {
		return err.Error()
	}
	mine, _ := s.Of("a", "main")
	return mine.String()
}

// TestChoices: what containers get on many machines. conformance/nodes/pinning holds the file to upstream.
func TestChoices(t *testing.T) {
	const file = "testdata/choices.txt"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		question, want, _ := strings.Cut(line, " = ")
		columns := strings.Split(question, " | ")
		if strings.HasPrefix(line, "#") || len(columns) != 6 {
			fmt.Fprintln(&out, line)
			continue
		}
		got := choose(t, columns)
		if got != want && !*update {
			t.Errorf("%s: %s, want %s", question, got, want)
		}
		fmt.Fprintf(&out, "%s = %s\n", question, got)
	}
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
