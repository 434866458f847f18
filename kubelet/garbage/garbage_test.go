package garbage_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/kubelet/eviction"
	"github.com/keelson-dev/keelson/kubelet/garbage"
)

var _ eviction.Reclaimer = (*garbage.Collector)(nil)

const (
	dead    = cri.ContainerExited
	alive   = cri.ContainerRunning
	unclear = cri.ContainerUnknown
)

func TestContainers(t *testing.T) {
	standard := garbage.ContainerPolicy{PerName: 1, Total: -1}
	for name, test := range map[string]struct {
		list   []cri.Container
		policy garbage.ContainerPolicy
		gone   string
		want   string
	}{
		"one dead of each name stays": {
			list: []cri.Container{container("a3", "p", "a", 3, alive), container("a2", "p", "a", 2, dead), container("a1", "p", "a", 1, dead),
				container("b1", "p", "b", 1, dead), container("a0", "p", "a", 0, dead), container("q0", "q", "a", 0, dead)},
			policy: standard, want: "a0 a1",
		},
		"none is too young":           {list: []cri.Container{container("a9", "p", "a", 9, dead), container("a1", "p", "a", 1, dead)}, policy: garbage.ContainerPolicy{MinAge: 5 * time.Minute, Total: -1}, want: "a1"},
		"of pods that are gone":       {list: []cri.Container{container("a1", "p", "a", 1, dead), container("b1", "p", "b", 1, alive), container("c1", "p", "c", 2, cri.ContainerCreated)}, policy: standard, gone: "p", want: "a1 c1"},
		"any number":                  {list: []cri.Container{container("a1", "p", "a", 1, dead), container("a2", "p", "a", 2, dead)}, policy: garbage.ContainerPolicy{PerName: -1, Total: -1}},
		"a maximum in total":          {list: []cri.Container{container("a1", "p", "a", 1, dead), container("b2", "p", "b", 2, dead), container("c3", "q", "c", 3, dead)}, policy: garbage.ContainerPolicy{PerName: 1, Total: 1}, want: "a1 b2"},
		"an equal share of each name": {list: []cri.Container{container("a1", "p", "a", 1, dead), container("a2", "p", "a", 2, dead), container("a3", "p", "a", 3, dead), container("b0", "p", "b", 0, dead)}, policy: garbage.ContainerPolicy{PerName: -1, Total: 2}, want: "a1 a2"},
		"none at all":                 {list: []cri.Container{container("a1", "p", "a", 1, dead), container("b2", "p", "b", 2, alive)}, policy: garbage.ContainerPolicy{PerName: 1, Total: 0}, want: "a1"},
		"an unknown state":            {list: []cri.Container{container("a1", "p", "a", 1, unclear)}, policy: garbage.ContainerPolicy{PerName: 0, Total: -1}, want: "a1"},
		"nothing":                     {policy: garbage.ContainerPolicy{}},
	} {
		var got []string
		for _, c := range garbage.Containers(test.list, test.policy, func(uid types.UID) bool { return string(uid) == test.gone }, at(10)) {
			got = append(got, c.ID)
		}
		if s := strings.Join(got, " "); s != test.want {
			t.Errorf("%s: %q, not %q", name, s, test.want)
		}
	}
}

func TestSandboxes(t *testing.T) {
	ready, not := cri.SandboxReady, cri.SandboxNotReady
	list := []cri.Sandbox{
		sandbox("old", "p", 1, not), sandbox("used", "p", 2, not), sandbox("newer", "p", 3, not), sandbox("newest", "p", 4, not),
		sandbox("before", "q", 1, not), sandbox("now", "q", 2, ready),
		sandbox("gone", "g", 1, not), sandbox("running", "g", 2, ready),
	}
	containers := []cri.Container{{SandboxID: "used"}}
	var got []string
	for _, s := range garbage.Sandboxes(list, containers, func(uid types.UID) bool { return uid == "g" }) {
		got = append(got, s.ID)
	}
	if s := strings.Join(got, " "); s != "before gone old newer" && s != "gone before old newer" && s != "old gone before newer" {
		t.Errorf("%s", s)
	}
}

