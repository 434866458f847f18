package proxy

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Service is the name of a service.
type Service = types.NamespacedName

// Settings hold for all services.
type Settings struct {
	// Pods are the ranges of pods' addresses. Packets to cluster IPs from elsewhere are masqueraded, and packets from
	// here to external addresses ignore the external traffic policy. Without any, neither is done.
	Pods []netip.Prefix
	// PodsOnly serves cluster IPs to nobody but Pods and this host, for clusters that share a host and a range of
	// services: then each gets its own packets only.
	PodsOnly bool
	// MasqueradeAll masquerades all packets to cluster IPs.
	MasqueradeAll bool
	// NodePorts are ranges of those addresses of the host that serve node ports; all addresses if there are none.
	// Loopback addresses never do.
	NodePorts []netip.Prefix
	// Services are the ranges of cluster IPs: packets to addresses in them that no service has are dropped.
	Services []netip.Prefix
}

// Port is one port of a service in one IP family: what it is reached by, and what is behind it. All slices are sorted.
type Port struct {
	// Name is that of the port, which may be empty.
	Name     string
	Protocol corev1.Protocol
	// ClusterIP is the service's address; its family is the port's.
	ClusterIP netip.Addr
	// External are the service's external IPs, LoadBalancers the addresses of its load balancers that packets still have
	// when they reach a node.
	External, LoadBalancers []netip.Addr
	// Port is served at all these addresses, NodePort, unless 0, at those of the host.
	Port, NodePort uint16
	// Sources are the ranges that may reach LoadBalancers; everybody if there are none.
	Sources []netip.Prefix
	// Affinity is how long a client is sent to the same endpoint after its last connection; 0 does not.
	Affinity time.Duration
	// InternalLocal and ExternalLocal: packets to the cluster IP, or to the others, go to Local endpoints only.
	InternalLocal, ExternalLocal bool
	// Cluster and Local are the usable endpoints for either policy; nil if that policy is never used.
	Cluster, Local []netip.AddrPort
	// Own are the usable endpoints on the local nodes. One that reaches itself through the service is masqueraded.
	Own []netip.AddrPort
	// Serving are the endpoints on any node that are ready, or still serve while they terminate. Flows of UDP to others
	// end.
	Serving []netip.AddrPort
}

// Tables are where all packets to services go.
type Tables struct {
	Settings Settings
	// Services has the ports of services that have any. If two services claim one address and port, that of the lesser
	// name has it.
	Services map[Service][]Port
}

// A Writer puts tables into effect. Its methods are not called concurrently.
type Writer interface {
	// Sync puts these tables into effect, whatever was before, all at once.
	Sync(ctx context.Context, tables Tables) error
	// Update changes what these services have, all at once: nil removes a service. Before the first Sync it is an error.
	// If it fails, the effect may be the old tables or the new ones; Sync makes that certain.
	Update(ctx context.Context, services map[Service][]Port) error
	// Intact reports whether the tables are in effect as written; others may have changed them.
	Intact(ctx context.Context) (bool, error)
}

// Is6 reports whether the port's family is IPv6.
func (p *Port) Is6() bool { return p.ClusterIP.Is6() }

// Internal are the endpoints for packets to the cluster IP.
func (p *Port) Internal() []netip.AddrPort {
	if p.InternalLocal {
		return p.Local
	}
	return p.Cluster
}

// Outside are the endpoints for packets from outside the cluster to external addresses and node ports.
func (p *Port) Outside() []netip.AddrPort {
	if p.ExternalLocal {
		return p.Local
	}
	return p.Cluster
}

// Addresses are the external addresses and those of load balancers, each once.
func (p *Port) Addresses() []netip.Addr {
	if len(p.LoadBalancers) == 0 {
		return p.External
	}
	all := slices.Concat(p.External, p.LoadBalancers)
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// Unserved is what becomes of packets for which a policy leaves no endpoint.
func (p *Port) Unserved() Action {
	if len(p.Serving) > 0 {
		return Drop
	}
	return Reject
}

func (p *Port) String() string {
	return fmt.Sprintf("%s/%s", netip.AddrPortFrom(p.ClusterIP, p.Port), p.Protocol)
}

// CompareServices orders the names of services.
func CompareServices(a, b Service) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
