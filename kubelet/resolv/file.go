package resolv

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
)

// The files of a machine, and of its systemd-resolved, which has the real servers in one of its own.
const (
	machineFile  = "etc/resolv.conf"
	resolvedFile = "run/systemd/resolve/resolv.conf"
)

// File is the resolv.conf of the machine whose files are below root, "/" for this one, that pods
// can use: that of systemd-resolved where /etc/resolv.conf only leads to it, at a loopback address
// that is another one in every pod.
func File(root string) string {
	machine, resolved := filepath.Join(root, machineFile), filepath.Join(root, resolvedFile)
	data, _ := os.ReadFile(machine)
	dns, _ := Parse(bytes.NewReader(data)) // without servers after an error
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
