package containerd_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/node/containerd"
	"github.com/keelson-dev/keelson/node/containerd/containerdtest"
	"github.com/keelson-dev/keelson/node/ociimage"
)

// pid is the process of a container as the host sees it.
func (c client) pid(ctx context.Context, t testing.TB, id string) int {
	t.Helper()
	answer, err := c.ContainerStatus(ctx, &runtime.ContainerStatusRequest{ContainerId: id, Verbose: true})
	if err != nil {
		t.Fatal(err)
	}
	if answer.Status.State != runtime.ContainerState_CONTAINER_RUNNING {
		t.Fatalf("container %s is %s: %s", id, answer.Status.State, answer.Status.Message)
	}
	var info struct{ PID int }
	if err := json.Unmarshal([]byte(answer.Info["info"]), &info); err != nil || info.PID == 0 {
		t.Fatalf("no process in %q: %v", answer.Info["info"], err)
	}
	return info.PID
}

// again is another Daemon of the same directory, as another process would make it.
func again(t *testing.T, dir string, o containerd.Options) *containerd.Daemon {
	t.Helper()
	d, err := containerd.New(dir, containerdtest.Tools(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestContainersOutliveDaemon(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	o := containerd.Options{CgroupRoot: "keelson-test-outlive", NoSync: true}
	o.CNIConfDir = containerdtest.Bridge(t, t.TempDir())
	d := containerdtest.Start(t, containerdtest.Options{Dir: dir, Containerd: o})
	c := connect(t, d)
	p := c.run(ctx, t)
	pid := c.pid(ctx, t, p.container)
	other := o
	other.LogLevel = "warn"
	for _, step := range []struct {
		name string
		do   func(d *containerd.Daemon)
		o    containerd.Options
		same bool // the same daemon before and after
	}{
		{"another process starts it", func(*containerd.Daemon) {}, o, true},
		{"it was killed", func(d *containerd.Daemon) { must(t, d.Kill(ctx)) }, o, false},
		{"it was stopped", func(d *containerd.Daemon) { must(t, d.Stop(ctx)) }, o, false},
		{"it has another configuration", func(*containerd.Daemon) {}, other, false},
		{"it hangs", func(d *containerd.Daemon) { must(t, syscall.Kill(d.PID(), syscall.SIGSTOP)) }, other, false},
		{"what ran was forgotten", func(d *containerd.Daemon) {
			must(t, os.WriteFile(filepath.Join(dir, "daemon.json"), []byte("{torn"), 0o644))
		}, other, false},
	} {
		t.Run(step.name, func(t *testing.T) {
			d := again(t, dir, step.o)
			before := d.PID()
			if before == 0 {
				t.Fatal("nothing runs")
			}
			step.do(d)
			d = again(t, dir, step.o)
			must(t, d.Start(ctx))
			if after := d.PID(); after == 0 || (after == before) != step.same {
				t.Errorf("process %d before, %d after", before, after)
			}
			if now := c.pid(ctx, t, p.container); now != pid {
				t.Errorf("the container was process %d and is %d", pid, now)
			}
			if got := c.exec(ctx, t, p, "echo", "here"); got != "here\n" {
				t.Errorf("exec answers %q", got)
			}
		})
	}
	c.stop(ctx, t, p)
	c.remove(ctx, t, p)
}

func TestPowerFailure(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	o := containerd.Options{CgroupRoot: "keelson-test-power", NoSync: true, CNIConfDir: t.TempDir()}
	d := containerdtest.Start(t, containerdtest.Options{Dir: dir, Containerd: o})
	must(t, d.Stop(ctx))
	// As after a boot, with pages of the database that did not reach the disk.
	record := filepath.Join(dir, "daemon.json")
	b, err := os.ReadFile(record)
	must(t, err)
	var fields map[string]any
	must(t, json.Unmarshal(b, &fields))
	fields["Process"].(map[string]any)["Boot"] = "another"
	b, err = json.Marshal(fields)
	must(t, err)
	must(t, os.WriteFile(record, b, 0o644))
	database := filepath.Join(dir, "root/io.containerd.metadata.v1.bolt/meta.db")
	info, err := os.Stat(database)
	must(t, err)
	must(t, os.WriteFile(database, make([]byte, info.Size()), 0o600))
	o.NoSync = false
	if err := again(t, dir, o).Start(ctx); !errors.Is(err, containerd.ErrNotRunning) {
		t.Errorf("files that should be safe are broken, and it starts: %v", err)
	}
	must(t, os.WriteFile(record, b, 0o644))
	o.NoSync = true
	d = again(t, dir, o)
	must(t, d.Start(ctx))
	if names, err := d.Images(ctx); err != nil || len(names) > 0 {
		t.Errorf("images: %q %v", names, err)
	}
}

func TestStopTwice(t *testing.T) {
	d := containerdtest.Start(t, containerdtest.Options{NoImages: true})
	for range 2 {
		must(t, d.Stop(t.Context()))
		if pid := d.PID(); pid != 0 {
			t.Errorf("process %d runs", pid)
		}
		must(t, d.Kill(t.Context()))
	}
	if _, err := d.Images(t.Context()); err == nil {
		t.Error("a stopped daemon answers")
	}
}

func TestRun(t *testing.T) {
	d := containerdtest.Start(t, containerdtest.Options{NoImages: true})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	for range 3 {
		before := d.PID()
		must(t, d.Kill(ctx))
		within(t, func() bool { now := d.PID(); return now != 0 && now != before })
	}
	within(t, func() bool { _, err := d.Images(ctx); return err == nil })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if d.PID() == 0 {
		t.Error("the daemon ended with its supervisor")
	}
}

// within fails the test when it takes far longer than it ever should until something is so.
func within(t *testing.T, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not so after a minute")
		}
	}
}

func TestTwoDaemons(t *testing.T) {
	ctx := t.Context()
	var clients []client
	var running []*pod
	for range 2 {
		c := connect(t, containerdtest.Start(t, containerdtest.Options{}))
		clients = append(clients, c)
		running = append(running, c.run(ctx, t))
	}
	a, b := clients[0].d, clients[1].d
	if a.PID() == b.PID() || a.Socket() == b.Socket() {
		t.Fatal("one daemon for both")
	}
	before := clients[1].pid(ctx, t, running[1].container)
	must(t, a.Destroy(ctx))
	left, err := b.Leftovers(ctx)
	if err != nil || len(left) == 0 {
		t.Errorf("nothing is there of a daemon with a pod: %v %v", left, err)
	}
	if after := clients[1].pid(ctx, t, running[1].container); after != before {
		t.Errorf("the other's container was process %d and is %d", before, after)
	}
	c, p := clients[1], clients[1].run(ctx, t)
	if got := c.exec(ctx, t, p, "echo", "here"); got != "here\n" {
		t.Errorf("exec answers %q", got)
	}
}

// snapshot is what of the host Destroy must give back: mounts, cgroups, attachments and network devices.
func snapshot(t *testing.T, name string) []string {
	t.Helper()
	var all []string
	b, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	for line := range strings.Lines(string(b)) {
		all = append(all, "mount "+strings.Fields(line)[4])
	}
	groups, err := filepath.Glob("/sys/fs/cgroup/*/" + name)
	must(t, err)
	results, err := filepath.Glob("/var/lib/cni/results/" + name + "*")
	must(t, err)
	links, err := exec.Command("ip", "-o", "link", "show", "master", name).CombinedOutput()
	if err == nil {
		all = append(all, strings.Fields(string(links))...)
	}
	return slices.Concat(all, groups, results)
}

func TestDestroy(t *testing.T) {
	ctx := t.Context()
	for name, before := range map[string]func(t *testing.T, d *containerd.Daemon, pid int){
		"running":        func(*testing.T, *containerd.Daemon, int) {},
		"killed":         func(t *testing.T, d *containerd.Daemon, _ int) { must(t, d.Kill(ctx)) },
		"container died": func(t *testing.T, _ *containerd.Daemon, pid int) { must(t, syscall.Kill(pid, syscall.SIGKILL)) },
		"shim killed": func(t *testing.T, d *containerd.Daemon, pid int) {
			must(t, d.Kill(ctx))
			must(t, syscall.Kill(parent(t, pid), syscall.SIGKILL))
		},
		"files removed": func(t *testing.T, d *containerd.Daemon, _ int) {
			dir := filepath.Dir(d.LogFile())
			for _, name := range []string{"daemon.json", "config.toml", "containerd.log"} {
				must(t, os.Remove(filepath.Join(dir, name)))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			conf := t.TempDir()
			confDir := containerdtest.Bridge(t, conf)
			id := "keelson-test-destroy"
			was := snapshot(t, id)
			d := containerdtest.Start(t, containerdtest.Options{Containerd: containerd.Options{CNIConfDir: confDir, CgroupRoot: id}})
			c := connect(t, d)
			p := c.run(ctx, t)
			c.run(ctx, t)
			left, err := d.Leftovers(ctx)
			must(t, err)
			for _, kind := range []string{"containerd ", "process ", "mount ", "attachment ", "cgroup "} {
				if !slices.ContainsFunc(left, func(s string) bool { return strings.HasPrefix(s, kind) }) {
					t.Errorf("no %sin %q", kind, left)
				}
			}
			before(t, d, c.pid(ctx, t, p.container))
			for range 2 {
				must(t, d.Destroy(ctx))
			}
			if left, err := d.Leftovers(ctx); err != nil || len(left) > 0 {
				t.Errorf("left: %v %v", left, err)
			}
			if is := snapshot(t, id); !slices.Equal(ours(was), ours(is)) {
				t.Errorf("there were\n%s\nand now there are\n%s", strings.Join(was, "\n"), strings.Join(is, "\n"))
			}
			for _, path := range []string{filepath.Dir(d.LogFile()) + "/root", filepath.Dir(d.Socket())} {
				if _, err := os.Stat(path); !os.IsNotExist(err) {
					t.Errorf("%s: %v", path, err)
				}
			}
		})
	}
}

// ours leaves out what other tests and programs on the host may change meanwhile.
func ours(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !strings.Contains(s, "keelson-test-destroy") })
}

