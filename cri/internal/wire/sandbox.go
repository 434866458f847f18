package wire

import (
	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/cri"
)

func encodePodMetadata(m cri.SandboxMetadata) *v1.PodSandboxMetadata {
	return &v1.PodSandboxMetadata{Name: m.Name, Uid: m.UID, Namespace: m.Namespace, Attempt: m.Attempt}
}

func decodePodMetadata(m *v1.PodSandboxMetadata) cri.SandboxMetadata {
	return cri.SandboxMetadata{Name: m.GetName(), UID: m.GetUid(), Namespace: m.GetNamespace(), Attempt: m.GetAttempt()}
}

// EncodeSandboxConfig makes the message; the runtime handler is sent beside it.
func EncodeSandboxConfig(c cri.SandboxConfig) *v1.PodSandboxConfig {
	return &v1.PodSandboxConfig{
		Metadata: encodePodMetadata(c.Metadata), Hostname: c.Hostname, LogDirectory: c.LogDirectory,
		DnsConfig:    encodeDNS(c.DNS),
		PortMappings: each(c.Ports, encodePort),
		Labels:       c.Labels, Annotations: c.Annotations,
		Linux: &v1.LinuxPodSandboxConfig{
			CgroupParent:    c.CgroupParent,
			SecurityContext: encodeSandboxSecurity(c.Security, c.Namespaces),
			Sysctls:         c.Sysctls,
			Overhead:        EncodeResources(c.Overhead), Resources: EncodeResources(c.Resources),
		},
	}
}

// DecodeSandboxConfig reads the message and the runtime handler beside it.
func DecodeSandboxConfig(c *v1.PodSandboxConfig, handler string) cri.SandboxConfig {
	linux := c.GetLinux()
	return cri.SandboxConfig{
		Metadata: decodePodMetadata(c.GetMetadata()), Hostname: c.GetHostname(), LogDirectory: c.GetLogDirectory(),
		DNS:    decodeDNS(c.GetDnsConfig()),
		Ports:  each(c.GetPortMappings(), decodePort),
		Labels: c.GetLabels(), Annotations: c.GetAnnotations(),
		RuntimeHandler: handler,
		CgroupParent:   linux.GetCgroupParent(),
		Sysctls:        linux.GetSysctls(),
		Namespaces:     decodeNamespaces(linux.GetSecurityContext().GetNamespaceOptions()),
		Security:       decodeSandboxSecurity(linux.GetSecurityContext()),
		Resources:      DecodeResources(linux.GetResources()), Overhead: DecodeResources(linux.GetOverhead()),
	}
}

// encodeDNS omits an empty configuration, which in CRI means the node's.
func encodeDNS(d cri.DNS) *v1.DNSConfig {
	if len(d.Servers)+len(d.Searches)+len(d.Options) == 0 {
		return nil
	}
	return &v1.DNSConfig{Servers: d.Servers, Searches: d.Searches, Options: d.Options}
}

func decodeDNS(d *v1.DNSConfig) cri.DNS {
	return cri.DNS{Servers: d.GetServers(), Searches: d.GetSearches(), Options: d.GetOptions()}
}

func encodePort(p cri.PortMapping) *v1.PortMapping {
	return &v1.PortMapping{
		Protocol: v1.Protocol(v1.Protocol_value[p.Protocol]), ContainerPort: p.ContainerPort, HostPort: p.HostPort, HostIp: p.HostIP,
	}
}

func decodePort(p *v1.PortMapping) cri.PortMapping {
	return cri.PortMapping{
		Protocol: p.GetProtocol().String(), ContainerPort: p.GetContainerPort(), HostPort: p.GetHostPort(), HostIP: p.GetHostIp(),
	}
}

// EncodeSandbox makes the message of a sandbox in a list.
func EncodeSandbox(s cri.Sandbox) *v1.PodSandbox {
	return &v1.PodSandbox{
		Id: s.ID, Metadata: encodePodMetadata(s.Metadata), State: v1.PodSandboxState(s.State), CreatedAt: encodeTime(s.CreatedAt),
		Labels: s.Labels, Annotations: s.Annotations, RuntimeHandler: s.RuntimeHandler,
	}
}

// DecodeSandbox reads the message of a sandbox in a list.
func DecodeSandbox(s *v1.PodSandbox) cri.Sandbox {
	return cri.Sandbox{
		ID: s.GetId(), Metadata: decodePodMetadata(s.GetMetadata()), State: decodeSandboxState(s.GetState()), CreatedAt: decodeTime(s.GetCreatedAt()),
		Labels: s.GetLabels(), Annotations: s.GetAnnotations(), RuntimeHandler: s.GetRuntimeHandler(),
	}
}

// decodeSandboxState treats an unknown state as not ready.
func decodeSandboxState(s v1.PodSandboxState) cri.SandboxState {
	if s == v1.PodSandboxState_SANDBOX_READY {
		return cri.SandboxReady
	}
	return cri.SandboxNotReady
}

// EncodeSandboxStatus makes the message of a sandbox's status.
func EncodeSandboxStatus(s cri.SandboxStatus) *v1.PodSandboxStatus {
	status := &v1.PodSandboxStatus{
		Id: s.ID, Metadata: encodePodMetadata(s.Metadata), State: v1.PodSandboxState(s.State), CreatedAt: encodeTime(s.CreatedAt),
		Network: &v1.PodSandboxNetworkStatus{},
		Linux:   &v1.LinuxPodSandboxStatus{Namespaces: &v1.Namespace{Options: encodeNamespaces(s.Namespaces)}},
		Labels:  s.Labels, Annotations: s.Annotations, RuntimeHandler: s.RuntimeHandler,
	}
	if len(s.IPs) > 0 {
		status.Network.Ip = s.IPs[0]
		status.Network.AdditionalIps = each(s.IPs[1:], func(ip string) *v1.PodIP { return &v1.PodIP{Ip: ip} })
	}
	return status
}

// DecodeSandboxStatus reads the message of a sandbox's status.
func DecodeSandboxStatus(s *v1.PodSandboxStatus) cri.SandboxStatus {
	status := cri.SandboxStatus{
		Sandbox: cri.Sandbox{
			ID: s.GetId(), Metadata: decodePodMetadata(s.GetMetadata()), State: decodeSandboxState(s.GetState()), CreatedAt: decodeTime(s.GetCreatedAt()),
			Labels: s.GetLabels(), Annotations: s.GetAnnotations(), RuntimeHandler: s.GetRuntimeHandler(),
		},
		Namespaces: decodeNamespaces(s.GetLinux().GetNamespaces().GetOptions()),
	}
	if ip := s.GetNetwork().GetIp(); ip != "" {
		status.IPs = append(status.IPs, ip)
	}
	for _, ip := range s.GetNetwork().GetAdditionalIps() {
		status.IPs = append(status.IPs, ip.GetIp())
	}
	return status
}

// EncodeSandboxFilter makes the filter's message.
func EncodeSandboxFilter(f cri.Filter) *v1.PodSandboxFilter {
	return &v1.PodSandboxFilter{Id: f.ID, LabelSelector: f.Labels}
}

// DecodeSandboxFilter reads the filter's message, except a state in it.
func DecodeSandboxFilter(f *v1.PodSandboxFilter) cri.Filter {
	return cri.Filter{ID: f.GetId(), Labels: f.GetLabelSelector()}
}
