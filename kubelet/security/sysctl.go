package security

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/node/util/sysctl"
)

const (
	maxSysctlLength = 253
	sysctlPattern   = `([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]`
)

// safeSysctls returns the sysctls that affect only one pod, for a kernel of that version. For an unknown version, only
// those that are safe on every kernel are included.
func safeSysctls(kernel string) []string {
	list := []string{
		"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies",
		"net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start",
	}
	have, err := version.ParseGeneric(kernel)
	if err != nil {
		return list
	}
	for _, s := range []struct{ name, since string }{
		{"net.ipv4.ip_local_reserved_ports", "3.16"},
		{"net.ipv4.tcp_keepalive_time", "4.5"},
		{"net.ipv4.tcp_fin_timeout", "4.6"},
		{"net.ipv4.tcp_keepalive_intvl", "4.5"},
		{"net.ipv4.tcp_keepalive_probes", "4.5"},
		{"net.ipv4.tcp_rmem", "4.15"},
		{"net.ipv4.tcp_wmem", "4.15"},
	} {
		if since, err := version.ParseGeneric(s.since); err == nil && have.AtLeast(since) {
			list = append(list, s.name)
		}
	}
	return list
}

// allowlist holds the sysctls that pods may set, by name and by prefix, each with its namespace.
type allowlist struct {
	names    map[string]sysctl.Namespace
	prefixes []prefix
}

type prefix struct {
	text      string
	namespace sysctl.Namespace
}

func newAllowlist(patterns []string) (allowlist, error) {
	list := allowlist{names: map[string]sysctl.Namespace{}}
	valid := regexp.MustCompile("^" + sysctlPattern + "$")
	for _, p := range patterns {
		if len(p) > maxSysctlLength || !valid.MatchString(p) {
			return list, fmt.Errorf("sysctl %q must have at most %d characters and match regex %s", p, maxSysctlLength, sysctlPattern)
		}
		namespace, text, prefixed := sysctl.GetNamespace(p)
		switch {
		case namespace == sysctl.UnknownNamespace:
			return list, fmt.Errorf("the sysctls %q are not known to be namespaced", text)
		case prefixed:
			list.prefixes = append(list.prefixes, prefix{text, namespace})
		default:
			list.names[text] = namespace
		}
	}
	return list, nil
}

// check returns an error if a pod must not set a sysctl, given which of the host's namespaces it uses.
func (l allowlist) check(name string, hostNetwork, hostIPC bool) error {
	name = sysctl.NormalizeName(name)
	namespace, found := l.names[name]
	for i := 0; i < len(l.prefixes) && !found; i++ {
		if strings.HasPrefix(name, l.prefixes[i].text) {
			namespace, found = l.prefixes[i].namespace, true
		}
	}
	switch {
	case !found:
		return fmt.Errorf("%q not allowlisted", name)
	case namespace == sysctl.IPCNamespace && hostIPC, namespace == sysctl.NetNamespace && hostNetwork:
		return fmt.Errorf("%q not allowed with host %s enabled", name, namespace)
	default:
		return nil
	}
}