func parent(t *testing.T, pid int) int {
	t.Helper()
	out, err := exec.Command("ps", "-o", "ppid=", "-p", strconv.Itoa(pid)).Output()
	must(t, err)
	ppid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil || ppid <= 1 {
		t.Fatalf("the parent of %d is %q: %v", pid, out, err)
	}
	return ppid
}

func TestDestroyInTheMiddleOfAttaching(t *testing.T) {
	for _, when := range []string{"both run", "the daemon is killed", "both are killed"} {
		t.Run(when, func(t *testing.T) { destroyAttaching(t, when) })
	}
}

func destroyAttaching(t *testing.T, when string) {
	t.Helper()
	ctx, bin := t.Context(), t.TempDir()
	tools := containerdtest.Tools(t)
	reached := filepath.Join(bin, "reached")
	plugin := "#!/bin/sh\nif [ $CNI_COMMAND = ADD ]; then echo $$ > " + reached + "; exec sleep 1000; fi\n"
	must(t, os.WriteFile(filepath.Join(bin, "hang"), []byte(plugin), 0o755))
	confDir := containerdtest.Bridge(t, t.TempDir()) // fails the test unless its addresses are given back
	conf := filepath.Join(confDir, "10-bridge.conflist")
	b, err := os.ReadFile(conf)
	must(t, err)
	must(t, os.WriteFile(conf, []byte(strings.TrimSuffix(strings.TrimSpace(string(b)), "]}")+`, {"type": "hang"}]}`), 0o644))
	d := containerdtest.Start(t, containerdtest.Options{Containerd: containerd.Options{CNIConfDir: confDir, CNIBinDirs: []string{bin, tools.CNI}}})
	c := connect(t, d)
	failed := make(chan error)
	go func() {
		_, err := c.RunPodSandbox(ctx, &runtime.RunPodSandboxRequest{Config: c.config(t)})
		failed <- err
	}()
	within(t, func() bool { b, err := os.ReadFile(reached); return err == nil && strings.HasSuffix(string(b), "\n") })
	if when != "both run" {
		must(t, d.Kill(ctx))
	}
	if when == "both are killed" {
		b, err := os.ReadFile(reached)
		must(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
		must(t, err)
		must(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	must(t, d.Destroy(ctx))
	if err := <-failed; err == nil {
		t.Error("a sandbox without a network")
	}
}

func TestLongDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("very long ", 12), strings.Repeat("ü\"", 20))
	d := containerdtest.Start(t, containerdtest.Options{Dir: dir})
	if len(d.Socket()) > 100 {
		t.Errorf("%d bytes for a socket", len(d.Socket()))
	}
	c := connect(t, d)
	p := c.run(t.Context(), t)
	if got := c.exec(t.Context(), t, p, "echo", "here"); got != "here\n" {
		t.Errorf("exec answers %q", got)
	}
}

func TestConfigurationIsUnderstood(t *testing.T) {
	d := containerdtest.Start(t, containerdtest.Options{Containerd: containerd.Options{
		Mirrors: map[string][]string{"docker.io": {"http://127.0.0.1:1"}}, Logger: slog.New(slog.DiscardHandler),
	}})
	b, err := os.ReadFile(d.LogFile())
	must(t, err)
	for line := range strings.Lines(string(b)) {
		known := slices.ContainsFunc([]string{
			"fsverity", "cgroup v1 is deprecated", // of the host
			"skip loading plugin", "async mode for boltdb", // asked for
		}, func(s string) bool { return strings.Contains(line, s) })
		if !known && !strings.Contains(line, "level=info") && !strings.Contains(line, "level=debug") {
			t.Error(line)
		}
	}
}

func TestMirrorsChangeWithoutRestart(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	tools := containerdtest.Tools(t)
	archive, err := ociimage.Busybox(ctx, tools.Images, nil)
	must(t, err)
	registry, err := ociimage.NewRegistry(archive)
	must(t, err)
	server := httptest.NewServer(registry)
	defer server.Close()
	o := containerd.Options{CgroupRoot: "keelson-test-mirrors", NoSync: true, CNIConfDir: t.TempDir(), Mirrors: map[string][]string{"docker.io": {"http://127.0.0.1:1"}, "quay.io": {"http://127.0.0.1:1"}}}
	d := containerdtest.Start(t, containerdtest.Options{Dir: dir, NoImages: true, Containerd: o})
	pid := d.PID()
	o.Mirrors = map[string][]string{"docker.io": {server.URL}}
	d = again(t, dir, o)
	must(t, d.Start(ctx))
	if d.PID() != pid {
		t.Error("another daemon")
	}
	c := connect(t, d)
	if _, err := c.PullImage(ctx, &runtime.PullImageRequest{Image: &runtime.ImageSpec{Image: containerdtest.Busybox}}); err != nil {
		t.Fatal(err)
	}
	names, err := d.Images(ctx)
	if err != nil || !slices.Contains(names, containerdtest.Busybox) {
		t.Errorf("images: %q %v", names, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "certs.d", "quay.io")); !os.IsNotExist(err) {
		t.Errorf("the mirror that is no more: %v", err)
	}
}

func TestImportFails(t *testing.T) {
	d := containerdtest.Start(t, containerdtest.Options{NoImages: true})
	file := filepath.Join(t.TempDir(), "x.tar")
	if _, err := d.Import(t.Context(), file, nil); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a file that is not there: %v", err)
	}
	must(t, os.WriteFile(file, []byte("no archive"), 0o644))
	if _, err := d.Import(t.Context(), file, nil); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file that is no archive: %v", err)
	}
}
