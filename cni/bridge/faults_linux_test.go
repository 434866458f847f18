package bridge_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/cni"
	"github.com/keelson-dev/keelson/cni/bridge"
	"github.com/keelson-dev/keelson/cni/plugins"
	"github.com/keelson-dev/keelson/internal/nettest"
)

// faulty is a plugin after the bridge's that does as it is told, beside the reference plugins.
func (n *node) faulty(t *testing.T, shell string) {
	t.Helper()
	bin := filepath.Join(n.dir, "bin")
	text := "#!/bin/sh\ncase $CNI_COMMAND in\nADD) " + shell + ";;\nesac\n"
	config := strings.Replace(string(n.bridge.Config()), `"type": "portmap"`, `"type": "faulty"`, 1)
	if err := errors.Join(os.MkdirAll(bin, 0o755), os.WriteFile(filepath.Join(bin, "faulty"), []byte(text), 0o755)); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	if _, err := bridge.WriteFile(n.conf, []byte(config)); err != nil {
		t.Fatal(err)
	}
	n.network = plugins.New(filepath.Dir(n.conf), plugins.Options{
		BinDirs: []string{nettest.Plugins(t), bin}, StateDir: filepath.Join(n.dir, "state"), Timeout: 10 * time.Second,
	})
}

// nothingLeft fails the test when something of a pod remains.
func (n *node) nothingLeft(t *testing.T) {
	t.Helper()
	if leased := n.leased(t); len(leased) > 0 {
		t.Errorf("addresses of %v are still in use", leased)
	}
	if links := nettest.Run(t, "", "ip", "-br", "link"); strings.Contains(links, "veth") {
		t.Errorf("links left:\n%s", links)
	}
	if keys, err := n.network.Attachments(ctx(t)); len(keys) > 0 || err != nil {
		t.Errorf("attachments left: %v, %v", keys, err)
	}
}

func TestFailuresAfterTheBridgeLeaveNothing(t *testing.T) {
	dir := host(t)
	n := startNode(t, 1, bridge.Options{})
	a := cni.Attachment{ContainerID: "one", NetNS: nettest.Namespace(t, dir, "one")}

	n.faulty(t, `echo '{"code": 100, "msg": "no"}'; exit 1`)
	var failed *cni.PluginError
	if _, err := n.network.Add(ctx(t), a); !errors.As(err, &failed) || failed.Plugin != "faulty" || failed.Code != 100 {
		t.Errorf("Add: %v", err)
	}
	n.nothingLeft(t)

	n.faulty(t, `touch "${0}.hangs"; sleep 1000`)
	hanging, cancel := context.WithCancel(ctx(t))
	defer cancel()
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				if _, err := os.Stat(filepath.Join(n.dir, "bin", "faulty.hangs")); err == nil {
					cancel()
				}
			}
		}
	}()
	_, err := n.network.Add(hanging, a)
	close(stop)
	<-done
	if killed := new(cni.TimeoutError); !errors.As(err, &killed) || !errors.Is(err, context.Canceled) {
		t.Errorf("Add: %v", err)
	}
	n.nothingLeft(t)

	// And once it works, it works.
	n.faulty(t, `cat > /dev/null; echo '{"cniVersion": "1.0.0"}'`)
	if _, err := n.network.Add(ctx(t), a); err != nil {
		t.Error(err)
	}
	if err := n.network.Collect(ctx(t), nil); err != nil {
		t.Error(err)
	}
	n.nothingLeft(t)
}

func TestAddressesRunOut(t *testing.T) {
	dir := host(t)
	data := t.TempDir()
	b, err := bridge.New(prefixes("10.199.9.0/30"), bridge.Options{Bridge: "kltest9", Network: "kltest9", DataDir: data, CacheDir: data})
	if err != nil {
		t.Fatal(err)
	}
	n := start(t, b, data)
	var all []cni.Attachment
	for _, name := range []string{"one", "two"} {
		a := cni.Attachment{ContainerID: name, NetNS: nettest.Namespace(t, dir, name)}
		all = append(all, a)
		t.Cleanup(func() { n.detach(t, pod{Attachment: a}) })
	}
	if _, err := n.network.Add(ctx(t), all[0]); err != nil {
		t.Fatal(err)
	}
	var failed *cni.PluginError
	if _, err := n.network.Add(ctx(t), all[1]); !errors.As(err, &failed) || !strings.Contains(err.Error(), "no IP addresses available") {
		t.Errorf("Add without an address left: %v", err)
	}
	n.detach(t, pod{Attachment: all[0]})
	if _, err := n.network.Add(ctx(t), all[1]); err != nil {
		t.Errorf("Add with the address that was given back: %v", err)
	}
}

func TestFullDisk(t *testing.T) {
	dir := host(t)
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	b, err := bridge.New(prefixes("10.199.9.0/24"), bridge.Options{Bridge: "kltest9", Network: "kltest9", DataDir: disk, CacheDir: disk})
	if err != nil {
		t.Fatal(err)
	}
	n := start(t, b, t.TempDir())
	bins := nettest.Plugins(t)
	for _, test := range []struct{ name, state string }{
		{"everything on it", filepath.Join(disk, "state")}, {"the addresses on it", t.TempDir()},
	} {
		n.network = plugins.New(filepath.Dir(n.conf), plugins.Options{BinDirs: []string{bins}, StateDir: test.state})
		a := cni.Attachment{ContainerID: "one", NetNS: nettest.Namespace(t, dir, filepath.Base(t.TempDir()))}
		filler := filepath.Join(disk, "filler")
		if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("the disk takes more than it has: %v", err)
		}
		if _, err := n.network.Add(ctx(t), a); err == nil || !strings.Contains(err.Error(), "no space left on device") {
			t.Errorf("%s: Add: %v", test.name, err)
		}
		n.nothingLeft(t)
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		if _, err := n.network.Add(ctx(t), a); err != nil {
			t.Errorf("%s: Add with room again: %v", test.name, err)
		}
		n.detach(t, pod{Attachment: a})
		n.nothingLeft(t)
	}
}
