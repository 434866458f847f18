package resolv

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
)

// The machine's resolv.conf, and that of systemd-resolved, which has the real servers.
const (
	machineFile  = "etc/resolv.conf"
	resolvedFile = "run/systemd/resolve/resolv.conf"
)

// File returns the resolv.conf that pods can use on the machine whose files are below root, "/" for this one. It is
// that of systemd-resolved if /etc/resolv.conf only points to its loopback address, which pods cannot reach.
func File(root string) string {
	machine, resolved := filepath.Join(root, machineFile), filepath.Join(root, resolvedFile)
	data, _ := os.ReadFile(machine)
	dns, _ := Parse(bytes.NewReader(data)) // no servers after an error
	if len(dns.Servers) == 0 {
		return machine
	}
	for _, s := range dns.Servers {
		if ip, _ := netip.ParseAddr(s); !ip.IsLoopback() {
			return machine
		}
	}
	if _, err := os.Stat(resolved); err != nil {
		return machine
	}
	return resolved
}
