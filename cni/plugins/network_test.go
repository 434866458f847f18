//go:build linux

package plugins_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/cni"
	"github.com/keelson-dev/keelson/cni/plugins"
)

func TestPluginsAreToldWhatTheyDeclare(t *testing.T) {
	l := newLab(t, "main", "ports")
	l.configure("10.conflist", `"name": "net", "cniVersion": "1.0.0"`,
		`{"type": "main", "capabilities": {"bandwidth": true, "dns": true, "ipRanges": true, "ips": true, "mac": true, "cgroupPath": true, "portMappings": false}}`,
		`{"type": "ports", "capabilities": {"portMappings": true, "io.kubernetes.cri.pod-annotations": true}}`)
	a := one()
	a.PortMappings = []cni.PortMapping{{HostPort: 8080, ContainerPort: 80}, {HostPort: 53, ContainerPort: 5353, Protocol: "UDP", HostIP: netip.MustParseAddr("192.0.2.1")}}
	a.Bandwidth = cni.Bandwidth{IngressRate: 1000, EgressRate: 2000, EgressBurst: 3000}
	a.DNS = cni.DNS{Nameservers: []string{"10.96.0.10"}, Search: []string{"a.b"}, Options: []string{"ndots:5"}}
	a.IPRanges = [][]cni.IPRange{{{Subnet: netip.MustParsePrefix("10.1.0.0/16"), RangeStart: netip.MustParseAddr("10.1.2.0")}}}
	a.IPs, a.MAC, a.CgroupPath = []netip.Prefix{netip.MustParsePrefix("10.1.2.3/24")}, "0a:58:01:02:03:04", "/kubepods/pod1"
	a.Annotations, a.Args = map[string]string{"k": "v"}, map[string]string{"Z": "1", "A": "2"}

	got, err := l.network.Add(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	want := cni.Result{
		Interfaces: []cni.Interface{{Name: "veth1"}, {Name: "eth0", MAC: "0a:58:01:02:03:04", Sandbox: someNamespace}},
		IPs: []cni.IP{
			{Address: netip.MustParsePrefix("10.1.2.1/24")},
			{Address: netip.MustParsePrefix("10.1.2.3/24"), Gateway: netip.MustParseAddr("10.1.2.1"), Interface: 1},
			{Address: netip.MustParsePrefix("fd00::3/64"), Interface: 1},
		},
		Routes: []cni.Route{{Destination: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr("10.1.2.1")}},
		DNS:    cni.DNS{Nameservers: []string{"10.96.0.10"}, Search: []string{"svc.cluster.local"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("result\n%+v, want\n%+v", got, want)
	}
	if ips := got.PodIPs(); len(ips) != 2 || ips[0].String() != "10.1.2.3" || ips[1].String() != "fd00::3" {
		t.Errorf("addresses of the pod: %v", ips)
	}
	l.ran("ADD main, ADD ports")
	for name, value := range map[string]string{
		"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "one", "CNI_NETNS": someNamespace, "CNI_IFNAME": "eth0", "CNI_PATH": strings.Join(l.options.BinDirs, ":"),
		"CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-1;K8S_POD_INFRA_CONTAINER_ID=one;K8S_POD_UID=u-1;A=2;Z=1",
	} {
		if got := l.environment("ADD-main", name); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	main, ports := l.input("ADD-main"), l.input("ADD-ports")
	if main["name"] != "net" || main["cniVersion"] != "1.0.0" || main["prevResult"] != nil || ports["prevResult"] == nil {
		t.Errorf("inputs %v and %v", main, ports)
	}
	if got, want := main["runtimeConfig"], any(map[string]any{
		"bandwidth": map[string]any{"ingressRate": 1000., "ingressBurst": 4294967295., "egressRate": 2000., "egressBurst": 3000.},
		"dns":       map[string]any{"servers": []any{"10.96.0.10"}, "searches": []any{"a.b"}, "options": []any{"ndots:5"}},
		"ipRanges":  []any{[]any{map[string]any{"subnet": "10.1.0.0/16", "rangeStart": "10.1.2.0"}}},
		"ips":       []any{"10.1.2.3/24"}, "mac": "0a:58:01:02:03:04", "cgroupPath": "/kubepods/pod1",
	}); !reflect.DeepEqual(got, want) {
		t.Errorf("runtimeConfig of main\n%v, want\n%v", got, want)
	}
	if got, want := ports["runtimeConfig"], any(map[string]any{
		"portMappings": []any{
			map[string]any{"hostPort": 8080., "containerPort": 80., "protocol": "tcp"},
			map[string]any{"hostPort": 53., "containerPort": 5353., "protocol": "udp", "hostIP": "192.0.2.1"},
		},
		"io.kubernetes.cri.pod-annotations": map[string]any{"k": "v"},
	}); !reflect.DeepEqual(got, want) {
		t.Errorf("runtimeConfig of ports\n%v, want\n%v", got, want)
	}

	if err := l.network.Check(t.Context(), a); err != nil {
		t.Error(err)
	}
	l.ran("CHECK main, CHECK ports")
	// Only the key is needed: what else was said is on record.
	if err := l.network.Delete(t.Context(), cni.Attachment{ContainerID: "one"}); err != nil {
		t.Error(err)
	}
	l.ran("DEL ports, DEL main")
	if in := l.input("DEL-ports"); in["prevResult"] == nil || in["runtimeConfig"] == nil || l.environment("DEL-ports", "CNI_ARGS") != l.environment("ADD-ports", "CNI_ARGS") {
		t.Errorf("DEL was told %v", in)
	}
	l.left()
}

func TestPluginFailure(t *testing.T) {
	for _, test := range []struct {
		name, do string
		want     cni.PluginError
		is       error
	}{
		{"report", `if [ $CNI_COMMAND = ADD ]; then echo '{"code": 7, "msg": "bad config", "details": "no subnet"}'; exit 1; fi`,
			cni.PluginError{Code: 7, Message: "bad config", Details: "no subnet"}, nil},
		{"try again", `if [ $CNI_COMMAND = ADD ]; then echo '{"code": 11, "msg": "busy"}'; exit 1; fi`,
			cni.PluginError{Code: 11, Message: "busy"}, cni.ErrTryAgain},
		{"not available", `if [ $CNI_COMMAND = ADD ]; then echo '{"code": 50, "msg": "daemon is down"}'; exit 1; fi`,
			cni.PluginError{Code: 50, Message: "daemon is down"}, cni.ErrNotReady},
		{"standard error", `if [ $CNI_COMMAND = ADD ]; then echo "boom" >&2; exit 3; fi`,
			cni.PluginError{Message: "exit status 3", Details: "boom"}, nil},
		{"no report", `if [ $CNI_COMMAND = ADD ]; then echo "boom"; exit 3; fi`,
			cni.PluginError{Message: "exit status 3", Details: `it wrote "boom"`}, nil},
		{"killed", `if [ $CNI_COMMAND = ADD ]; then kill -9 $$; fi`,
			cni.PluginError{Message: "signal: killed"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t, "main", "second")
			l.configure("10.conflist", `"name": "net", "cniVersion": "1.0.0"`, `{"type": "main"}`, `{"type": "second"}`)
			l.do("second", test.do)
			_, err := l.network.Add(t.Context(), one())
			var got *cni.PluginError
			test.want.Plugin, test.want.Command = "second", "ADD"
			if !errors.As(err, &got) || *got != test.want {
				t.Errorf("Add: %v, want %v", err, &test.want)
			}
			if test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("%v is not %v", err, test.is)
			}
			l.ran("ADD main, ADD second, DEL second, DEL main")
			l.left()
		})
	}
}

func TestPluginThatReturnsNonsense(t *testing.T) {
	for name, output := range map[string]string{"no JSON": "hello", "nothing": "", "bad address": `{"cniVersion": "1.0.0", "ips": [{"address": "10.1.2.3"}]}`, "version": `{"cniVersion": "7.0.0"}`} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, "main")
			l.configure("10.conflist", `"name": "net", "cniVersion": "1.0.0"`, `{"type": "main"}`)
			l.do("main", `if [ $CNI_COMMAND = ADD ]; then echo '`+output+`'; exit 0; fi`)
			if r, err := l.network.Add(t.Context(), one()); err == nil {
				t.Errorf("Add: %+v", r)
			}
			l.ran("ADD main, DEL main")
			l.left()
		})
	}
}

