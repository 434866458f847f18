package nftables

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// PoliceBridges has what passes between the ports of bridges in the calling thread's network namespace pass the rules as
// well, in both families. Without the kernel's module br_netfilter, or without the right to configure it, that is an
// error that is ErrBridges: policies then hold between nodes, but not between pods on one bridge.
func PoliceBridges() error {
	for _, name := range []string{"bridge-nf-call-iptables", "bridge-nf-call-ip6tables"} {
		path := "/proc/sys/net/bridge/" + name
		now, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%w: the kernel's module br_netfilter is not loaded (modprobe br_netfilter)", ErrBridges)
		case err == nil && strings.TrimSpace(string(now)) == "1":
			continue
		case err == nil:
			err = os.WriteFile(path, []byte("1"), 0) // it exists
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrBridges, err)
		}
	}
	return nil
}
