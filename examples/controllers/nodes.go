package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/pflag"

	"github.com/keelson-dev/keelson/controllers/nodeipam"
)

// nodeNetworks are the flags of the node-ipam-controller, which are kube-controller-manager's.
type nodeNetworks struct {
	allocate                 bool
	pods, services           string
	bits, bitsIPv4, bitsIPv6 int
}

func (n *nodeNetworks) addTo(f *pflag.FlagSet) {
	f.BoolVar(&n.allocate, "allocate-node-cidrs", false, "give each node a part of --cluster-cidr for its pods (node-ipam-controller)")
	f.StringVar(&n.pods, "cluster-cidr", "", "network of all pods, or one of each IP family, separated by a comma")
	f.IntVar(&n.bits, "node-cidr-mask-size", 0, "bits of a node's network with one IP family (default 24 for IPv4, 64 for IPv6)")
	f.IntVar(&n.bitsIPv4, "node-cidr-mask-size-ipv4", 0, "bits of a node's network of IPv4 (default 24)")
	f.IntVar(&n.bitsIPv6, "node-cidr-mask-size-ipv6", 0, "bits of a node's network of IPv6 (default 64)")
	f.StringVar(&n.services, "service-cluster-ip-range", "", "networks of services, which no node gets")
}

// options are those that the flags stand for.
func (n *nodeNetworks) options() (o nodeipam.Options, err error) {
	if n.pods == "" {
		return o, errors.New("--allocate-node-cidrs needs --cluster-cidr")
	}
	if o.Networks, err = prefixes(n.pods); err != nil {
		return o, fmt.Errorf("--cluster-cidr: %w", err)
	}
	if n.services != "" {
		if o.Services, err = prefixes(n.services); err != nil {
			return o, fmt.Errorf("--service-cluster-ip-range: %w", err)
		}
	}
	one := func(is6 bool) bool { return len(o.Networks) == 1 && o.Networks[0].Addr().Is6() == is6 }
	switch {
	case n.bits != 0 && len(o.Networks) > 1:
		return o, errors.New("usage of --node-cidr-mask-size is not allowed with dual-stack clusters")
	case n.bits != 0 && (n.bitsIPv4 != 0 || n.bitsIPv6 != 0):
		return o, errors.New("usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not allowed if --node-cidr-mask-size is set. For dual-stack clusters please unset it and use IPFamily specific flags")
	case n.bitsIPv4 != 0 && one(true):
		return o, errors.New("usage of --node-cidr-mask-size-ipv4 is not allowed for a single-stack IPv6 cluster")
	case n.bitsIPv6 != 0 && one(false):
		return o, errors.New("usage of --node-cidr-mask-size-ipv6 is not allowed for a single-stack IPv4 cluster")
	}
	o.BitsIPv4, o.BitsIPv6 = n.bitsIPv4, n.bitsIPv6
	if n.bits != 0 {
		o.BitsIPv4, o.BitsIPv6 = n.bits, n.bits
	}
	return o, nil
}

func prefixes(list string) (all []netip.Prefix, err error) {
	for text := range strings.SplitSeq(list, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}
