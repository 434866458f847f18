// Package nettest is what the tests of networks share: plugins, namespaces, and TCP connections with known content,
// since a connection alone proves nothing.
package nettest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/cni/netns"
	"github.com/keelson-dev/keelson/node/nodetools"
)

// patience is far more than anything here should take.
const patience = 20 * time.Second

// Plugins returns the directory of the reference plugins. Where real networks cannot be created the test is skipped; in
// CI it fails.
func Plugins(t testing.TB) string {
	t.Helper()
	lacks := func(what string) {
		t.Helper()
		if os.Getenv("CI") == "true" {
			t.Fatal(what)
		}
		t.Skip(what)
	}
	if os.Getuid() != 0 {
		lacks("networks need root")
	}
	for _, name := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(name); err != nil {
			lacks(err.Error())
		}
	}
	tools, err := nodetools.Find(nodetools.Options{})
	if err != nil {
		lacks(err.Error())
	}
	return tools.CNI
}

// Host moves the test into a network namespace that stands in for a host: commands and sockets that the test's own
// goroutine opens from now on are in it, until the last clean-up function. So tests neither affect nor see the rest of
// the machine, and leftovers are the test's own.
func Host(t testing.TB) {
	t.Helper()
	runtime.LockOSThread() // and never unlocked: the thread ends with the test's goroutine
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	Run(t, "", "ip", "link", "set", "dev", "lo", "up")
}

// HostPath is the path of Host's namespace, for other goroutines.
func HostPath() string { return fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid()) }

// Outside creates a namespace that stands in for the world beyond the host: it has a route to the host's address, but
// none to the pods. It returns its path and both addresses.
func Outside(t testing.TB, dir string) (ns string, host, outside netip.Addr) {
	t.Helper()
	ns = Namespace(t, dir, "outside")
	Run(t, "", "ip", "link", "add", "uplink0", "type", "veth", "peer", "name", "world0", "netns", ns)
	Run(t, "", "ip", "address", "add", "192.0.2.1/24", "dev", "uplink0")
	Run(t, "", "ip", "link", "set", "dev", "uplink0", "up")
	Run(t, ns, "ip", "address", "add", "192.0.2.2/24", "dev", "world0")
	Run(t, ns, "ip", "link", "set", "dev", "world0", "up")
	t.Cleanup(func() { Run(t, "", "ip", "link", "delete", "dev", "uplink0") })
	return ns, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
}

// Census returns all links, addresses, routes and rules of a host, for comparison.
func Census(t testing.TB) string {
	t.Helper()
	var all strings.Builder
	for _, command := range []string{
		"ip -o link show", "ip -o address show", "ip route show table all", "ip -6 route show table all", "nft list ruleset",
	} {
		all.WriteString("# " + command + "\n" + Run(t, "", strings.Fields(command)...))
	}
	return regexp.MustCompile(`(expires|valid_lft|preferred_lft) \S+`).ReplaceAllString(all.String(), "")
}

// Dir is a directory for namespaces that the test framework does not remove by itself: it would fail on what is still
// mounted.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "keelson-cni-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Errorf("namespaces left behind: %v", err)
		}
	})
	return dir
}

// Namespace creates a namespace that is removed at the end of the test.
func Namespace(t testing.TB, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := netns.Create(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.Remove(path); err != nil {
			t.Error(err)
		}
	})
	return path
}

// Run runs a command, in the namespace unless it is empty.
func Run(t testing.TB, ns string, command ...string) string {
	t.Helper()
	if ns != "" {
		command = append([]string{"nsenter", "--net=" + ns}, command...)
	}
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), command[0], command[1:]...).CombinedOutput() //nolint:gosec // the tests' own commands
	if err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
	return string(out)
}

// Serve listens at the address inside the namespace until the test ends and sends every client its name and the
// client's address. It returns the address.
func Serve(t testing.TB, ns, address, name string) string {
	t.Helper()
	var l net.Listener
	within(t, ns, func() (err error) {
		l, err = net.Listen("tcp", address)
		return err
	})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			_, _ = fmt.Fprintf(c, "%s to %s", name, strings.TrimPrefix(host, "::ffff:"))
			_ = c.Close()
		}
	})
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	return l.Addr().String()
}

// Greeting is what a server sends to a client with the address.
func Greeting(name string, from netip.Addr) string {
	return fmt.Sprintf("%s to %s", name, from)
}

// Fetch returns what the server at the address sends to the namespace.
func Fetch(t testing.TB, ns, address string) (string, error) {
	t.Helper()
	var c net.Conn
	dial := func() (err error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		c, err = (&net.Dialer{}).DialContext(ctx, "tcp", address)
		return err
	}
	inside := dial
	if ns != "" {
		inside = func() error { return netns.Do(ns, dial) }
	}
	if err := inside(); err != nil {
		return "", err
	}
	defer c.Close() //nolint:errcheck // it is only read
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	said, err := io.ReadAll(c)
	return string(said), err
}

// Hears fails the test unless the server at the address sends this to the namespace.
func Hears(t testing.TB, ns, address, want string) {
	t.Helper()
	if got, err := Fetch(t, ns, address); err != nil || got != want {
		t.Errorf("%s: got %q, %v; want %q", address, got, err, want)
	}
}

func within(t testing.TB, ns string, f func() error) {
	t.Helper()
	if ns != "" {
		outside := f
		f = func() error { return netns.Do(ns, outside) }
	}
	if err := f(); err != nil {
		t.Fatal(err)
	}
}
