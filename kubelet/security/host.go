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

// Host is what a machine can do for the security of containers. The zero value is one that can do
// all that is asked, with a kernel of unknown version.
type Host struct {
	// AppArmor and NoNewPrivs are nil where they can be enforced, and else say why not.
	AppArmor, NoNewPrivs error
	// Kernel is the kernel's version, such as "6.1.0-18-amd64".
	Kernel string
	// MaskedPaths are hidden from containers on this machine beside those that are on any.
	MaskedPaths []string
}

// ErrNoAppArmor: the kernel does not enforce AppArmor's profiles.
var ErrNoAppArmor = errors.New("AppArmor is not enabled on the host")

// Inspect looks at a machine, whose root directory it is given (os.DirFS("/")).
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
		n, _ := strconv.Atoi(strings.TrimPrefix(path.Base(path.Dir(name)), "cpu")) // 0 where it is none
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
