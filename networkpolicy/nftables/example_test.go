package nftables_test

import (
	"context"
	"fmt"

	"github.com/keelson-dev/keelson/networkpolicy"
	"github.com/keelson-dev/keelson/networkpolicy/nftables"
)

// An Enforcer that writes into this machine's kernel, given informers.
func Example() {
	run := func(ctx context.Context, sources networkpolicy.Sources) error {
		if err := nftables.PoliceBridges(); err != nil {
			return err
		}
		writer, err := nftables.New(nftables.Options{})
		if err != nil {
			return err
		}
		defer func() { _ = writer.Close() }()
		return networkpolicy.New(sources, writer, networkpolicy.Options{Nodes: []string{"node-1"}}).Run(ctx)
	}
	fmt.Println(run != nil)
	// Output: true
}
