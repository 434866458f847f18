package pinning_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	cadvisor "github.com/google/cadvisor/lib/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"
)

// near is a topology manager with one hint for all.
type near struct {
	topologymanager.Store
	nodes []int
}

func (n near) GetAffinity(klog.Logger, string, string) topologymanager.TopologyHint {
	if len(n.nodes) == 0 {
		return topologymanager.TopologyHint{}
	}
	mask, err := bitmask.NewBitMask(n.nodes...)
	if err != nil {
		panic(err)
	}
	return topologymanager.TopologyHint{NUMANodeAffinity: mask, Preferred: true}
}

// machineOf returns the machine of a text such as "socket:2 node:1 cache:2 core:4 thread:2", numbered as in the file.
func machineOf(text string) (*cadvisor.MachineInfo, error) {
	var first string
	var sizes []int
	for _, word := range strings.Fields(text) {
		name, number, _ := strings.Cut(word, ":")
		size := 0
		if _, err := fmt.Sscan(number, &size); err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		if len(sizes) == 0 {
			first = name
		}
		sizes = append(sizes, size)
	}
	if len(sizes) != 5 {
		return nil, fmt.Errorf("%s is no layout", text)
	}
	outer, inner, caches, perCache, threads := sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]
	cores := outer * inner * caches * perCache
	m := &cadvisor.MachineInfo{NumCores: cores * threads, NumSockets: outer * inner}
	nodes := outer
	if first == "socket" {
		m.NumSockets, nodes = outer, outer*inner
	}
	for id := range nodes {
		m.Topology = append(m.Topology, cadvisor.Node{Id: id})
	}
	for core := range cores {
		cache := core / perCache
		small := cache / caches
		socket, node := small, small/inner
		if first == "socket" {
			socket, node = node, socket
		}
		var list []int
		for thread := range threads {
			list = append(list, core+thread*cores)
		}
		n := &m.Topology[node]
		n.Cores = append(n.Cores, cadvisor.Core{Id: core, Threads: list, SocketID: socket, UncoreCaches: []cadvisor.Cache{{Id: cache, Level: 3}}})
	}
	return m, nil
}

// theirChoice is what upstream's CPU manager gives a container, for the columns of a line of the file.
func theirChoice(t *testing.T, columns []string) string {
	t.Helper()
	log := logr.Discard()
	set := func(text string) cpuset.CPUSet {
		s, err := cpuset.Parse(strings.TrimSpace(text))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	m, err := machineOf(columns[0])
	if err != nil {
		t.Fatal(err)
	}
	on, err := topology.Discover(log, m)
	if err != nil {
		t.Fatal(err)
	}
	options := map[string]string{}
	for _, name := range strings.Fields(columns[4]) {
		options[map[string]string{"full": "full-pcpus-only", "across": "distribute-cpus-across-numa", "cache": "prefer-align-cpus-by-uncorecache"}[name]] = "true"
	}
	reserved, taken := set(strings.TrimPrefix(columns[1], "reserved")), set(strings.TrimPrefix(columns[2], "taken"))
	at := near{nodes: set(strings.TrimPrefix(columns[3], "near")).List()}
	p, err := cpumanager.NewStaticPolicy(log, on, reserved.Size(), reserved, at, options)
	if err != nil {
		t.Fatal(err)
	}
	s := state.NewMemoryState(log)
	if err := p.Start(log, s); err != nil {
		t.Fatal(err)
	}
	s.SetCPUSet("other", "main", taken)
	s.SetDefaultCPUSet(s.GetDefaultCPUSet().Difference(taken))
	list := corev1.ResourceList{"cpu": resource.MustParse(columns[5]), "memory": resource.MustParse("1Gi")}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}},
	}}
	if err := p.Allocate(log, s, pod, &pod.Spec.Containers[0], lifecycle.AddOperation); err != nil {
		return err.Error()
	}
	mine, _ := s.GetCPUSet("a", "main")
	return mine.String()
}

// otherwise begins the part of the file in which upstream chooses otherwise, and why.
const otherwise = "# otherwise than upstream"

// TestChoices: what is written down as keelson's choices is upstream's, too, except where the file says why not.
func TestChoices(t *testing.T) {
	data, err := os.ReadFile("../../../kubelet/pinning/cpus/testdata/choices.txt")
	if err != nil {
		t.Fatal(err)
	}
	compared, differs := 0, false
	for line := range strings.Lines(string(data)) {
		differs = differs || strings.HasPrefix(line, otherwise)
		question, want, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " = ")
		columns := strings.Split(question, " | ")
		if strings.HasPrefix(line, "#") || len(columns) != 6 {
			continue
		}
		compared++
		if got := theirChoice(t, columns); (got != want) != differs {
			t.Errorf("%s: upstream's %s, written down is %s; that they differ is %t", question, got, want, differs)
		}
	}
	if compared < 300 || !differs {
		t.Errorf("%d choices compared, some that differ: %t", compared, differs)
	}
}
