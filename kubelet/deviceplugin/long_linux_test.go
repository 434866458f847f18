package deviceplugin_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/kubelet/deviceplugin"
)

// The kubelet's directory may have a path that is too long for the address of a socket: pods see it at another.
func TestLongDirectory(t *testing.T) {
	w := newWorldIn(t, filepath.Join(t.TempDir(), strings.Repeat("d", 120)), deviceplugin.Options{})
	s := w.plugin(resourceName, "a", "b")
	w.counts(resourceName, "2/2")
	one := pod("one", "main 1")
	w.admit(one, "admitted")
	equal(t, "one", w.has(one), "main DEVICES=a")
	equal(t, "calls", s.took(), "allocate a")
	other := w.serve("example.com/other", filepath.Join(w.dir, "plugins_registry", "other.sock"), "x")
	w.counts("example.com/other", "1/1")
	other.stop()
	w.counts("example.com/other", "1/0")
}
