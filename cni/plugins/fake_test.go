//go:build unix

package plugins_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/cni"
	"github.com/keelson-dev/keelson/cni/bridge"
	"github.com/keelson-dev/keelson/cni/plugins"
)

// script is a plugin that notes what it is told, and does what stands beside it.
const script = `#!/bin/sh
name=${0##*/}
dir=${0%/*}
echo "$CNI_COMMAND $name" >> "$dir/order"
cat > "$dir/$CNI_COMMAND-$name.json"
env > "$dir/$CNI_COMMAND-$name.env"
if [ -f "$0.do" ]; then . "$0.do"; fi
case $CNI_COMMAND in
ADD) echo '{"cniVersion": "1.0.0",
	"interfaces": [{"name": "veth1"}, {"name": "'$CNI_IFNAME'", "mac": "0a:58:01:02:03:04", "sandbox": "'$CNI_NETNS'"}],
	"ips": [{"address": "10.1.2.1/24", "interface": 0}, {"address": "10.1.2.3/24", "gateway": "10.1.2.1", "interface": 1}, {"address": "fd00::3/64", "interface": 1}],
	"routes": [{"dst": "0.0.0.0/0", "gw": "10.1.2.1"}],
	"dns": {"nameservers": ["10.96.0.10"], "search": ["svc.cluster.local"]}}' ;;
VERSION) echo '{"cniVersion": "1.0.0", "supportedVersions": ["0.4.0", "1.0.0", "1.1.0"]}' ;;
esac
`

// someNamespace can be entered as far as anybody looks: the test's own.
const someNamespace = "/proc/self/ns/net"

// lab is a Network over fake plugins.
type lab struct {
	t       *testing.T
	conf    string
	bin     string
	options plugins.Options
	log     *strings.Builder
	network *plugins.Network
}

func newLab(t *testing.T, names ...string) *lab {
	t.Helper()
	dir := t.TempDir()
	l := &lab{t: t, conf: filepath.Join(dir, "net.d"), bin: filepath.Join(dir, "bin"), log: &strings.Builder{}}
	for _, name := range names {
		l.install(name)
	}
	l.options = plugins.Options{
		BinDirs: []string{filepath.Join(dir, "none"), l.bin}, StateDir: filepath.Join(dir, "state"), NoLoopback: true,
		Logger: slog.New(slog.NewTextHandler(l.log, nil)),
	}
	l.restart()
	return l
}

// restart is a new Network over what the last one has left.
func (l *lab) restart() { l.network = plugins.New(l.conf, l.options) }

func (l *lab) install(name string) {
	l.t.Helper()
	if err := os.MkdirAll(l.bin, 0o755); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(l.bin, name), []byte(script), 0o755); err != nil { //nolint:gosec // it is a program
		l.t.Fatal(err)
	}
}

// do has a plugin do more than to note what it is told; an empty text ends that.
func (l *lab) do(name, shell string) {
	l.t.Helper()
	if err := os.WriteFile(filepath.Join(l.bin, name+".do"), []byte(shell+"\n"), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// configure writes a configuration: the list's fields besides its plugins, and the plugins.
func (l *lab) configure(file, head string, entries ...string) {
	l.t.Helper()
	l.write(file, fmt.Sprintf(`{%s, "plugins": [%s]}`, head, strings.Join(entries, ", ")))
}

func (l *lab) write(file, text string) {
	l.t.Helper()
	if _, err := bridge.WriteFile(filepath.Join(l.conf, file), []byte(text)); err != nil {
		l.t.Fatal(err)
	}
}

// order is what ran since the last call.
func (l *lab) order() string {
	l.t.Helper()
	path := filepath.Join(l.bin, "order")
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.t.Fatal(err)
	}
	_ = os.Remove(path)
	return strings.Join(strings.Split(strings.TrimSpace(string(data)), "\n"), ", ")
}

func (l *lab) ran(want string) {
	l.t.Helper()
	if got := l.order(); got != want {
		l.t.Errorf("ran %q, want %q", got, want)
	}
}

// input is what a plugin read.
func (l *lab) input(call string) map[string]any {
	l.t.Helper()
	data, err := os.ReadFile(filepath.Join(l.bin, call+".json"))
	if err != nil {
		l.t.Fatal(err)
	}
	var input map[string]any
	if err := json.Unmarshal(data, &input); err != nil {
		l.t.Fatal(err)
	}
	return input
}

// environment is a variable that a plugin saw.
func (l *lab) environment(call, name string) string {
	l.t.Helper()
	data, err := os.ReadFile(filepath.Join(l.bin, call+".env"))
	if err != nil {
		l.t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), name+"="); ok {
			return value
		}
	}
	return "(none)"
}

// left are the attachments on record.
func (l *lab) left(want ...string) {
	l.t.Helper()
	keys, err := l.network.Attachments(l.t.Context())
	if got := fmt.Sprint(keys); err != nil || got != fmt.Sprint(want) {
		l.t.Errorf("attachments %s, %v; want %v", got, err, want)
	}
}

func one() cni.Attachment {
	return cni.Attachment{ContainerID: "one", NetNS: someNamespace, Pod: cni.Pod{Namespace: "default", Name: "web-1", UID: "u-1"}}
}
