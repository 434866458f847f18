package garbage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/internal/fakeroot"
	"github.com/keelson-dev/keelson/kubelet/garbage"
	"github.com/keelson-dev/keelson/kubelet/machine"
)

func TestNewNeedsARuntimeAndPods(t *testing.T) {
	w := &world{}
	for name, create := range map[string]func() (*garbage.Collector, error){
		"a runtime": func() (*garbage.Collector, error) { return garbage.New(nil, w, garbage.Options{}) },
		"pods":      func() (*garbage.Collector, error) { return garbage.New(w, nil, garbage.Options{}) },
	} {
		if c, err := create(); err == nil || c != nil {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

func TestImagePolicies(t *testing.T) {
	w := &world{}
	for _, tt := range []struct {
		policy garbage.ImagePolicy
		want   string
	}{
		{garbage.ImagePolicy{High: 100, Low: 100}, ""},
		{garbage.ImagePolicy{}, ""},
		{garbage.ImagePolicy{High: 1, Low: 1}, ""},
		{garbage.ImagePolicy{High: -1, Low: -1}, "invalid HighThresholdPercent -1, must be in range [0-100]"},
		{garbage.ImagePolicy{High: 101}, "invalid HighThresholdPercent 101, must be in range [0-100]"},
		{garbage.ImagePolicy{High: 50, Low: -1}, "invalid LowThresholdPercent -1, must be in range [0-100]"},
		{garbage.ImagePolicy{High: 50, Low: 101}, "invalid LowThresholdPercent 101, must be in range [0-100]"},
		{garbage.ImagePolicy{High: 50, Low: 51}, "LowThresholdPercent 51 can not be higher than HighThresholdPercent 50"},
		{garbage.ImagePolicy{MinAge: -1}, "ages cannot be negative"},
		{garbage.ImagePolicy{MaxAge: -1}, "ages cannot be negative"},
	} {
		_, err := garbage.New(w, w, garbage.Options{Images: &tt.policy})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasSuffix(err.Error(), ": "+tt.want)) {
			t.Errorf("%+v: %v", tt.policy, err)
		}
	}
}

func ids(list []cri.Container) string {
	var out []string
	for _, c := range list {
		out = append(out, c.ID)
	}
	return strings.Join(out, " ")
}

func TestWhichContainersGo(t *testing.T) {
	list := []cri.Container{
		container("g1", "g", "a", 1, dead), container("g2", "g", "a", 2, dead), container("a1", "p", "a", 3, dead), container("b1", "p", "b", 4, dead),
		container("a2", "p", "a", 5, dead), container("c1", "q", "a", 6, dead), container("b2", "p", "b", 7, dead), container("a3", "p", "a", 8, alive),
	}
	gone := func(uid types.UID) bool { return uid == "g" }
	for name, tt := range map[string]struct {
		policy garbage.ContainerPolicy
		now    time.Time
		want   string
	}{
		"one of each":          {garbage.ContainerPolicy{PerName: 1, Total: -1}, at(10), "g1 g2 a1 b1"},
		"all":                  {garbage.ContainerPolicy{PerName: -1, Total: -1}, at(10), "g1 g2"},
		"none":                 {garbage.ContainerPolicy{PerName: 0, Total: -1}, at(10), "g1 g2 a1 b1 a2 c1 b2"},
		"only old ones":        {garbage.ContainerPolicy{PerName: 0, Total: -1, MinAge: 6 * time.Minute}, at(10), "g1 g2 a1 b1"},
		"just too young":       {garbage.ContainerPolicy{PerName: 0, Total: -1, MinAge: 6 * time.Minute}, at(10).Add(-1), "g1 g2 a1"},
		"two in all":           {garbage.ContainerPolicy{PerName: -1, Total: 2}, at(10), "g1 g2 a1 b1 a2"},
		"one in all":           {garbage.ContainerPolicy{PerName: 1, Total: 1}, at(10), "g1 g2 a1 b1 a2 c1"},
		"as many as there are": {garbage.ContainerPolicy{PerName: -1, Total: 5}, at(10), "g1 g2"},
		"four in all":          {garbage.ContainerPolicy{PerName: -1, Total: 4}, at(10), "g1 g2 a1 b1"},
		"none in all":          {garbage.ContainerPolicy{PerName: -1, Total: 0}, at(10), "g1 g2 a1 b1 a2 c1 b2"},
	} {
		if got := ids(garbage.Containers(slices.Clone(list), tt.policy, gone, tt.now)); got != tt.want {
			t.Errorf("%s: %s, not %s", name, got, tt.want)
		}
	}
}

// partly is a world of which one call fails.
type partly struct {
	*world
	containers, sandboxes, stop, filesystem error
}

func (p partly) ListContainers(ctx context.Context, f cri.Filter) ([]cri.Container, error) {
	if p.containers != nil {
		return nil, p.containers
	}
	return p.world.ListContainers(ctx, f)
}

func (p partly) ListSandboxes(ctx context.Context, f cri.Filter) ([]cri.Sandbox, error) {
	if p.sandboxes != nil {
		return nil, p.sandboxes
	}
	return p.world.ListSandboxes(ctx, f)
}

func (p partly) StopContainer(ctx context.Context, id string, d time.Duration) error {
	if p.stop != nil {
		return p.stop
	}
	return p.world.StopContainer(ctx, id, d)
}

func (p partly) ImageFilesystem(ctx context.Context) (cri.FilesystemUsage, cri.FilesystemUsage, error) {
	if p.filesystem != nil {
		return cri.FilesystemUsage{}, cri.FilesystemUsage{}, p.filesystem
	}
	return p.world.ImageFilesystem(ctx)
}

func TestWhatFailsIsToldOf(t *testing.T) {
	broken := errors.New("broken")
	collect := func(p partly, o garbage.Options, what func(*garbage.Collector) error) error {
		t.Helper()
		c, err := garbage.New(p, p, o)
		if err != nil {
			t.Fatal(err)
		}
		return what(c)
	}
	containers := func(c *garbage.Collector) error { return c.CollectContainers(t.Context()) }
	reclaim := func(c *garbage.Collector) error { return c.ReclaimContainers(t.Context()) }
	images := func(c *garbage.Collector) error { return c.CollectImages(t.Context()) }
	space := func(c *garbage.Collector) error { return c.ReclaimImages(t.Context()) }
	disk := func(fs machine.Filesystem, err error) garbage.Options {
		return garbage.Options{Disk: func(string) (machine.Filesystem, error) { return fs, err }}
	}
	unused := func() *world { return &world{images: []cri.Image{image("a", 1)}} }
	for want, tt := range map[string]struct {
		p    partly
		o    garbage.Options
		what func(*garbage.Collector) error
	}{
		"listing containers: broken":             {partly{world: &world{}, containers: broken}, garbage.Options{}, containers},
		"listing sandboxes: broken":              {partly{world: &world{}, sandboxes: broken}, garbage.Options{}, reclaim},
		"asking where images are: broken":        {partly{world: unused(), filesystem: broken}, garbage.Options{}, images},
		"broken":                                 {partly{world: unused()}, disk(machine.Filesystem{}, broken), images},
		"invalid capacity 0 on image filesystem": {partly{world: unused()}, disk(machine.Filesystem{}, nil), images},
	} {
		if err := collect(tt.p, tt.o, tt.what); err == nil || err.Error() != want {
			t.Errorf("%v, not %s", err, want)
		}
	}
	// If the containers are unknown, no image counts as unused.
	for _, what := range []func(*garbage.Collector) error{images, space} {
		w := unused()
		err := collect(partly{world: w, containers: broken}, garbage.Options{Images: &garbage.ImagePolicy{}}, what)
		if err == nil || err.Error() != "listing containers: broken" || len(w.told()) != 0 {
			t.Errorf("%v", err)
		}
	}
	// Failed removals are reported too.
	w := unused()
	w.broken = map[string]bool{"a": true}
	if err := collect(partly{world: w}, garbage.Options{Images: &garbage.ImagePolicy{}}, space); !errors.Is(err, errBroken) || err.Error() != "removing image a: device or resource busy" {
		t.Error(err)
	}
	// A missing container counts as stopped.
	w = &world{containers: []cri.Container{container("g1", "g", "a", -9, unclear)}, gone: []string{"g"}}
	if err := collect(partly{world: w, stop: cri.ErrNotFound}, garbage.Options{}, containers); err != nil {
		t.Error(err)
	}
	if got := strings.Join(w.told(), ", "); got != "remove container g1" {
		t.Errorf("did %s", got)
	}
}

// A reclaim removes what pods that are gone have left, like every pass.
func TestReclaimContainersOfGonePods(t *testing.T) {
	w := &world{containers: []cri.Container{container("g1", "g", "a", -9, dead), container("e1", "e", "a", -9, dead), container("p1", "p", "a", -9, dead)}, gone: []string{"g"}, ended: []string{"e"}}
	c, err := garbage.New(w, w, garbage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ReclaimContainers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(w.told(), ", "); got != "remove container e1, remove container g1" && got != "remove container g1, remove container e1" {
		t.Errorf("did %s", got)
	}
}

// bare is a runtime that does not know where its images are.
type bare struct{ garbage.Runtime }

func TestRuntimeWithoutAFilesystem(t *testing.T) {
	w := &world{images: []cri.Image{image("a", 1000)}}
	c, err := garbage.New(bare{w}, w, garbage.Options{Images: &garbage.ImagePolicy{}, Disk: func(string) (machine.Filesystem, error) {
		t.Error("asked for a disk")
		return machine.Filesystem{}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CollectImages(t.Context()); err != nil || len(w.told()) != 0 {
		t.Error(err)
	}
}

type mountpoint string

func (m mountpoint) ImageFilesystem(context.Context) (cri.FilesystemUsage, cri.FilesystemUsage, error) {
	return cri.FilesystemUsage{Mountpoint: string(m)}, cri.FilesystemUsage{}, nil
}

// Without options, this machine's disk is used and nothing is notified.
func TestZeroOptions(t *testing.T) {
	w := &world{}
	c, err := garbage.New(w, w, garbage.Options{Images: &garbage.ImagePolicy{High: 100, Low: 100}, Filesystem: mountpoint(t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CollectImages(t.Context()); err != nil {
		t.Error(err)
	}
	c, err = garbage.New(w, w, garbage.Options{Disk: func(string) (machine.Filesystem, error) { return machine.Filesystem{}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CollectImages(t.Context()); err == nil {
		t.Error("a disk without capacity")
	}
}

// From 85 % on, images are removed until 80 % is reached exactly.
func TestHowMuchGoes(t *testing.T) {
	for _, tt := range []struct {
		used uint64
		want string
		err  string
	}{
		{849, "remove image a, remove image b", ""}, // a percent that is begun counts
		{840, "", ""},
		{850, "remove image a, remove image b", ""},
		{851, "remove image a, remove image b, remove image c", ""},
		{1000, "remove image a, remove image b, remove image c", "(100% of 1000 B used). Failed to free sufficient space by deleting unused images (freed 75 bytes)."},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &world{images: []cri.Image{image("a", 25), image("b", 25), image("c", 25)}, other: tt.used - 75}
			c, err := garbage.New(w, w, garbage.Options{Disk: w.disk})
			if err != nil {
				t.Fatal(err)
			}
			// No image is removed within two minutes.
			if err := c.CollectImages(t.Context()); tt.want != "" && err == nil || len(w.told()) != 0 {
				t.Errorf("at once: %v", err)
			}
			time.Sleep(2 * time.Minute)
			err = c.CollectImages(t.Context())
			if got := strings.Join(w.told(), ", "); got != tt.want {
				t.Errorf("%d: did %s", tt.used, got)
			}
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("%d: %v", tt.used, err)
			}
		})
	}
}

// The size of a disk is given in the largest unit that it reaches.
func TestSizesOfDisks(t *testing.T) {
	for capacity, want := range map[uint64]string{
		1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1<<20 - 1024: "1023.0 KiB", 1 << 20: "1.0 MiB", 5 << 30: "5.0 GiB",
		1 << 40: "1.0 TiB", 3 << 50: "3072.0 TiB",
	} {
		w := &world{}
		var told string
		c, err := garbage.New(w, w, garbage.Options{
			Disk:     func(string) (machine.Filesystem, error) { return machine.Filesystem{Capacity: capacity}, nil },
			Recorder: events.Func(func(e events.Event) { told = e.Reason + " " + e.Message }),
		})
		if err != nil {
			t.Fatal(err)
		}
		err = c.CollectImages(t.Context())
		if message := fmt.Sprintf("(100%% of %s used)", want); err == nil || !strings.Contains(err.Error(), message) || told != "FreeDiskSpaceFailed "+err.Error() {
			t.Errorf("%d: %v, told %s", capacity, err, told)
		}
	}
}

// An image removed for its age is not removed again for space, and one exactly at the age limit stays.
func TestOldImagesGoOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{images: []cri.Image{image("a", 10), image("b", 10)}, other: 980}
		c, err := garbage.New(w, w, garbage.Options{Images: &garbage.ImagePolicy{High: 100, Low: 0, MaxAge: time.Hour}, Disk: w.disk})
		if err != nil {
			t.Fatal(err)
		}
		used := container("c", "p", "a", 0, alive)
		used.ImageID = "b"
		w.containers = []cri.Container{used}
		if err := c.ReclaimImages(t.Context()); err != nil { // the first look
			t.Fatal(err)
		}
		w.told()
		w.images = []cri.Image{image("a", 10), image("b", 10)}
		time.Sleep(time.Minute)
		if err := c.CollectImages(t.Context()); err == nil {
			t.Error("the disk is full")
		}
		w.told()
		w.images, w.containers, w.other = []cri.Image{image("b", 10)}, nil, 990
		time.Sleep(time.Hour) // since its last use
		w.other = 500
		if err := c.CollectImages(t.Context()); err != nil || len(w.told()) != 0 {
			t.Errorf("an hour is not too long: %v", err)
		}
		time.Sleep(time.Nanosecond)
		w.other = 990
		if err := c.CollectImages(t.Context()); err != nil {
			t.Logf("the disk stays full: %v", err)
		}
		if got := strings.Join(w.told(), ", "); got != "remove image b" {
			t.Errorf("did %s", got)
		}
	})
}

// There is no event for the first failure in a row, nor for the end.
func TestFailuresInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		var log bytes.Buffer
		w.fail(errBroken)
		start(t, w, garbage.Options{ContainerPeriod: time.Hour * 1000, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		time.Sleep(time.Minute) // between two passes
		expect(t, w)
		w.fail(nil)
		time.Sleep(5 * time.Minute)
		w.fail(errBroken)
		time.Sleep(5 * time.Minute)
		expect(t, w) // the first again
		time.Sleep(5 * time.Minute)
		const told = "event ImageGCFailed: listing images: device or resource busy"
		expect(t, w, told)
		time.Sleep(5 * time.Minute)
		expect(t, w, told)
		if got := strings.Count(log.String(), `msg="collecting images failed once" error="listing images: device or resource busy"`); got != 2 {
			t.Errorf("logged %s", &log)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		c, err := garbage.New(w, w, garbage.Options{ContainerPeriod: time.Minute, Recorder: events.Func(func(e events.Event) { t.Errorf("told of %s: %s", e.Reason, e.Message) })})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		w.fail(nil)
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		time.Sleep(59 * time.Second)
		// Failures after the end are not reported.
		late := endsWith{w, cancel}
		c2, err := garbage.New(late, w, garbage.Options{ContainerPeriod: time.Minute, ImagePeriod: time.Hour, Recorder: events.Func(func(e events.Event) { t.Errorf("told of %s: %s", e.Reason, e.Message) })})
		if err != nil {
			t.Fatal(err)
		}
		if err := c2.Run(ctx); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// endsWith is a runtime that cancels the context when containers are listed.
type endsWith struct {
	*world
	cancel func()
}

func (e endsWith) ListContainers(context.Context, cri.Filter) ([]cri.Container, error) {
	e.cancel()
	return nil, context.Canceled
}

func TestWhichLogsGo(t *testing.T) {
	dir := t.TempDir()
	logs := filepath.Join(dir, "pods")
	w := &world{gone: []string{"gone", ""}, containers: []cri.Container{container("exited", "here", "app", 0, dead), container("made", "here", "other", 0, cri.ContainerCreated)}}
	collect := func(o garbage.Options) error {
		t.Helper()
		c, err := garbage.New(w, w, o)
		if err != nil {
			t.Fatal(err)
		}
		return c.CollectContainers(t.Context())
	}
	if err := collect(garbage.Options{LogDir: logs}); err != nil {
		t.Errorf("there are no logs yet: %v", err)
	}
	for _, name := range []string{"default_web_gone", "default_web_", "gone", "web_gone"} {
		if err := os.MkdirAll(filepath.Join(logs, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(logs, "default_file_gone"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := collect(garbage.Options{LogDir: logs}); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(logs)
	if err != nil || len(entries) != 4 || entries[0].Name() != "default_file_gone" {
		t.Errorf("left %v, %v", entries, err)
	}
	if err := collect(garbage.Options{LogDir: filepath.Join(logs, "default_file_gone")}); err == nil {
		t.Error("a file is no directory of logs")
	}

	// Links are removed if their target is gone and the container has ended or is gone.
	links := filepath.Join(dir, "links")
	if err := os.MkdirAll(links, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"exited", "made", "removed"} {
		if err := os.Symlink("/missing", filepath.Join(links, "web_default_app-"+id+".log")); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(links) // an empty LinkDir must not mean the working directory
	if err := collect(garbage.Options{}); err != nil {
		t.Fatal(err)
	}
	if entries, err = os.ReadDir(links); err != nil || len(entries) != 3 {
		t.Errorf("left %v, %v", entries, err)
	}
	if err := collect(garbage.Options{LinkDir: links}); err != nil {
		t.Fatal(err)
	}
	if entries, err = os.ReadDir(links); err != nil || len(entries) != 1 || entries[0].Name() != "web_default_app-made.log" {
		t.Errorf("left %v, %v", entries, err)
	}
	if err := collect(garbage.Options{LinkDir: "["}); err == nil {
		t.Error("a directory that is no pattern")
	}
}

// Logs and links that cannot be removed are reported.
func TestLogsThatStay(t *testing.T) {
	dir := t.TempDir()
	logs, links := filepath.Join(dir, "pods"), filepath.Join(dir, "links")
	for _, name := range []string{filepath.Join(logs, "default_web_gone"), links} {
		if err := os.MkdirAll(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/missing", filepath.Join(links, "web_default_app-removed.log")); err != nil {
		t.Fatal(err)
	}
	w := &world{gone: []string{"gone"}}
	for _, stays := range []string{logs, links} {
		if err := os.Chmod(stays, 0o500); err != nil {
			t.Fatal(err)
		}
		c, err := garbage.New(w, w, garbage.Options{LogDir: logs, LinkDir: links})
		if err != nil {
			t.Fatal(err)
		}
		fakeroot.Unprivileged(t, func() {
			if err := c.CollectContainers(t.Context()); !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), stays) {
				t.Errorf("%s: %v", stays, err)
			}
		})
		if err := os.Chmod(stays, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{filepath.Join(logs, "default_web_gone"), filepath.Join(links, "web_default_app-removed.log")} {
			if _, err := os.Lstat(name); (err == nil) != (filepath.Dir(name) == stays) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := os.MkdirAll(filepath.Join(logs, "default_web_gone"), 0o755); err != nil {
			t.Fatal(err)
		}
		_ = os.RemoveAll(filepath.Join(logs, "default_web_gone"))
		_ = os.Symlink("/missing", filepath.Join(links, "web_default_app-removed.log"))
	}
}

// A disk without capacity is reported in an event.
func TestDiskWithoutCapacity(t *testing.T) {
	w, told := &world{}, ""
	c, err := garbage.New(w, w, garbage.Options{
		Disk:     func(string) (machine.Filesystem, error) { return machine.Filesystem{}, nil },
		Recorder: events.Func(func(e events.Event) { told += e.Reason + " " + e.Message }),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CollectImages(t.Context()); err == nil || told != "InvalidDiskCapacity invalid capacity 0 on image filesystem" {
		t.Errorf("%v, told %q", err, told)
	}
}
