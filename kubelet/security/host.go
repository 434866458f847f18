package security

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Host describes what a machine supports for the security of containers. The zero value supports everything, with a
// kernel of unknown version.
type Host struct {
	// AppArmor and NoNewPrivs are nil if they can be enforced; otherwise they say why not.
	AppArmor, NoNewPrivs error
	// Kernel is the kernel's version, such as "6.1.0-18-amd64".
	Kernel string
	// MaskedPaths are hidden from containers on this machine, in addition to those on every machine.
	MaskedPaths []string
}

// ErrNoAppArmor means that the kernel does not enforce AppArmor profiles.
var ErrNoAppArmor = errors.New("AppArmor is not enabled on the host")

// Inspect inspects the machine with this root directory, usually os.DirFS("/").
func Inspect(root fs.FS) Host {
	host := Host{Kernel: read(root, "proc/sys/kernel/osrelease")}
	_, err := fs.Stat(root, "sys/kernel/security/apparmor")
	if err != nil || !strings.HasPrefix(read(root, "sys/module/apparmor/parameters/enabled"), "Y") {
		host.AppArmor = ErrNoAppArmor
	}
	const pattern = "sys/devices/system/cpu/cpu[0-9]*/thermal_throttle"
	found, err := fs.Glob(root, pattern)
	if err != nil {
		return host
	}
	number := func(name string) int {
		n, _ := strconv.Atoi(strings.TrimPrefix(path.Base(path.Dir(name)), "cpu")) // 0 if invalid
		return n
	}
	slices.SortFunc(found, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	for _, name := range found {
		host.MaskedPaths = append(host.MaskedPaths, "/"+name)
	}
	return host
}

func read(root fs.FS, name string) string {
	data, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