func TestFull(t *testing.T) {
	p := garbage.ImagePolicy{High: 85, Low: 80}
	for _, test := range []struct {
		capacity, available uint64
		full                bool
		percent             int
		free                uint64
	}{
		{1000, 500, false, 50, 0},
		{1000, 160, false, 84, 0},
		{1000, 151, true, 85, 49}, // percentages are rounded up
		{1000, 150, true, 85, 50},
		{1000, 0, true, 100, 200},
		{1000, 2000, false, 0, 0},
		{0, 0, false, 0, 0},
	} {
		full, percent, free := p.Full(test.capacity, test.available)
		if full != test.full || percent != test.percent || free != test.free {
			t.Errorf("%d of %d: %v %d %d", test.available, test.capacity, full, percent, free)
		}
	}
}

// start runs a Collector over the world until the test ends.
func start(t *testing.T, w *world, o garbage.Options) *garbage.Collector {
	t.Helper()
	o.Disk = w.disk
	o.Recorder = events.Func(func(e events.Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.note("event %s: %s", e.Reason, e.Message)
	})
	c, err := garbage.New(w, w, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c
}

func expect(t *testing.T, w *world, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := w.told(); !reflect.DeepEqual(got, want) {
		t.Errorf("did\n%q\nnot\n%q", got, want)
	}
}

func TestContainersAreCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			containers: []cri.Container{
				container("a1", "p", "a", -9, dead), container("a2", "p", "a", -8, dead), container("a3", "p", "a", -7, alive),
				container("g1", "g", "a", -9, dead), container("g2", "g", "b", -9, unclear),
				{ID: "somebody else's", State: dead, CreatedAt: at(-99)}, {ID: "their other", State: dead, CreatedAt: at(-98)},
			},
			sandboxes: []cri.Sandbox{sandbox("s-p", "p", -9, cri.SandboxReady), sandbox("s-g", "g", -9, cri.SandboxNotReady)},
			gone:      []string{"g"}, unknown: true, broken: map[string]bool{},
		}
		c := start(t, w, garbage.Options{})
		time.Sleep(61 * time.Second)
		expect(t, w, "remove container a1") // it is not known yet whether a pod is gone

		w.mu.Lock()
		w.unknown, w.broken["g1"] = false, true
		w.mu.Unlock()
		time.Sleep(time.Minute)
		expect(t, w, "stop container g2", "remove container g2", "event ContainerGCFailed: removing container g1: device or resource busy")

		w.mu.Lock()
		delete(w.broken, "g1")
		w.mu.Unlock()
		time.Sleep(time.Minute)
		expect(t, w, "remove container g1", "stop sandbox s-g", "remove sandbox s-g")
		time.Sleep(time.Hour)
		expect(t, w)

		w.mu.Lock()
		w.ended = []string{"p"}
		w.mu.Unlock()
		time.Sleep(time.Hour)
		expect(t, w) // kept for its logs and exit status
		if err := c.ReclaimContainers(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect(t, w, "remove container a2")
		w.fail(cri.ErrUnavailable)
		if err := c.CollectContainers(t.Context()); !errors.Is(err, cri.ErrUnavailable) {
			t.Errorf("the runtime is gone: %v", err)
		}
	})
}

// TestWhatCannotBeStoppedStays: removing a sandbox that cannot be stopped would leak what it holds.
func TestWhatCannotBeStoppedStays(t *testing.T) {
	w := &world{
		containers: []cri.Container{container("g1", "g", "a", -9, unclear)},
		sandboxes:  []cri.Sandbox{sandbox("empty", "g", -9, cri.SandboxNotReady)},
		gone:       []string{"g"}, stuck: map[string]bool{"g1": true, "empty": true},
	}
	c, err := garbage.New(w, w, garbage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CollectContainers(t.Context()); !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "g1") || !strings.Contains(err.Error(), "empty") {
		t.Errorf("got %v", err)
	}
	if got := strings.Join(w.told(), ", "); got != "stop container g1, stop sandbox empty" {
		t.Errorf("did %s", got)
	}
}

