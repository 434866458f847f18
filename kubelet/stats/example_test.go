package stats_test

import (
	"context"
	"fmt"
	"time"

	"github.com/keelson-dev/keelson/kubelet/stats"
)

func Example() {
	start := time.Now().Add(-time.Minute)
	runtime, machine := busy(start), idle{start}
	collector, err := stats.New("node-0", runtime, machine, stats.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	summary, err := collector.Summary(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, pod := range summary.Pods {
		fmt.Println(pod.PodRef.Namespace, pod.PodRef.Name, *pod.Memory.WorkingSetBytes)
	}
	// Output: default web 3145728
}
