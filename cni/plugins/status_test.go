//go:build linux

package plugins_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/cni"
)

func TestConfigurationIsFollowed(t *testing.T) {
	l := newLab(t, "one", "two")
	status := func(want string) {
		t.Helper()
		err := l.network.Status(t.Context())
		if want == "" && err != nil || want != "" && (!errors.Is(err, cni.ErrNotReady) || !strings.Contains(err.Error(), want)) {
			t.Errorf("Status: %v, want %q", err, want)
		}
		if _, err := l.network.Add(t.Context(), one()); (err != nil) != (want != "") {
			t.Errorf("Add: %v", err)
		}
		if err := l.network.Delete(t.Context(), one()); err != nil {
			t.Errorf("Delete: %v", err)
		}
	}
	status("no *.conflist, *.conf or *.json in " + l.conf)
	l.ran("")
	l.write("20.conf", `{"cniVersion": "1.0.0", "name": "net", "type": "two"}`)
	status("")
	l.ran("ADD two, DEL two")
	l.configure("10.conflist", `"name": "net", "cniVersion": "1.0.0"`, `{"type": "one"}`)
	status("")
	l.ran("ADD one, DEL one")
	l.write("10.conflist", `{"name": "net",`)
	status("")
	status("")
	l.ran("ADD two, DEL two, ADD two, DEL two")
	if n := strings.Count(l.log.String(), "passed over"); n != 1 || !strings.Contains(l.log.String(), "10.conflist: no JSON: line 1") {
		t.Errorf("the log says it %d times:\n%s", n, l.log)
	}
	l.configure("10.conflist", `"name": "net", "cniVersion": "1.0.0"`, `{"type": "two"}`, `{"type": "three"}`)
	missing := `plugins[1].type: no executable "three" in ` + strings.Join(l.options.BinDirs, ", ") + ": install the plugin there"
	// What nobody can run is no reason to take another network.
	status(filepath.Join(l.conf, "10.conflist") + ": " + missing)
	if err := os.WriteFile(filepath.Join(l.bin, "three"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	status(missing)                                                        // it cannot be executed
	if err := os.Chmod(filepath.Join(l.bin, "three"), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	l.order()
	status("")
	l.ran("ADD two, ADD three, DEL three, DEL two")
	l.configure("10.conflist", `"name": "net", "cniVersion": "1.0.0"`, `{"type": "two", "ipam": {"type": "five"}}`)
	status(`plugins[0].ipam.type: no executable "five"`)
}

// closing closes a file once the log says that a plugin is busy.
type closing struct {
	slog.Handler
	file *os.File
}

func (c closing) Enabled(context.Context, slog.Level) bool { return true }

func (c closing) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "is being written") {
		return c.file.Close()
	}
	return nil
}

func TestExecutableThatIsBeingWritten(t *testing.T) {
	l := newLab(t, "main")
	l.configure("10.conflist", `"name": "net", "cniVersion": "1.0.0"`, `{"type": "main"}`)
	file, err := os.OpenFile(filepath.Join(l.bin, "main"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() // for when the handler did not
	l.options.Logger = slog.New(closing{slog.DiscardHandler, file})
	l.restart()
	if _, err := l.network.Add(t.Context(), one()); err != nil {
		t.Fatal(err)
	}
	l.ran("ADD main")
}

func TestNamespaceThatIsNone(t *testing.T) {
	l := newLab(t, "main")
	l.configure("10.conflist", `"name": "net", "cniVersion": "1.0.0"`, `{"type": "main"}`)
	for _, path := range []string{"", "/does/not/exist", l.conf} {
		a := one()
		a.NetNS = path
		if _, err := l.network.Add(t.Context(), a); !errors.Is(err, cni.ErrInvalid) {
			t.Errorf("%q: %v", path, err)
		}
	}
	l.ran("")
}
