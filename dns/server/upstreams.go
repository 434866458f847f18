package server

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"strings"
)

// ParseUpstreams returns the nameservers of a resolv.conf, at port 53.
func ParseUpstreams(r io.Reader) ([]netip.AddrPort, error) {
	const port = 53
	var all []netip.AddrPort
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		ip, err := netip.ParseAddr(fields[1])
		if err != nil {
			return nil, fmt.Errorf("nameserver %s: %w", fields[1], err)
		}
		all = append(all, netip.AddrPortFrom(ip, port))
	}
	return all, lines.Err()
}
