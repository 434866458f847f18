package nftables_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/keelson-dev/keelson/proxy"
	"github.com/keelson-dev/keelson/proxy/nftables"
)

// A proxy that writes into this machine's kernel, given informers.
func Example() {
	run := func(ctx context.Context, sources proxy.Sources) error {
		writer, err := nftables.New(nftables.Options{})
		if err != nil {
			return err
		}
		defer func() { _ = writer.Close() }()
		settings := proxy.Settings{Pods: []netip.Prefix{netip.MustParsePrefix("10.64.0.0/10")}}
		return proxy.New(sources, writer, proxy.Options{Settings: settings, Nodes: []string{"node-1"}}).Run(ctx)
	}
	fmt.Println(run != nil)
	// Output: true
}
