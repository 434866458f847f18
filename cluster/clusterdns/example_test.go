package clusterdns_test

import (
	"context"
	"fmt"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/clusterdns"
)

// A program resolves the names of a cluster that it runs.
func Example() {
	ctx := context.Background()
	names := clusterdns.New(clusterdns.Options{})
	c, err := cluster.Start(ctx, cluster.Options{Extensions: []cluster.Extension{names.Extension()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()
	resolver, err := names.Resolver()
	if err != nil {
		fmt.Println(err)
		return
	}
	addresses, err := resolver.LookupHost(ctx, "kube-dns.kube-system.svc.cluster.local.")
	fmt.Println(addresses, err)
	// Output: [10.96.0.10] <nil>
}