// TestImageThatStays: an image that could not be removed frees nothing, and one that may be in use is not touched.
func TestImageThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{images: []cri.Image{image("first", 200), image("second", 200)}, broken: map[string]bool{"first": true}}
		c := start(t, w, garbage.Options{ImageUses: func() []string { return []string{"example.com/volume"} }})
		time.Sleep(3 * time.Minute)
		w.mu.Lock()
		w.other, w.inspect = 500, errBroken
		w.mu.Unlock()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		for _, line := range w.told() {
			if strings.HasPrefix(line, "remove") {
				t.Errorf("did %s without knowing what is used", line)
			}
		}
		w.mu.Lock()
		w.inspect = nil
		w.mu.Unlock()
		if err := c.CollectImages(t.Context()); !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "freed 200 bytes") {
			t.Errorf("got %v", err)
		}
		expect(t, w, "remove image second")
	})
}

func TestImagesAreCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		used := container("c", "p", "a", 0, alive)
		used.ImageID = "used"
		byRef := container("d", "p", "b", 0, dead)
		byRef.ImageRef = "example.com/by-ref"
		pinned := image("pause", 10)
		pinned.Pinned = true
		w := &world{
			containers: []cri.Container{used, byRef}, broken: map[string]bool{},
			images: []cri.Image{pinned, image("used", 100), image("by-ref", 100), image("volume", 100), image("first", 100), image("second", 100)},
		}
		reasons := map[string]int{}
		start(t, w, garbage.Options{
			ImageUses: func() []string { return []string{"example.com/volume", "example.com/missing"} },
			Collected: func(reason string) { reasons[reason]++ },
		})
		time.Sleep(6 * time.Minute)
		expect(t, w) // not even half full
		// The image "second" is used for a while, and after that later than "first".
		w.mu.Lock()
		w.containers[1].ImageRef = "second"
		w.other = 400
		w.mu.Unlock()
		time.Sleep(5 * time.Minute) // 910 of 1000: 110 must be freed, the least recently used image first
		expect(t, w, "remove image first", "remove image by-ref")
		w.mu.Lock()
		w.containers = w.containers[:1]
		w.other = 600 // 911: second is all that is left, and not enough
		w.images = append(w.images, image("fresh", 1))
		w.mu.Unlock()
		time.Sleep(4*time.Minute + 59*time.Second)
		message := "Insufficient free disk space on the node's image filesystem (92% of 1000 B used). Failed to free sufficient space by deleting unused images (freed 100 bytes). Investigate disk usage, as it could be used by active images, logs, volumes, or other data."
		expect(t, w, "remove image second", "event FreeDiskSpaceFailed: "+message)
		time.Sleep(5 * time.Minute)
		expect(t, w) // what is left is used, pinned or too young, but the disk is below 85 %
		if reasons["space"] != 3 || reasons["age"] != 0 {
			t.Errorf("counted %v", reasons)
		}
	})
}

func TestOldImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		used := container("c", "p", "a", 0, alive)
		used.ImageID = "used"
		w := &world{containers: []cri.Container{used}, images: []cri.Image{image("used", 1), image("never", 1)}, broken: map[string]bool{"never": true}}
		start(t, w, garbage.Options{Images: &garbage.ImagePolicy{High: 100, Low: 0, MaxAge: time.Hour}})
		time.Sleep(62 * time.Minute)
		expect(t, w) // not unused for an hour since the first look
		time.Sleep(15 * time.Minute)
		expect(t, w,
			"event ImageGCFailed: wanted to free images older than 1h0m0s, encountered errors in image deletion: removing image never: device or resource busy",
			"event ImageGCFailed: wanted to free images older than 1h0m0s, encountered errors in image deletion: removing image never: device or resource busy")
		w.mu.Lock()
		delete(w.broken, "never")
		w.containers = nil
		w.mu.Unlock()
		time.Sleep(10 * time.Minute)
		expect(t, w, "remove image never")
		time.Sleep(2 * time.Hour)
		expect(t, w, "remove image used")
	})
}

func TestReclaimImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		used := container("c", "p", "a", 0, alive)
		used.ImageID = "used"
		w := &world{containers: []cri.Container{used}, images: []cri.Image{image("used", 1), image("a", 1), image("b", 1)}}
		c := start(t, w, garbage.Options{})
		if err := c.ReclaimImages(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect(t, w) // too young
		time.Sleep(2 * time.Minute)
		if err := c.ReclaimImages(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect(t, w, "remove image a", "remove image b")
		w.fail(cri.ErrUnavailable)
		if err := c.ReclaimImages(t.Context()); !errors.Is(err, cri.ErrUnavailable) {
			t.Errorf("the runtime is gone: %v", err)
		}
	})
}

func TestLogs(t *testing.T) {
	dir := t.TempDir()
	logs, links := filepath.Join(dir, "pods"), filepath.Join(dir, "containers")
	for _, name := range []string{"default_web_gone/app", "default_web_here/app", "other/x", "a_b_c_gone/x"} {
		if err := os.MkdirAll(filepath.Join(logs, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(links, 0o755); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(logs, "default_web_here", "app", "0.log")
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := func(name, to string) {
		if err := os.Symlink(to, filepath.Join(links, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("web_default_app-kept.log", target)
	link("web_default_app-rotated.log", target+".missing")
	link("web_default_app-exited.log", target+".missing")
	link("web_default_app-removed.log", target+".missing")
	if err := os.WriteFile(filepath.Join(links, "file.log"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w := &world{
		gone: []string{"gone"}, unknown: true,
		containers: []cri.Container{container("rotated", "here", "app", 0, alive), container("exited", "here", "app", 0, dead)},
	}
	c, err := garbage.New(w, w, garbage.Options{LogDir: logs, LinkDir: links})
	if err != nil {
		t.Fatal(err)
	}
	left := func(dir string) string {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		return strings.Join(names, " ")
	}
	for _, test := range []struct {
		unknown bool
		want    string
	}{
		{true, "a_b_c_gone default_web_gone default_web_here other"},
		{false, "a_b_c_gone default_web_here other"},
	} {
		w.unknown = test.unknown
		if err := c.CollectContainers(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := left(logs); got != test.want {
			t.Errorf("logs: %s, not %s", got, test.want)
		}
	}
	w.ended = []string{"here"} // its logs can still be read
	if err := c.ReclaimContainers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := left(logs); got != "a_b_c_gone default_web_here other" {
		t.Errorf("logs after a reclaim: %s", got)
	}
	if got := left(links); got != "file.log web_default_app-kept.log web_default_app-rotated.log" {
		t.Errorf("links: %s", got)
	}
}

func TestNew(t *testing.T) {
	w := &world{}
	for name, o := range map[string]garbage.Options{
		"high": {Images: &garbage.ImagePolicy{High: 101}}, "low": {Images: &garbage.ImagePolicy{Low: -1}},
		"order": {Images: &garbage.ImagePolicy{High: 10, Low: 20}}, "age": {Images: &garbage.ImagePolicy{MaxAge: -1}},
		"container age": {Containers: &garbage.ContainerPolicy{MinAge: -1}},
	} {
		if _, err := garbage.New(w, w, o); !errors.Is(err, garbage.ErrPolicy) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func Example() {
	list := []cri.Container{container("first", "pod", "app", 1, dead), container("second", "pod", "app", 2, dead)}
	policy := garbage.ContainerPolicy{PerName: 1, Total: -1}
	for _, c := range garbage.Containers(list, policy, func(types.UID) bool { return false }, at(3)) {
		fmt.Println(c.ID)
	}
	// Output: first
}