// hang starts a child and waits forever, both noted by their process ids.
const hang = `sleep 1000 & echo $! > "$dir/child"; echo $$ > "$dir/hangs"; wait`

// waitFor waits until the file has a number and returns it.
func (l *lab) waitFor(name string) int {
	l.t.Helper()
	for tick := time.NewTicker(time.Millisecond); ; {
		data, err := os.ReadFile(filepath.Join(l.bin, name))
		if pid, bad := strconv.Atoi(strings.TrimSpace(string(data))); err == nil && bad == nil {
			tick.Stop()
			return pid
		}
		select {
		case <-tick.C:
		case <-l.t.Context().Done():
			l.t.Fatal("waited for " + name)
		}
	}
}

// ended waits until the process is gone or a corpse that only its new parent has to bury.
func (l *lab) ended(pid int) {
	l.t.Helper()
	for {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func TestHangingPluginIsKilledWithItsChildren(t *testing.T) {
	l := newLab(t, "main")
	l.configure("10.conflist", `"name": "net", "cniVersion": "1.0.0"`, `{"type": "main"}`)
	l.do("main", `if [ $CNI_COMMAND = ADD ]; then `+hang+`; fi`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	added := make(chan error, 1)
	go func() {
		_, err := l.network.Add(ctx, one())
		added <- err
	}()
	l.waitFor("hangs")
	cancel()
	err := <-added
	var timeout *cni.TimeoutError
	if !errors.Is(err, context.Canceled) || !errors.As(err, &timeout) || timeout.Plugin != "main" || timeout.Command != "ADD" {
		t.Errorf("Add: %v", err)
	}
	l.ended(l.waitFor("child"))
	l.ended(l.waitFor("hangs"))
	l.ran("ADD main, DEL main")
	l.left()
}

func TestTimeout(t *testing.T) {
	l := newLab(t, "main")
	l.options.Timeout, l.options.Cleanup = 300*time.Millisecond, 200*time.Millisecond
	l.restart()
	l.configure("10.conflist", `"name": "net", "cniVersion": "1.1.0"`, `{"type": "main"}`)
	l.do("main", hang)
	if err := l.network.Status(t.Context()); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, cni.ErrNotReady) {
		t.Errorf("Status: %v", err)
	}
	if _, err := l.network.Add(t.Context(), one()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Add: %v", err)
	}
	l.left("one/eth0") // DEL hung, too
	if err := l.network.Delete(t.Context(), one()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Delete: %v", err)
	}
	l.left("one/eth0")
	l.do("main", "")
	l.order()
	if err := l.network.Delete(t.Context(), one()); err != nil {
		t.Error(err)
	}
	l.ran("DEL main")
	l.left()
}

// TestCrash has another process killed in the middle of an Add.
func TestCrash(t *testing.T) {
	if dir := os.Getenv("KEELSON_CNI_CRASH"); dir != "" {
		n := plugins.New(filepath.Join(dir, "net.d"), plugins.Options{
			BinDirs: []string{filepath.Join(dir, "bin")}, StateDir: filepath.Join(dir, "state"), NoLoopback: true,
		})
		_, err := n.Add(t.Context(), one())
		t.Fatalf("Add returned: %v", err)
	}
	l := newLab(t, "main", "second")
	l.configure("10.conflist", `"name": "net", "cniVersion": "1.0.0"`, `{"type": "main"}`, `{"type": "second"}`)
	l.do("second", `if [ $CNI_COMMAND = ADD ]; then echo $$ > "$dir/hangs"; exec sleep 1000; fi`)
	crash := func() {
		t.Helper()
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		p, err := os.StartProcess(self, []string{self, "-test.run=^TestCrash$"}, &os.ProcAttr{
			Env: append(os.Environ(), "KEELSON_CNI_CRASH="+filepath.Dir(l.bin)),
		})
		if err != nil {
			t.Fatal(err)
		}
		plugin := l.waitFor("hangs")
		if err := errors.Join(p.Kill(), os.Remove(filepath.Join(l.bin, "hangs"))); err != nil {
			t.Error(err)
		}
		if state, err := p.Wait(); err != nil || state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Errorf("the other process ended with %v, %v", state, err)
		}
		l.ended(plugin) // it does not outlive who started it
		l.ran("ADD main, ADD second")
		l.restart()
		l.left("one/eth0")
	}

	crash()
	if err := l.network.Check(t.Context(), one()); !errors.Is(err, cni.ErrNotFound) {
		t.Errorf("Check of what is half-made: %v", err)
	}
	if err := l.network.Collect(t.Context(), nil); err != nil {
		t.Error(err)
	}
	l.ran("DEL second, DEL main")
	l.left()

	crash()
	l.do("second", "")
	if _, err := l.network.Add(t.Context(), one()); err != nil { // as a new Add makes way for itself
		t.Error(err)
	}
	l.ran("DEL second, DEL main, ADD main, ADD second")
	l.left("one/eth0")
	l.restart()
	if _, err := l.network.Add(t.Context(), one()); !errors.Is(err, cni.ErrExists) {
		t.Errorf("Add of what was attached before a restart: %v", err)
	}
	if err := l.network.Check(t.Context(), one()); err != nil {
		t.Error(err)
	}
}

func TestDeleteGoesByWhatAddWentBy(t *testing.T) {
	l := newLab(t, "old", "new")
	l.configure("10.conflist", `"name": "net", "cniVersion": "1.0.0"`, `{"type": "old", "colour": "red"}`)
	two := one()
	two.ContainerID = "two"
	for _, a := range []cni.Attachment{one(), two} {
		if _, err := l.network.Add(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	l.configure("10.conflist", `"name": "other", "cniVersion": "1.0.0"`, `{"type": "new"}`)
	l.order()
	if err := l.network.Delete(t.Context(), one()); err != nil {
		t.Error(err)
	}
	l.ran("DEL old")
	if in := l.input("DEL-old"); in["name"] != "net" || in["colour"] != "red" || in["prevResult"] == nil {
		t.Errorf("DEL was told %v", in)
	}
	if err := os.Remove(filepath.Join(l.conf, "10.conflist")); err != nil {
		t.Fatal(err)
	}
	l.restart()
	if err := l.network.Delete(t.Context(), two); err != nil {
		t.Error(err)
	}
	l.ran("DEL old")
	if err := l.network.Delete(t.Context(), two); err != nil { // nothing is known of it, and there is nothing to ask
		t.Error(err)
	}
	l.ran("")
}

// After a restart of the host the namespaces are gone, and what is on record is not.
func TestAddAfterTheNamespaceIsGone(t *testing.T) {
	l := newLab(t, "main")
	l.configure("10.conflist", `"name": "net", "cniVersion": "1.0.0"`, `{"type": "main"}`)
	before := one()
	before.NetNS = filepath.Join(t.TempDir(), "ns")
	if err := os.Symlink(someNamespace, before.NetNS); err != nil {
		t.Fatal(err)
	}
	if _, err := l.network.Add(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(before.NetNS); err != nil {
		t.Fatal(err)
	}
	l.order()
	if _, err := l.network.Add(t.Context(), one()); err != nil {
		t.Error(err)
	}
	l.ran("DEL main, ADD main")
	if got := l.environment("DEL-main", "CNI_NETNS"); got != "" {
		t.Errorf("DEL was told of the namespace %q, which is gone", got)
	}
}

func TestNoRoomForRecords(t *testing.T) {
	l := newLab(t, "main")
	l.configure("10.conflist", `"name": "net", "cniVersion": "1.0.0"`, `{"type": "main"}`)
	if err := os.WriteFile(l.options.StateDir, nil, 0o600); err != nil { // a file where a directory has to be
		t.Fatal(err)
	}
	if _, err := l.network.Add(t.Context(), one()); err == nil || !strings.Contains(err.Error(), l.options.StateDir) {
		t.Errorf("Add: %v", err)
	}
	if order := l.order(); strings.Contains(order, "ADD") {
		t.Errorf("what nobody could remember was made: %s", order)
	}
}

func TestLostRecord(t *testing.T) {
	l := newLab(t, "main")
	l.configure("10.conflist", `"name": "net", "cniVersion": "1.0.0"`, `{"type": "main"}`)
	if _, err := l.network.Add(t.Context(), one()); err != nil {
		t.Fatal(err)
	}
	record := filepath.Join(l.options.StateDir, "attachments", "one,eth0.json")
	if err := os.WriteFile(record, []byte(`{"Attach`), 0o600); err != nil {
		t.Fatal(err)
	}
	l.left("one/eth0")
	l.order()
	if err := l.network.Collect(t.Context(), nil); err != nil {
		t.Error(err)
	}
	l.ran("DEL main")
	l.left()
	if !strings.Contains(l.log.String(), record) {
		t.Errorf("the log does not name the record: %s", l.log)
	}
}

func TestCheckAndStatusByVersion(t *testing.T) {
	l := newLab(t, "main")
	for version, want := range map[string]struct {
		status, check string
		unsupported   bool
	}{
		"0.3.1": {"", "", true}, "0.4.0": {"", "CHECK main", false}, "1.0.0": {"", "CHECK main", false}, "1.1.0": {"STATUS main", "CHECK main", false},
	} {
		l.configure("10.conflist", `"name": "net", "cniVersion": "`+version+`"`, `{"type": "main"}`)
		l.do("main", `if [ $CNI_COMMAND = ADD ]; then echo '{"ips": [{"version": "4", "address": "10.1.2.3/24"}]}'; exit 0; fi`)
		if err := l.network.Status(t.Context()); err != nil {
			t.Errorf("%s: Status: %v", version, err)
		}
		l.ran(want.status)
		if _, err := l.network.Add(t.Context(), one()); err != nil {
			t.Errorf("%s: Add: %v", version, err)
		}
		l.order()
		if err := l.network.Check(t.Context(), one()); err != nil != want.unsupported || err != nil && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: Check: %v", version, err)
		}
		l.ran(want.check)
		if err := l.network.Collect(t.Context(), nil); err != nil {
			t.Errorf("%s: Collect: %v", version, err)
		}
		if order, gc := l.order(), version == "1.1.0"; strings.Contains(order, "GC main") != gc {
			t.Errorf("%s: Collect ran %s", version, order)
		}
	}
	l.do("main", `if [ $CNI_COMMAND = STATUS ]; then echo '{"code": 51, "msg": "half of it is down"}'; exit 1; fi`)
	l.configure("10.conflist", `"name": "net", "cniVersion": "1.1.0"`, `{"type": "main"}`)
	var plugin *cni.PluginError
	if err := l.network.Status(t.Context()); !errors.Is(err, cni.ErrNotReady) || !errors.As(err, &plugin) || plugin.Code != cni.CodeLimitedConnectivity {
		t.Errorf("Status: %v", err)
	}
}

func TestPortsThatNobodyMaps(t *testing.T) {
	l := newLab(t, "main")
	l.configure("10.conflist", `"name": "net", "cniVersion": "1.0.0"`, `{"type": "main"}`)
	a := one()
	a.PortMappings = []cni.PortMapping{{HostPort: 8080, ContainerPort: 80}}
	if _, err := l.network.Add(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(l.log.String(), "No plugin of the network maps ports") {
		t.Errorf("log: %s", l.log)
	}
}
