package allocation

import (
	"fmt"
	"strconv"
	"strings"
)

// maxPort is the highest valid port.
const maxPort = 65535

// PortRange is Size ports from First on. The zero value has no ports.
type PortRange struct{ First, Size int } // the first port, and the number of ports

// NodePorts is upstream's default range of node ports, 30000 to 32767.
func NodePorts() PortRange { return PortRange{30000, 2768} }

// ParsePortRange parses a range such as "30000-32767".
func ParsePortRange(text string) (PortRange, error) {
	from, to, ok := strings.Cut(strings.TrimSpace(text), "-")
	first, err1 := strconv.Atoi(from)
	last, err2 := strconv.Atoi(to)
	if !ok || err1 != nil || err2 != nil {
		return PortRange{}, fmt.Errorf("port range %q: write it as FIRST-LAST, such as 30000-32767", text)
	}
	r := PortRange{first, last - first + 1}
	return r, r.Validate()
}

// Validate returns an error if the range is invalid.
func (r PortRange) Validate() error {
	if r.First < 1 || r.Size < 1 || r.First+r.Size-1 > maxPort {
		return fmt.Errorf("port range %d-%d: must lie within 1-%d and not be empty", r.First, r.First+r.Size-1, maxPort)
	}
	return nil
}

// String returns the range in the form that ParsePortRange parses.
func (r PortRange) String() string { return fmt.Sprintf("%d-%d", r.First, r.First+r.Size-1) }

// Contains reports whether the port is in the range.
func (r PortRange) Contains(port int) bool { return port >= r.First && port < r.First+r.Size }

// static returns the number of ports at the start that form the lower band.
func (r PortRange) static() int {
	if r.Size <= 16 {
		return 0
	}
	return min(max(r.Size/32, 16), 128)
}
