package plugins_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/keelson-dev/keelson/cni"
	"github.com/keelson-dev/keelson/cni/plugins"
)

// A network follows its directory. That nothing is configured yet is told by Status, and what is
// wrong with a configuration is named.
func Example() {
	dir, err := os.MkdirTemp("", "net.d-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	network := plugins.New(dir, plugins.Options{BinDirs: []string{"/opt/none"}, StateDir: filepath.Join(dir, "state")})
	status := func() {
		err := network.Status(context.Background())
		var wrong *cni.ConfigError
		if errors.As(err, &wrong) {
			fmt.Println(filepath.Base(wrong.File), wrong.Field, wrong.Reason)
			return
		}
		fmt.Println(errors.Is(err, cni.ErrNoConfig))
	}
	status()
	for _, text := range []string{`{"name": "net", "plugins": [{}]}`, `{"name": "net", "plugins": [{"type": "bridge"}]}`} {
		if err := os.WriteFile(filepath.Join(dir, "10-net.conflist"), []byte(text), 0o600); err != nil {
			fmt.Println(err)
		}
		status()
	}
	// Output:
	// true
	// 10-net.conflist plugins[0].type names no plugin
	// 10-net.conflist plugins[0].type no executable "bridge" in /opt/none: install the plugin there
}
