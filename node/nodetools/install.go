package nodetools

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/keelson-dev/keelson/node/filelock"
)

// Options change what Install and Find do. The zero value suits a program that runs from a checkout of this repository.
type Options struct {
	// Dir is the tools' directory. Empty is bin/node of the checkout that the working directory is in.
	Dir string
	// Progress receives messages, a line at a time, from the calling goroutine; nil discards.
	Progress func(line string)
	// NoPackages never installs packages of the operating system: missing ones are an error.
	NoPackages bool
}

func (o Options) progress() func(string) {
	if o.Progress == nil {
		return func(string) {}
	}
	return o.Progress
}

// Install installs missing packages, builds what is not current and returns the paths. It is safe to call from several
// processes at once. When ctx ends, so does Install; the next call reuses the work done. The error is ErrMissing when
// packages are missing and cannot be installed here.
func Install(ctx context.Context, o Options) (Tools, error) {
	bin, _, err := o.place()
	if err != nil {
		return Tools{}, err
	}
	if wrong, err := current(bin); err != nil || len(wrong) == 0 && len(missingPackages(true)) == 0 {
		return At(bin), err
	}
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return Tools{}, fmt.Errorf("make %s: %w", bin, err)
	}
	unlock, err := filelock.Take(ctx, filepath.Join(bin, "lock"), func() { o.progress()("waiting for another process that installs the tools") })
	if err != nil {
		return Tools{}, err
	}
	defer unlock()
	wrong, err := current(bin) // another process may have been faster
	if err != nil {
		return Tools{}, err
	}
	if err := o.packages(ctx, len(wrong) > 0); err != nil {
		return Tools{}, err
	}
	if len(wrong) > 0 {
		if err := compile(ctx, bin, o.progress()); err != nil {
			return Tools{}, err
		}
	}
	return At(bin), nil
}

// Find returns the tools if all of them exist and are current, and else a MissingError.
func Find(o Options) (Tools, error) {
	bin, next, err := o.place()
	if err != nil {
		return Tools{}, err
	}
	wrong, err := current(bin)
	if err != nil {
		return Tools{}, err
	}
	for _, p := range missingPackages(true) {
		wrong = append(wrong, "Debian's package "+p)
	}
	if len(wrong) > 0 {
		return At(bin), &MissingError{wrong, next}
	}
	return At(bin), nil
}

const moduleLine = "module github.com/keelson-dev/keelson"

// place returns the tools' directory, and what to do if they are missing.
func (o Options) place() (bin, next string, err error) {
	if o.Dir != "" {
		bin, err = filepath.Abs(o.Dir)
		return bin, "install them into " + bin, err
	}
	root, err := findRoot()
	return filepath.Join(root, "bin", "node"), "`make node-tools` in " + root + " installs them", err
}

// findRoot walks up to the go.mod of this module.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for at := dir; ; at = filepath.Dir(at) {
		b, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if first, _, _ := strings.Cut(string(b), "\n"); err == nil && strings.TrimSpace(first) == moduleLine {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", &MissingError{[]string{"a checkout of keelson at or above " + dir}, "run this in one, or name a directory to build into"}
		}
	}
}

// need is a file that a Debian package provides.
type need struct {
	pkg   string
	any   []string // one of these paths or, without a slash, a program in PATH
	build bool     // needed only to build
}

// needs are what containers need from the operating system besides the kernel.
func needs() []need {
	return []need{
		{"gcc", []string{"gcc", "cc"}, true},
		{"libc6-dev", []string{"/usr/include/stdio.h"}, true},
		{"pkg-config", []string{"pkg-config"}, true},
		{"libseccomp-dev", []string{"/usr/include/seccomp.h"}, true},
		{"iptables", []string{"iptables", "/usr/sbin/iptables"}, false}, // bridge with ipMasq, portmap, firewall
		{"nftables", []string{"nft", "/usr/sbin/nft"}, false},           // the same with their other backend
		{"iproute2", []string{"ip", "/usr/sbin/ip"}, false},             // checks of the node and by hand
	}
}

// missingPackages returns the packages none of whose files exists.
func missingPackages(installed bool) []string {
	var missing []string
	for _, n := range needs() {
		if n.build && installed {
			continue
		}
		found := false
		for _, f := range n.any {
			if strings.Contains(f, "/") {
				_, err := os.Stat(f)
				found = found || err == nil
			} else {
				_, err := exec.LookPath(f)
				found = found || err == nil
			}
		}
		if !found {
			missing = append(missing, n.pkg)
		}
	}
	return missing
}

// packages installs what is missing; building needs more.
func (o Options) packages(ctx context.Context, build bool) error {
	missing := missingPackages(!build)
	if len(missing) == 0 {
		return nil
	}
	byHand := &MissingError{missing, "as root: apt-get install " + strings.Join(missing, " ") + " (or what your system calls these)"}
	if _, err := exec.LookPath("apt-get"); o.NoPackages || err != nil || os.Geteuid() != 0 {
		return byHand
	}
	o.progress()("installing " + strings.Join(missing, ", "))
	install := append([]string{"install", "-y", "-qq", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"}, missing...)
	first := aptGet(ctx, install)
	if first == nil {
		return nil
	}
	// The lists may be missing or old.
	if err := aptGet(ctx, []string{"update", "-qq"}); err != nil {
		return errors.Join(byHand, first, err)
	}
	if err := aptGet(ctx, install); err != nil {
		return errors.Join(byHand, err)
	}
	return nil
}

func aptGet(ctx context.Context, args []string) error {
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, tail(string(out), 2000))
	}
	return nil
}
