package containerd_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/keelson-dev/keelson/node/containerd"
	"github.com/keelson-dev/keelson/node/nodetools"
)

// Example shows a node's life. It is not run: it needs root.
func Example() {
	ctx := context.Background()
	tools, err := nodetools.Install(ctx, nodetools.Options{Progress: func(line string) { fmt.Println(line) }})
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := containerd.New("/var/lib/keelson/node-1", tools, containerd.Options{
		CgroupRoot: "keelson-node-1",
		Mirrors:    map[string][]string{"docker.io": {"http://127.0.0.1:5000"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := d.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	names, err := d.Import(ctx, "nginx.tar", nil)
	fmt.Println(names, err, d.Socket())
	if err := errors.Join(d.Stop(ctx), d.Destroy(ctx)); err != nil {
		fmt.Println(err)
	}
}

// ExampleDaemon_Socket: sockets' paths are short, however long the directory is.
func ExampleDaemon_Socket() {
	d, err := containerd.New("/var/lib/keelson/a-node-with-a-rather-long-name", nodetools.Tools{}, containerd.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Socket())
	// Output: /run/keelson/e6b8dfd27e04/containerd.sock
}
