package load_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
	"github.com/keelson-dev/keelson/scheduler/whatif"
	"github.com/keelson-dev/keelson/scheduler/whatif/load"
)

func Example() {
	all := load.New()
	if err := all.Decode(strings.NewReader(`
{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: "1", pods: "10"}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: default}, spec: {containers: [{name: c, resources: {requests: {cpu: 700m}}}]}}
`)); err != nil {
		fmt.Println(err)
		return
	}
	world, err := whatif.New(all.Snapshot(), scheduler.Profile{Plugins: all.Plugins(plugins.Default())})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range world.PlaceAll(context.Background(), all.Pending()) {
		fmt.Println(p.Pod.Name, "goes to", p.Node)
	}
	// Output: web goes to a
}
