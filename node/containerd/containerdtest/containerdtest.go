// Package containerdtest gives each test a containerd of its own: tools are installed, and the daemon runs in a
// directory of the test with a bridge network and the images of pod sandboxes and of busybox. Everything is removed
// after the test, which fails if something is left.
package containerdtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/node/containerd"
	"github.com/keelson-dev/keelson/node/nodetools"
	"github.com/keelson-dev/keelson/node/ociimage"
)

// Options change what Start starts. The zero value suits most tests.
type Options struct {
	// Containerd are the daemon's options. By default, CNIConfDir is that of a bridge of the test with its own subnet,
	// CgroupRoot one of the test, and Logger the test's log. NoSync is set: tests need not survive a power failure.
	Containerd containerd.Options
	// Dir is the daemon's directory; empty means one of the test.
	Dir string
	// Archives are images to import in addition to those of the sandboxes and busybox.
	Archives []string
	// NoImages imports no images.
	NoImages bool
}

// Busybox is the image that tests may use for containers.
const Busybox = "docker.io/library/busybox:latest"

// Tools installs the tools, or skips the test where containers cannot run; with CI=true in the environment it fails
// instead.
func Tools(t testing.TB) nodetools.Tools {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := nodetools.Supported(ctx); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	tools, err := nodetools.Install(ctx, nodetools.Options{Progress: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

// Start starts a daemon and returns when it answers. It is destroyed with all its containers after the test and any
// cleanups registered later.
func Start(t testing.TB, o Options) *containerd.Daemon {
	t.Helper()
	tools := Tools(t)
	id := unique()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	c := &o.Containerd
	if c.CgroupRoot == "" {
		c.CgroupRoot = "keelson-test-" + id
	}
	c.NoSync = true
	if c.Logger == nil {
		c.Logger = slog.New(slog.NewTextHandler(logTo{t}, nil))
	}
	if c.CNIConfDir == "" {
		c.CNIConfDir = Bridge(t, t.TempDir())
	}
	d, err := containerd.New(o.Dir, tools, *c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { destroy(t, d) })
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := d.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if o.NoImages {
		return d
	}
	for _, archive := range append(archives(ctx, t, tools.Images), o.Archives...) {
		if _, err := d.Import(ctx, archive, nil); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func archives(ctx context.Context, t testing.TB, dir string) []string {
	var all []string
	for _, image := range []func(context.Context, string, io.Writer) (string, error){ociimage.Pause, ociimage.Busybox} {
		archive, err := image(ctx, dir, logTo{t})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, archive)
	}
	return all
}

func destroy(t testing.TB, d *containerd.Daemon) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if t.Failed() {
		if b, err := os.ReadFile(d.LogFile()); err == nil {
			t.Logf("containerd's log:\n%s", b)
		}
	}
	if err := d.Destroy(ctx); err != nil {
		t.Error(err)
	}
}

// Bridge writes the configuration of a network of the test's own below dir, a bridge with a free subnet, and removes
// the bridge after the test. All its addresses must be freed by then.
func Bridge(t testing.TB, dir string) (confDir string) {
	t.Helper()
	name := "kt" + unique()
	confDir = filepath.Join(dir, "cni")
	addresses := filepath.Join(dir, "addresses")
	if err := os.MkdirAll(confDir, 0o755); err != nil {
		t.Fatal(err)
	}
	conf := fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %q, "plugins": [
	{"type": "bridge", "bridge": %q, "isGateway": true, "hairpinMode": true,
	 "ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}`, name, name, addresses, subnet(t))
	if err := os.WriteFile(filepath.Join(confDir, "10-bridge.conflist"), []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		given, err := filepath.Glob(filepath.Join(addresses, name, "*.*.*.*"))
		if err != nil || len(given) > 0 {
			t.Errorf("addresses that were not given back: %v %v", given, err)
		}
		if _, err := net.InterfaceByName(name); err != nil {
			return // no pod was ever started
		}
		if out, err := exec.Command("ip", "link", "delete", name).CombinedOutput(); err != nil {
			t.Errorf("remove the bridge: %v: %s", err, out)
		}
	})
	return confDir
}

// subnet returns a subnet of 10.192.0.0/10 that no interface of this host is in.
func subnet(t testing.TB) netip.Prefix {
	t.Helper()
	have, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for {
		var b [2]byte
		_, _ = rand.Read(b[:]) // never fails
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 192 | b[0]&63, b[1], 0}), 24)
		free := true
		for _, a := range have {
			if other, err := netip.ParsePrefix(a.String()); err == nil && other.Overlaps(p) && other.Bits() > 0 {
				free = false
			}
		}
		if free {
			return p
		}
	}
}

func unique() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// logTo writes lines to the log of a test.
type logTo struct{ t testing.TB }

func (l logTo) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimRight(string(b), "\n"))
	return len(b), nil
}
