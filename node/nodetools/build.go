package nodetools

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/internal/atomicfile"
)

// build is one go build: packages with the same flags share one, so that common dependencies are compiled once.
type build struct {
	// Into is the directory below the tools' one.
	Into     string
	Packages []string
	CGO      bool
	Tags     string
	LDFlags  string
}

const pluginPath = "github.com/containernetworking/plugins/plugins/"

// builds are all programs with their flags. They are part of the stamp: a change here rebuilds.
func builds(version string) []build {
	const small = "-s -w" // no symbols: a third less to map at every start of a shim
	// Without unused snapshotters and trace exporters.
	const tags = "no_btrfs no_devmapper no_zfs no_tracing urfave_cli_no_docs netgo osusergo"
	const ctrd = "github.com/containerd/containerd/v2"
	daemon := small + " -X " + ctrd + "/version.Version=" + version
	var cni []string
	for _, dir := range []string{"main/bridge", "main/loopback", "ipam/host-local", "meta/bandwidth", "meta/firewall", "meta/portmap"} {
		cni = append(cni, pluginPath+dir)
	}
	return []build{
		{Packages: []string{ctrd + "/cmd/containerd", ctrd + "/cmd/ctr"}, Tags: tags, LDFlags: daemon},
		// One shim runs for every pod, and two more to start and to clean up: without gRPC it has half the size and
		// starts in two thirds of the time.
		{Packages: []string{ctrd + "/cmd/containerd-shim-runc-v2"}, Tags: "no_grpc " + tags, LDFlags: daemon},
		{Into: "cni", Packages: cni, Tags: tags, LDFlags: small},
		// runc enters namespaces in C before Go starts and needs libseccomp. It is static, because it is executed
		// several times for every container, and the dynamic loader would add its time to each.
		{Packages: []string{"github.com/opencontainers/runc"}, CGO: true, Tags: "seccomp " + tags, LDFlags: small + " -linkmode external -extldflags -static"},
	}
}

func plugins() []string {
	return []string{"bandwidth", "bridge", "firewall", "host-local", "loopback", "portmap"}
}

// stamp records what the tools were built from.
type stamp struct {
	Source string            // hash of the pinned versions and the flags
	Files  map[string]string // size and time of each program
}

// The module of tools/node pins the versions. It is a module of its own, so it cannot be embedded.
//
//go:embed pinned.mod pinned.sum
var pinned embed.FS

// pins are the files of the module.
func pins() (mod, sum []byte, err error) {
	mod, err = pinned.ReadFile("pinned.mod")
	if err != nil {
		return nil, nil, err
	}
	sum, err = pinned.ReadFile("pinned.sum")
	return mod, sum, err
}

// source hashes everything that determines the programs.
func source() (string, error) {
	mod, sum, err := pins()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	h.Write(mod)
	h.Write(sum)
	b, err := json.Marshal(builds(""))
	if err != nil {
		return "", fmt.Errorf("encode the flags: %w", err)
	}
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil)), nil
}

// containerdVersion is the pinned version, which the daemon reports: go build -trimpath does not record it.
func containerdVersion(mod []byte) (string, error) {
	for line := range strings.Lines(string(mod)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "github.com/containerd/containerd/v2" {
			return f[1], nil
		}
	}
	return "", fmt.Errorf("no containerd is pinned: %w", ErrMissing)
}

// module writes the module to build from, and returns the function to remove it.
func module(bin string) (dir string, remove func(), err error) {
	mod, sum, err := pins()
	if err != nil {
		return "", nil, err
	}
	if dir, err = os.MkdirTemp(bin, ".module-"); err != nil {
		return "", nil, err
	}
	err = errors.Join(os.WriteFile(filepath.Join(dir, "go.mod"), mod, 0o600), os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o600))
	return dir, func() { _ = os.RemoveAll(dir) }, err
}

// identify recognizes a program without reading it.
func identify(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return "", fmt.Errorf("%s is no program: %s", path, info.Mode())
	}
	return fmt.Sprintf("%d %s", info.Size(), info.ModTime().UTC().Format(time.RFC3339Nano)), nil
}

func newStamp(source string, files []string) (stamp, error) {
	s := stamp{Source: source, Files: map[string]string{}}
	for _, path := range files {
		id, err := identify(path)
		if err != nil {
			return stamp{}, err
		}
		s.Files[filepath.Base(path)] = id
	}
	return s, nil
}

// current lists what is outdated in bin, or nothing.
func current(bin string) ([]string, error) {
	want, err := source()
	if err != nil {
		return nil, err
	}
	var have stamp
	b, _ := os.ReadFile(filepath.Join(bin, "stamp.json")) // none is no JSON
	if json.Unmarshal(b, &have) != nil {
		return []string{"no complete build in " + bin}, nil //nolint:nilerr // that is the answer
	}
	if have.Source != want {
		return []string{"what is in " + bin + " is of other versions than are pinned here"}, nil
	}
	var wrong []string
	for _, path := range At(bin).files() {
		if id, err := identify(path); err != nil || have.Files[filepath.Base(path)] != id {
			wrong = append(wrong, path)
		}
	}
	return wrong, nil
}

// compile builds everything into bin and stamps it. Running programs are replaced, not overwritten.
func compile(ctx context.Context, bin string, progress func(string)) error {
	want, err := source()
	if err != nil {
		return err
	}
	from, remove, err := module(bin)
	if err != nil {
		return fmt.Errorf("write the module to build from: %w", err)
	}
	defer remove()
	if err := os.Remove(filepath.Join(bin, "stamp.json")); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("remove the stamp: %w", err)
	}
	mod, _, err := pins()
	if err != nil {
		return err
	}
	version, err := containerdVersion(mod)
	if err != nil {
		return err
	}
	for _, b := range builds(version) {
		start := time.Now()
		var names []string
		for _, p := range b.Packages {
			names = append(names, filepath.Base(strings.TrimSuffix(p, "/v2")))
		}
		progress("building " + strings.Join(names, ", "))
		if err := b.run(ctx, from, bin); err != nil {
			return fmt.Errorf("build %s: %w", strings.Join(names, ", "), err)
		}
		progress(fmt.Sprintf("built %s in %s", strings.Join(names, ", "), time.Since(start).Round(100*time.Millisecond)))
	}
	s, err := newStamp(want, At(bin).files())
	if err != nil {
		return fmt.Errorf("look at what was built: %w", err)
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the stamp: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(bin, "stamp.json"), text, 0o644); err != nil {
		return fmt.Errorf("write the stamp: %w", err)
	}
	return nil
}

func (b build) run(ctx context.Context, from, bin string) error {
	into := filepath.Join(bin, b.Into)
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	args := append([]string{"build", "-C", from, "-trimpath", "-buildvcs=false",
		"-tags", b.Tags, "-ldflags", b.LDFlags, "-o", into + "/"}, b.Packages...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cgo := "CGO_ENABLED=0"
	if b.CGO {
		cgo = "CGO_ENABLED=1"
	}
	cmd.Env = append(os.Environ(), cgo, "GOWORK=off", "GOFLAGS=")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w\n%s", err, tail(out.String(), 4000))
	}
	return nil
}

// tail is the end of a text, where the errors are.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "…" + s[len(s)-n:]
}
