package dns

import (
	"net/netip"
	"strings"
)

// request is a name below the zone, taken apart.
type request struct {
	// kind is svc, pod, or empty for a name that exists without records of its own.
	kind                                         string
	namespace, service, endpoint, port, protocol string
}

// below returns what precedes the domain in a lowercase name, without the dot between them.
func below(name, domain string) (base string, ok bool) {
	if name == domain {
		return "", true
	}
	base, ok = strings.CutSuffix(name, "."+domain)
	if !ok {
		return "", false
	}
	escapes := len(base) - len(strings.TrimRight(base, `\`))
	return base, escapes%2 == 0 // otherwise the dot belongs to a label
}

// parse takes apart what precedes the domain.
func parse(base string) (r request, ok bool) {
	if base == "" || base == "svc" || base == "pod" {
		return r, true
	}
	if strings.Contains(base, `\`) {
		return r, false // no service and no pod has such a name
	}
	rest, kind := cutLast(base)
	if kind != "svc" && kind != "pod" {
		return r, false
	}
	r.kind = kind
	rest, r.namespace = cutLast(rest)
	rest, r.service = cutLast(rest)
	if rest == "" {
		return r, true
	}
	first, second, two := strings.Cut(rest, ".")
	if !two {
		r.endpoint = first
		return r, true
	}
	r.port, r.protocol = strings.TrimPrefix(first, "_"), strings.TrimPrefix(second, "_")
	return r, !strings.Contains(second, ".")
}

// cutLast cuts the last label off a name.
func cutLast(name string) (rest, label string) {
	if at := strings.LastIndexByte(name, '.'); at >= 0 {
		return name[:at], name[at+1:]
	}
	return "", name
}

// podAddress is the address that the name of a pod consists of.
func podAddress(name string) (netip.Addr, bool) {
	separator := ":"
	if strings.Count(name, "-") == 3 && !strings.Contains(name, "--") {
		separator = "."
	}
	ip, err := netip.ParseAddr(strings.ReplaceAll(name, "-", separator))
	return ip.Unmap(), err == nil && ip.Zone() == ""
}

// dashed is the name of an endpoint without a hostname.
func dashed(ip string) string {
	if strings.Contains(ip, ".") {
		return strings.ReplaceAll(ip, ".", "-")
	}
	name := strings.ReplaceAll(ip, ":", "-")
	if strings.HasSuffix(name, "-") {
		name += "0" // labels do not end with a dash
	}
	return name
}

// reversed is the address whose name in a reverse zone is given, in lowercase.
func reversed(name string) (netip.Addr, bool) {
	if base, ok := strings.CutSuffix(name, ".in-addr.arpa."); ok {
		labels := strings.Split(base, ".")
		if len(labels) != 4 {
			return netip.Addr{}, false
		}
		ip, err := netip.ParseAddr(labels[3] + "." + labels[2] + "." + labels[1] + "." + labels[0])
		return ip, err == nil && ip.Is4()
	}
	base, ok := strings.CutSuffix(name, ".ip6.arpa.")
	if !ok || len(base) != 63 {
		return netip.Addr{}, false
	}
	text := make([]byte, 0, 39)
	for i := 62; i >= 0; i -= 2 {
		if i > 0 && base[i-1] != '.' {
			return netip.Addr{}, false
		}
		text = append(text, base[i])
		if i%8 == 0 && i > 0 {
			text = append(text, ':')
		}
	}
	ip, err := netip.ParseAddr(string(text))
	return ip, err == nil && ip.Is6()
}
