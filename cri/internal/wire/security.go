package wire

import (
	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/cri"
)

func encodeNamespaces(n cri.Namespaces) *v1.NamespaceOption {
	option := &v1.NamespaceOption{
		Network: v1.NamespaceMode(n.Network), Pid: v1.NamespaceMode(n.PID), Ipc: v1.NamespaceMode(n.IPC), TargetId: n.Target,
	}
	if n.User != nil {
		option.UsernsOptions = &v1.UserNamespace{
			Mode: v1.NamespaceMode(n.User.Mode), Uids: each(n.User.UIDs, encodeMapping), Gids: each(n.User.GIDs, encodeMapping),
		}
	}
	return option
}

func decodeNamespaces(o *v1.NamespaceOption) cri.Namespaces {
	n := cri.Namespaces{
		Network: cri.NamespaceMode(o.GetNetwork()), PID: cri.NamespaceMode(o.GetPid()), IPC: cri.NamespaceMode(o.GetIpc()), Target: o.GetTargetId(),
	}
	if user := o.GetUsernsOptions(); user != nil {
		n.User = &cri.UserNamespace{
			Mode: cri.NamespaceMode(user.GetMode()), UIDs: each(user.GetUids(), decodeMapping), GIDs: each(user.GetGids(), decodeMapping),
		}
	}
	return n
}

func encodeMapping(m cri.IDMapping) *v1.IDMapping {
	return &v1.IDMapping{HostId: m.Host, ContainerId: m.Container, Length: m.Length}
}

func decodeMapping(m *v1.IDMapping) cri.IDMapping {
	return cri.IDMapping{Host: m.GetHostId(), Container: m.GetContainerId(), Length: m.GetLength()}
}

func encodeSandboxSecurity(s cri.SandboxSecurity, n cri.Namespaces) *v1.LinuxSandboxSecurityContext {
	return &v1.LinuxSandboxSecurityContext{
		NamespaceOptions: encodeNamespaces(n), SelinuxOptions: encodeSELinux(s.SELinux),
		RunAsUser: encodeInt(s.RunAsUser), RunAsGroup: encodeInt(s.RunAsGroup), ReadonlyRootfs: s.ReadOnlyRootfs,
		SupplementalGroups: s.SupplementalGroups, SupplementalGroupsPolicy: v1.SupplementalGroupsPolicy(s.SupplementalGroupsPolicy),
		Privileged: s.Privileged, Seccomp: encodeProfile(s.Seccomp), Apparmor: encodeProfile(s.AppArmor),
	}
}

func decodeSandboxSecurity(s *v1.LinuxSandboxSecurityContext) cri.SandboxSecurity {
	return cri.SandboxSecurity{
		Privileged: s.GetPrivileged(), ReadOnlyRootfs: s.GetReadonlyRootfs(),
		RunAsUser: decodeInt(s.GetRunAsUser()), RunAsGroup: decodeInt(s.GetRunAsGroup()),
		SupplementalGroups: s.GetSupplementalGroups(), SupplementalGroupsPolicy: cri.SupplementalGroupsPolicy(s.GetSupplementalGroupsPolicy()),
		SELinux: decodeSELinux(s.GetSelinuxOptions()),
		Seccomp: decodeProfile(s.GetSeccomp()), AppArmor: decodeProfile(s.GetApparmor()),
	}
}

func encodeSecurity(s cri.Security, n cri.Namespaces) *v1.LinuxContainerSecurityContext {
	return &v1.LinuxContainerSecurityContext{
		Capabilities: &v1.Capability{
			AddCapabilities: s.Capabilities.Add, DropCapabilities: s.Capabilities.Drop, AddAmbientCapabilities: s.Capabilities.AddAmbient,
		},
		Privileged: s.Privileged, NamespaceOptions: encodeNamespaces(n), SelinuxOptions: encodeSELinux(s.SELinux),
		RunAsUser: encodeInt(s.RunAsUser), RunAsGroup: encodeInt(s.RunAsGroup), RunAsUsername: s.RunAsUsername,
		ReadonlyRootfs: s.ReadOnlyRootfs, NoNewPrivs: s.NoNewPrivs,
		SupplementalGroups: s.SupplementalGroups, SupplementalGroupsPolicy: v1.SupplementalGroupsPolicy(s.SupplementalGroupsPolicy),
		MaskedPaths: s.MaskedPaths, ReadonlyPaths: s.ReadonlyPaths,
		Seccomp: encodeProfile(s.Seccomp), Apparmor: encodeProfile(s.AppArmor),
	}
}

func decodeSecurity(s *v1.LinuxContainerSecurityContext) cri.Security {
	return cri.Security{
		Privileged: s.GetPrivileged(), ReadOnlyRootfs: s.GetReadonlyRootfs(), NoNewPrivs: s.GetNoNewPrivs(),
		Capabilities: cri.Capabilities{
			Add: s.GetCapabilities().GetAddCapabilities(), Drop: s.GetCapabilities().GetDropCapabilities(),
			AddAmbient: s.GetCapabilities().GetAddAmbientCapabilities(),
		},
		RunAsUser: decodeInt(s.GetRunAsUser()), RunAsGroup: decodeInt(s.GetRunAsGroup()), RunAsUsername: s.GetRunAsUsername(),
		SupplementalGroups: s.GetSupplementalGroups(), SupplementalGroupsPolicy: cri.SupplementalGroupsPolicy(s.GetSupplementalGroupsPolicy()),
		MaskedPaths: s.GetMaskedPaths(), ReadonlyPaths: s.GetReadonlyPaths(), SELinux: decodeSELinux(s.GetSelinuxOptions()),
		Seccomp: decodeProfile(s.GetSeccomp()), AppArmor: decodeProfile(s.GetApparmor()),
	}
}

func encodeSELinux(s *cri.SELinux) *v1.SELinuxOption {
	if s == nil {
		return nil
	}
	return &v1.SELinuxOption{User: s.User, Role: s.Role, Type: s.Type, Level: s.Level}
}

func decodeSELinux(s *v1.SELinuxOption) *cri.SELinux {
	if s == nil {
		return nil
	}
	return &cri.SELinux{User: s.GetUser(), Role: s.GetRole(), Type: s.GetType(), Level: s.GetLevel()}
}

func encodeProfile(p *cri.Profile) *v1.SecurityProfile {
	if p == nil {
		return nil
	}
	return &v1.SecurityProfile{ProfileType: v1.SecurityProfile_ProfileType(p.Type), LocalhostRef: p.Localhost}
}

func decodeProfile(p *v1.SecurityProfile) *cri.Profile {
	if p == nil {
		return nil
	}
	return &cri.Profile{Type: cri.ProfileType(p.GetProfileType()), Localhost: p.GetLocalhostRef()}
}
