package upkeep_test

import (
	"context"
	"fmt"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/flowcontrol"
	"github.com/keelson-dev/keelson/registry/flowcontrol/upkeep"
	"github.com/keelson-dev/keelson/storage/memory"
)

// An API server has the default objects before it serves the first request.
func Example() {
	r, err := registry.New(memory.New(memory.Options{}), flowcontrol.Kinds(), registry.Options{})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	defer func() { cancel(); <-done }()
	if err := r.WaitSynced(ctx); err != nil {
		panic(err)
	}
	u, err := upkeep.New(r, upkeep.Options{})
	if err != nil {
		panic(err)
	}
	if err := u.Once(ctx); err != nil {
		panic(err)
	}
	levels, _ := r.Resource(schema.GroupResource{Group: flowcontrolv1.GroupName, Resource: "prioritylevelconfigurations"})
	fmt.Println(levels.Len())
	// Output: 8
}
