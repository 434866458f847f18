package bundled_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/node"
	"github.com/keelson-dev/keelson/node/bundled"
	"github.com/keelson-dev/keelson/node/host"
	"github.com/keelson-dev/keelson/node/nodetools"
	"github.com/keelson-dev/keelson/node/ociimage"
)

// A cluster in this process whose node runs real containers. It takes root on Linux, and minutes for the first time, when
// containerd, runc and the CNI plugins are built.
func ExampleNode() {
	ctx := context.Background()
	dir := "/var/lib/my-cluster"
	tools, err := nodetools.Install(ctx, nodetools.Options{Dir: filepath.Join(dir, "tools")})
	if err != nil {
		fmt.Println(err)
		return
	}
	pause, err := ociimage.Pause(ctx, tools.Images, os.Stderr)
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := cluster.New(cluster.Options{Nodes: cluster.Nodes{Count: 1, Run: func(ctx context.Context, parts node.Parts) error {
		n, err := bundled.New(filepath.Join(dir, parts.Name), parts.PodCIDRs[0], tools, bundled.Options{Archives: []string{pause}})
		if err != nil {
			return err
		}
		if err := n.Start(ctx); err != nil {
			return err
		}
		return n.Run(ctx, parts, nil, host.Options{})
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Run(ctx))
}
