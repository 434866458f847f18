package cni

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"
)

// DefaultInterface is the interface that an attachment gets when it names none.
const DefaultInterface = "eth0"

// Key identifies an attachment within a Network.
type Key struct {
	ContainerID, Interface string // as in Attachment
}

// String is the key as messages show it.
func (k Key) String() string { return k.ContainerID + "/" + k.Interface }

// Attachment says what is to be attached, and how. ContainerID and, for Add, NetNS are required;
// a network pays regard to the rest as far as it can.
type Attachment struct {
	// ContainerID names the sandbox: letters, digits, "_", "." and "-".
	ContainerID string
	// Interface is the name of the interface inside the namespace, DefaultInterface when empty.
	Interface string
	// NetNS is the path of the network namespace.
	NetNS string
	// Pod is the pod to attach.
	Pod Pod

	// PortMappings lead from ports of the host to ports of the pod.
	PortMappings []PortMapping
	// Bandwidth limits the traffic of the pod.
	Bandwidth Bandwidth
	// DNS is how the pod is to resolve names.
	DNS DNS
	// IPRanges are where addresses are to be taken from: one address of each set.
	IPRanges [][]IPRange
	// IPs are the addresses to be used, as far as they are known beforehand.
	IPs []netip.Prefix
	// MAC is the hardware address to be used.
	MAC string
	// CgroupPath is the cgroup of the pod.
	CgroupPath string
	// Annotations are those of the pod.
	Annotations map[string]string
	// Args are handed to the network as they are, beside those for Pod.
	Args map[string]string
}

// Key identifies the attachment.
func (a Attachment) Key() Key {
	if a.Interface == "" {
		return Key{a.ContainerID, DefaultInterface}
	}
	return Key{a.ContainerID, a.Interface}
}

// Pod identifies the pod of an attachment.
type Pod struct {
	Namespace, Name, UID string
}

// PortMapping forwards a port of the host to one of the pod.
type PortMapping struct {
	HostPort, ContainerPort uint16 // both required
	// Protocol is tcp, udp or sctp, in any case; empty means tcp.
	Protocol string
	// HostIP is the address of the host; the zero value means all of them.
	HostIP netip.Addr
}

// Bandwidth limits the traffic of a pod; 0 sets no limit.
type Bandwidth struct {
	IngressRate, EgressRate   uint64 // bits per second
	IngressBurst, EgressBurst uint64 // bits
}

// DNS is the configuration of name resolution.
type DNS struct {
	// As in resolv.conf.
	Nameservers []string
	Domain      string
	Search      []string
	Options     []string
}

// IPRange is a range of addresses in a subnet.
type IPRange struct {
	// An invalid address leaves the choice to the network.
	Subnet                        netip.Prefix
	RangeStart, RangeEnd, Gateway netip.Addr
}

// Result is the outcome of an attachment.
type Result struct {
	Interfaces []Interface
	IPs        []IP
	Routes     []Route
	DNS        DNS
}

// Interface is a network interface that was created.
type Interface struct {
	Name, MAC string // inside its namespace
	// MTU is 0 if the network does not report it.
	MTU int
	// Sandbox is the path of the namespace, empty for an interface of the host.
	Sandbox string
}

// IP is an address of the pod.
type IP struct {
	Address netip.Prefix // with the length of its subnet
	// Gateway is invalid when there is none.
	Gateway netip.Addr
	// Interface is an index into Result.Interfaces, or -1 if the network does not report it.
	Interface int
}

// Route is a route of the pod.
type Route struct {
	Destination netip.Prefix // where it leads
	// Gateway is invalid if the network does not report it.
	Gateway netip.Addr
	// MTU and Priority are 0 if the network does not report them.
	MTU, Priority int
}

// PodIPs are the addresses of the result that the pod itself has, without those of the host's
// interfaces, in the network's order: the first one is the pod's main address.
func (r Result) PodIPs() []netip.Addr {
	var ips []netip.Addr
	for _, ip := range r.IPs {
		if ip.Interface >= 0 && ip.Interface < len(r.Interfaces) && r.Interfaces[ip.Interface].Sandbox == "" {
			continue
		}
		if addr := ip.Address.Addr(); !slices.Contains(ips, addr) {
			ips = append(ips, addr)
		}
	}
	return ips
}

// Validate returns an error that wraps ErrInvalid and names the field when the key of the
// attachment, a port mapping or another field can never be attached. Add needs a namespace;
// Delete and Check do not, and so it may be empty here.
func (a Attachment) Validate() error {
	if !validID(a.ContainerID) {
		return fmt.Errorf("%w: container id %q: it must begin with a letter or digit and contain nothing but letters, digits, \"_\", \".\" and \"-\"", ErrInvalid, a.ContainerID)
	}
	if name := a.Key().Interface; !validInterface(name) {
		return fmt.Errorf("%w: interface %q: it must have 1 to 15 characters without \"/\", \":\" and white space", ErrInvalid, name)
	}
	for i, m := range a.PortMappings {
		switch p := strings.ToLower(m.Protocol); {
		case m.HostPort == 0 || m.ContainerPort == 0:
			return fmt.Errorf("%w: port mapping %d: %d to %d: ports lie between 1 and 65535", ErrInvalid, i, m.HostPort, m.ContainerPort)
		case p != "" && p != "tcp" && p != "udp" && p != "sctp":
			return fmt.Errorf("%w: port mapping %d: protocol %q is none of tcp, udp and sctp", ErrInvalid, i, m.Protocol)
		}
	}
	for key, value := range a.args() {
		if key == "" || strings.ContainsAny(key, "=;") || strings.Contains(value, ";") {
			return fmt.Errorf("%w: argument %q: %q has a \";\" or is no name", ErrInvalid, key, value)
		}
	}
	return nil
}

func (a Attachment) args() map[string]string {
	all := map[string]string{"namespace": a.Pod.Namespace, "name": a.Pod.Name, "uid": a.Pod.UID}
	for key, value := range a.Args {
		all[key] = value
	}
	return all
}

func validID(id string) bool {
	for i, r := range id {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		case i > 0 && (r == '_' || r == '.' || r == '-'):
		default:
			return false
		}
	}
	return id != "" && len(id) <= 200 // it becomes part of file names
}

func validInterface(name string) bool {
	return name != "" && len(name) <= 15 && name != "." && name != ".." &&
		!strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r == ':' || unicode.IsSpace(r) || r == 0 })
}
