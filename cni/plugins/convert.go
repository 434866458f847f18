package plugins

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/keelson-dev/keelson/cni"
)

// runtimeConf converts an attachment for libcni.
func runtimeConf(a cni.Attachment) *libcni.RuntimeConf {
	return &libcni.RuntimeConf{
		ContainerID: a.ContainerID, NetNS: a.NetNS, IfName: a.Key().Interface,
		Args: args(a), CapabilityArgs: capabilities(a),
	}
}

func args(a cni.Attachment) [][2]string {
	all := [][2]string{{"IgnoreUnknown", "1"}}
	if a.Pod != (cni.Pod{}) {
		all = append(all,
			[2]string{"K8S_POD_NAMESPACE", a.Pod.Namespace}, [2]string{"K8S_POD_NAME", a.Pod.Name},
			[2]string{"K8S_POD_INFRA_CONTAINER_ID", a.ContainerID}, [2]string{"K8S_POD_UID", a.Pod.UID})
	}
	for _, key := range slices.Sorted(maps.Keys(a.Args)) {
		all = append(all, [2]string{key, a.Args[key]})
	}
	return all
}

// capabilities are the well-known ones of CNI's conventions, and two added by container runtimes. libcni passes each
// plugin those that it declares.
func capabilities(a cni.Attachment) map[string]any {
	all := map[string]any{}
	if len(a.PortMappings) > 0 {
		all["portMappings"] = portMappings(a.PortMappings)
	}
	if a.Bandwidth != (cni.Bandwidth{}) {
		all["bandwidth"] = bandwidth(a.Bandwidth)
	}
	if d := a.DNS; len(d.Nameservers)+len(d.Search)+len(d.Options) > 0 {
		all["dns"] = map[string]any{"servers": d.Nameservers, "searches": d.Search, "options": d.Options}
	}
	if len(a.IPRanges) > 0 {
		all["ipRanges"] = ipRanges(a.IPRanges)
	}
	if len(a.IPs) > 0 {
		var ips []string
		for _, ip := range a.IPs {
			ips = append(ips, ip.String())
		}
		all["ips"] = ips
	}
	if a.MAC != "" {
		all["mac"] = a.MAC
	}
	if a.CgroupPath != "" {
		all["cgroupPath"] = a.CgroupPath
	}
	if len(a.Annotations) > 0 {
		all["io.kubernetes.cri.pod-annotations"] = a.Annotations
	}
	return all
}

func portMappings(mappings []cni.PortMapping) []map[string]any {
	var all []map[string]any
	for _, m := range mappings {
		entry := map[string]any{"hostPort": m.HostPort, "containerPort": m.ContainerPort, "protocol": "tcp"}
		if m.Protocol != "" {
			entry["protocol"] = strings.ToLower(m.Protocol)
		}
		if m.HostIP.IsValid() {
			entry["hostIP"] = m.HostIP.String()
		}
		all = append(all, entry)
	}
	return all
}

// bandwidth omits what is not limited; a rate without a burst gets the largest one.
func bandwidth(b cni.Bandwidth) map[string]uint64 {
	all := map[string]uint64{}
	add := func(direction string, rate, burst uint64) {
		if rate == 0 {
			return
		}
		if burst == 0 {
			burst = math.MaxUint32
		}
		all[direction+"Rate"], all[direction+"Burst"] = rate, burst
	}
	add("ingress", b.IngressRate, b.IngressBurst)
	add("egress", b.EgressRate, b.EgressBurst)
	return all
}

func ipRanges(sets [][]cni.IPRange) [][]map[string]string {
	var all [][]map[string]string
	for _, set := range sets {
		var ranges []map[string]string
		for _, r := range set {
			entry := map[string]string{"subnet": r.Subnet.String()}
			for key, addr := range map[string]netip.Addr{"rangeStart": r.RangeStart, "rangeEnd": r.RangeEnd, "gateway": r.Gateway} {
				if addr.IsValid() {
					entry[key] = addr.String()
				}
			}
			ranges = append(ranges, entry)
		}
		all = append(all, ranges)
	}
	return all
}

// resultOf converts a plugin's result of any version.
func resultOf(r types.Result) (cni.Result, error) {
	if r == nil {
		return cni.Result{}, errors.New("no plugin returned a result")
	}
	from, err := types100.NewResultFromResult(r)
	if err != nil {
		return cni.Result{}, fmt.Errorf("result of the plugins: %w", err)
	}
	to := cni.Result{DNS: cni.DNS{
		Nameservers: from.DNS.Nameservers, Domain: from.DNS.Domain, Search: from.DNS.Search, Options: from.DNS.Options,
	}}
	for _, i := range from.Interfaces {
		if i == nil {
			i = &types100.Interface{} // addresses count it all the same
		}
		to.Interfaces = append(to.Interfaces, cni.Interface{Name: i.Name, MAC: i.Mac, MTU: i.Mtu, Sandbox: i.Sandbox})
	}
	for _, ip := range from.IPs {
		if ip == nil {
			continue
		}
		address, err := prefixOf(ip.Address)
		if err != nil {
			return cni.Result{}, err
		}
		entry := cni.IP{Address: address, Gateway: addrOf(ip.Gateway), Interface: -1}
		if ip.Interface != nil && *ip.Interface >= 0 && *ip.Interface < len(to.Interfaces) {
			entry.Interface = *ip.Interface
		}
		to.IPs = append(to.IPs, entry)
	}
	for _, route := range from.Routes {
		if route == nil {
			continue
		}
		destination, err := prefixOf(route.Dst)
		if err != nil {
			return cni.Result{}, err
		}
		to.Routes = append(to.Routes, cni.Route{Destination: destination, Gateway: addrOf(route.GW), MTU: route.MTU, Priority: route.Priority})
	}
	return to, nil
}

func addrOf(ip net.IP) netip.Addr {
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}

func prefixOf(n net.IPNet) (netip.Prefix, error) {
	addr := addrOf(n.IP)
	ones, bits := n.Mask.Size()
	if bits == 128 && addr.Is4() {
		ones -= 96
	}
	prefix := netip.PrefixFrom(addr, ones)
	if !prefix.IsValid() {
		return netip.Prefix{}, fmt.Errorf("result of the plugins: %v is no address with a mask", n)
	}
	return prefix, nil
}
