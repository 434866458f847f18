package stats_test

import (
	"context"
	"fmt"
	"time"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet/machine"
	"github.com/keelson-dev/keelson/kubelet/stats"
)

// small is a machine with little memory in use; in a program, a *machine.Reader.
type small struct{}

func (small) Usage(now time.Time) machine.Usage {
	return machine.Usage{At: now, Memory: cri.MemoryUsage{At: now, WorkingSet: 64 << 20}}
}

// What a node and its one pod use.
func Example() {
	ctx := context.Background()
	runtime := simulated.New(simulated.Options{})
	defer runtime.Close()
	if _, err := runtime.RunPodSandbox(ctx, cri.SandboxConfig{
		Metadata: cri.SandboxMetadata{Namespace: "default", Name: "web", UID: "1"},
	}); err != nil {
		fmt.Println(err)
		return
	}
	collector, err := stats.New("node-0", runtime, small{}, stats.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	summary, err := collector.Summary(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(summary.Node.NodeName, *summary.Node.Memory.WorkingSetBytes)
	for _, pod := range summary.Pods {
		fmt.Println(pod.PodRef.Namespace, pod.PodRef.Name)
	}
	// Output:
	// node-0 67108864
	// default web
}
