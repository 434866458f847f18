package checkpoint_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/fakeroot"
	"github.com/keelson-dev/keelson/kubelet/checkpoint"
)

func newStore(t *testing.T, dir string) *checkpoint.Store {
	t.Helper()
	s, err := checkpoint.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// files are the names in a directory.
func files(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := newStore(t, dir)
	var got map[string]int
	if err := s.Load("x", &got); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	for _, want := range []map[string]int{{"a": 1}, {"b": 2}, {}} {
		if err := s.Save("x", want); err != nil {
			t.Fatal(err)
		}
		got = nil
		if err := newStore(t, dir).Load("x", &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
	}
	if err := s.Save("y", 7); err != nil {
		t.Fatal(err)
	}
	if got := files(t, dir); got != "x.json y.json" {
		t.Errorf("there are %s", got)
	}
	info, err := os.Stat(filepath.Join(dir, "x.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	for range 2 {
		if err := s.Delete("x"); err != nil {
			t.Error(err)
		}
	}
	if err := s.Load("x", &got); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestWhatCannotBeStored(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	for _, name := range []string{"", "a/b", "..", "a.b", `a\b`, "a\x00"} {
		if s.Save(name, 1) == nil || s.Load(name, new(int)) == nil || s.Delete(name) == nil {
			t.Errorf("%q is no name", name)
		}
	}
	if err := s.Save("x", func() {}); err == nil {
		t.Error("a function cannot be saved")
	}
	if _, err := checkpoint.New(""); err == nil {
		t.Error("a store without a directory")
	}
	if got := files(t, dir); got != "" {
		t.Errorf("there are %s", got)
	}
}

func TestSaveThatFailsChangesNothing(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	if err := s.Save("x", 1); err != nil {
		t.Fatal(err)
	}
	locked(t, dir, func() {
		if err := s.Save("x", 2); !errors.Is(err, fs.ErrPermission) || !strings.HasPrefix(err.Error(), "checkpoint x: ") {
			t.Errorf("got %v", err)
		}
	})
	var got int
	if err := s.Load("x", &got); err != nil || got != 1 {
		t.Errorf("got %d, %v", got, err)
	}
}

// locked calls f while nothing can be written to a directory.
func locked(t *testing.T, dir string, f func()) {
	t.Helper()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	fakeroot.Unprivileged(t, f)
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // it is a directory
		t.Fatal(err)
	}
}

func TestFileOfACrashGoes(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".x.json.1.tmp"), []byte(strings.Repeat("x", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newStore(t, dir)
	if err := s.Save("x", 1); err != nil {
		t.Fatal(err)
	}
	var got int
	if err := s.Load("x", &got); err != nil || got != 1 || files(t, dir) != "x.json" {
		t.Errorf("got %d, %v, files %s", got, err, files(t, dir))
	}
}

func TestCorruptFiles(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	path := filepath.Join(dir, "x.json")
	if err := s.Save("x", map[string]int{"a": 1}); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ content, want string }{
		"empty":        {"", "unexpected end of JSON input"},
		"torn":         {string(good[:len(good)/2]), "unexpected end of JSON input"},
		"altered":      {strings.Replace(string(good), `"a":1`, `"a":2`, 1), "its checksum is wrong"},
		"newer":        {strings.Replace(string(good), `"version":1`, `"version":2`, 1), "it is of version 2, not 1"},
		"no envelope":  {`{"a":1}`, "it is of version 0, not 1"},
		"another kind": {strings.Replace(string(good), `{"a":1}`, `["a"]`, 1), "its checksum is wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			got := map[string]int{"untouched": 1}
			err := s.Load("x", &got)
			want := "corrupt checkpoint: " + path + ": " + test.want
			if !errors.Is(err, checkpoint.ErrCorrupt) || err.Error() != want || got["untouched"] != 1 {
				t.Errorf("got  %v, %v\nwant %s", got, err, want)
			}
			if err := s.Load("x", &got); !errors.Is(err, checkpoint.ErrNotFound) {
				t.Errorf("got %v", err)
			}
			if aside, err := os.ReadFile(path + ".corrupt"); err != nil || string(aside) != test.content {
				t.Errorf("set aside: %q, %v", aside, err)
			}
		})
	}
	// A value of another type than the saved one is corrupt too.
	if err := s.Save("x", "text"); err != nil {
		t.Fatal(err)
	}
	if err := s.Load("x", &map[string]int{}); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

func newPod(uid types.UID, cpu string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + string(uid), UID: uid},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}},
			{Name: "besteffort"},
		}},
	}
}

func TestPodsSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	restore := func() *checkpoint.Pods {
		p, err := checkpoint.Restore(newStore(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := restore()
	wait := checkpoint.Backoff{Delay: 40 * time.Second, Updated: time.Date(2026, 5, 4, 3, 2, 1, 7, time.UTC)}
	for _, err := range []error{
		p.Admit(newPod("a", "1"), newPod("b", "2"), newPod("c", "3")),
		p.SetBackoff("a", "c/1234", checkpoint.Backoff{Delay: 20 * time.Second}),
		p.SetBackoff("a", "c/1234", wait),
		p.SetBackoff("unheard of", "c", wait),
		p.Admit(newPod("a", "1500m")),
		p.Forget("b", "unheard of"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	p = restore()
	got, ok := p.Get("a")
	if !ok || got.Namespace != "ns" || got.Name != "pod-a" || got.Backoffs["c/1234"] != wait {
		t.Errorf("got %+v, %t", got, ok)
	}
	cpu := got.Resources["c"].Requests["cpu"]
	if cpu.String() != "1500m" || len(got.Resources) != 1 {
		t.Errorf("got %+v", got.Resources)
	}
	for uid, want := range map[types.UID]bool{"b": false, "c": true, "unheard of": false} {
		if _, ok := p.Get(uid); ok != want {
			t.Errorf("%s is known: %t", uid, ok)
		}
	}
	if orphans, err := p.Orphans(func(uid types.UID) bool { return uid == "a" }); err != nil || len(orphans) != 1 || orphans[0] != "c" {
		t.Errorf("orphans %v, %v", orphans, err)
	}
}

func TestWhatWasHandedOutDoesNotChange(t *testing.T) {
	var p checkpoint.Pods // without a store
	pod := newPod("a", "1")
	if err := p.Admit(pod); err != nil {
		t.Fatal(err)
	}
	if err := p.SetBackoff("a", "c", checkpoint.Backoff{Delay: 1}); err != nil {
		t.Fatal(err)
	}
	before, _ := p.Get("a")
	if err := p.SetBackoff("a", "c", checkpoint.Backoff{Delay: 2}); err != nil {
		t.Fatal(err)
	}
	pod.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("9")
	if cpu := before.Resources["c"].Requests["cpu"]; before.Backoffs["c"].Delay != 1 || cpu.String() != "1" {
		t.Errorf("got %+v", before)
	}
}

func TestCorruptPods(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "pods.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := checkpoint.Restore(newStore(t, dir))
	if !errors.Is(err, checkpoint.ErrCorrupt) || !strings.HasPrefix(err.Error(), "the checkpoint of admitted pods cannot be read: ") {
		t.Errorf("got %v", err)
	}
	if err := p.Admit(newPod("a", "1")); err != nil {
		t.Fatal(err)
	}
	if p, err = checkpoint.Restore(newStore(t, dir)); err != nil {
		t.Fatal(err)
	}
	if _, ok := p.Get("a"); !ok {
		t.Error("a should be known")
	}
	if _, err := checkpoint.Restore(nil); err == nil {
		t.Error("restored from nothing")
	}
}

// TestFullDisk: a change that could not be written is remembered, and written with the next one.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	p, err := checkpoint.Restore(newStore(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	locked(t, dir, func() {
		if err := p.Admit(newPod("a", "1")); err == nil {
			t.Fatal("it should fail")
		}
	})
	if _, ok := p.Get("a"); !ok {
		t.Error("a should be known")
	}
	if err := p.Admit(newPod("b", "1")); err != nil {
		t.Fatal(err)
	}
	again, err := checkpoint.Restore(newStore(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := again.Get("a"); !ok {
		t.Error("a should be written down")
	}
}

func TestManyAtOnce(t *testing.T) {
	dir := t.TempDir()
	p, err := checkpoint.Restore(newStore(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	const pods = 50
	var group sync.WaitGroup
	for i := range pods {
		group.Go(func() {
			uid := types.UID(fmt.Sprint(i))
			if err := p.Admit(newPod(uid, "1")); err != nil {
				t.Error(err)
			}
			// Admitted pods are on disk, whichever call wrote them.
			seen, err := checkpoint.Restore(newStore(t, dir))
			if err != nil {
				t.Error(err)
			}
			if _, ok := seen.Get(uid); !ok {
				t.Errorf("%s is not on disk", uid)
			}
			if i%2 == 0 {
				if err := p.Forget(uid); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	last, err := checkpoint.Restore(newStore(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		if _, ok := last.Get(types.UID(fmt.Sprint(i))); ok != (i%2 == 1) {
			t.Errorf("%d is known: %t", i, ok)
		}
	}
}

// FuzzLoad: a file is either as written or corrupt.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"version":1,"checksum":"","data":{}}`))
	f.Add([]byte(`{"version":1,"checksum":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","data":{}}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "pods.json"), content, 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := checkpoint.Restore(newStore(t, dir))
		if err != nil && !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Error(err)
		}
		if err == nil && !json.Valid(content) {
			t.Errorf("accepted %q", content)
		}
		if err := p.Admit(newPod("a", "1")); err != nil {
			t.Error(err)
		}
	})
}

func BenchmarkAdmit(b *testing.B) {
	s, err := checkpoint.New(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	p, err := checkpoint.Restore(s)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 110 {
		if err := p.Admit(newPod(types.UID(fmt.Sprint(i)), "1")); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if err := p.Admit(newPod("0", "2")); err != nil {
			b.Fatal(err)
		}
	}
}

// A saved value that is not valid pods is dropped completely, with an error, and work continues.
func TestPodsOfAnotherForm(t *testing.T) {
	for name, tt := range map[string]struct {
		saved any
		bad   bool
	}{
		"nothing":  {nil, false},
		"a number": {7, true},
		"a part":   {map[string]any{"a": checkpoint.Pod{Name: "a"}, "b": 5}, true},
	} {
		store := newStore(t, t.TempDir())
		if err := store.Save("pods", tt.saved); err != nil {
			t.Fatal(err)
		}
		p, err := checkpoint.Restore(store)
		if errors.Is(err, checkpoint.ErrCorrupt) != tt.bad || !tt.bad && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if known, _ := p.Orphans(func(types.UID) bool { return false }); len(known) != 0 {
			t.Errorf("%s: knows %v", name, known)
		}
		if err := p.Admit(newPod("c", "1")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every change is on disk when its call returns, and calls without a change write nothing.
func TestWhatIsWritten(t *testing.T) {
	dir := t.TempDir()
	p, err := checkpoint.Restore(newStore(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	limited := newPod("a", "1")
	limited.Spec.Containers[1].Resources.Limits = corev1.ResourceList{"memory": resource.MustParse("1Gi")}
	wait := checkpoint.Backoff{Delay: time.Second}
	for i, step := range []struct {
		change  func() error
		written bool
		pods    int
		waits   int
	}{
		{func() error { return p.Admit() }, false, 0, 0},
		{func() error { return p.SetBackoff("a", "c", wait) }, false, 0, 0},
		{func() error { return p.Forget("a") }, false, 0, 0},
		{func() error { return p.Admit(limited, newPod("b", "1")) }, true, 2, 0},
		{func() error { return p.SetBackoff("a", "c", wait) }, true, 2, 1},
		{func() error { return p.SetBackoff("unheard of", "c", wait) }, false, 2, 1},
		{func() error { return p.SetInForce("a", nil) }, false, 2, 1},
		{func() error { return p.SetInForce("unheard of", nil) }, false, 2, 1},
		{func() error { return p.Forget("b") }, true, 1, 1},
		{func() error { return p.Forget("b") }, false, 1, 1},
	} {
		// Whatever is written replaces this.
		file := filepath.Join(dir, "pods.json")
		before, err := os.Stat(file)
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		after, afterErr := os.Stat(file)
		written := err != nil && afterErr == nil || err == nil && afterErr == nil && !os.SameFile(before, after)
		if written != step.written {
			t.Errorf("step %d: written %v", i, written)
		}
		if !written {
			continue
		}
		again, err := checkpoint.Restore(newStore(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		known, _ := again.Orphans(func(types.UID) bool { return false })
		a, _ := again.Get("a")
		limit := a.Resources["besteffort"].Limits["memory"]
		if len(known) != step.pods || len(a.Backoffs) != step.waits || limit.String() != "1Gi" {
			t.Errorf("step %d: knows %v, %+v", i, known, a)
		}
	}
	// If it cannot be written, the caller that made the change gets the error.
	locked(t, dir, func() {
		for name, err := range map[string]error{
			"Admit": p.Admit(newPod("d", "1")), "SetBackoff": p.SetBackoff("a", "c", wait), "Forget": p.Forget("a"),
		} {
			if !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestStoreThatCannotBeReached(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	below := newStore(t, filepath.Join(dir, "file", "store"))
	if err := below.Save("x", 1); !errors.Is(err, syscall.ENOTDIR) || !strings.HasPrefix(err.Error(), "checkpoint x: ") {
		t.Errorf("saved below a file: %v", err)
	}
	s := newStore(t, dir)
	if err := os.MkdirAll(filepath.Join(dir, "x.json", "y"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Load("x", new(int)); !errors.Is(err, syscall.EISDIR) || !strings.HasPrefix(err.Error(), "checkpoint x: ") {
		t.Errorf("loaded a directory: %v", err)
	}
	if err := s.Delete("x"); !errors.Is(err, syscall.ENOTEMPTY) || !strings.HasPrefix(err.Error(), "checkpoint x: ") {
		t.Errorf("deleted a directory: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "z.json"), []byte("?"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Load("z", new(int)); !errors.Is(err, checkpoint.ErrCorrupt) || !strings.Contains(err.Error(), "invalid character '?'") {
		t.Errorf("loaded what is no checkpoint: %v", err)
	}
}

// Names that may be lost in a crash of the machine are an error: those in a directory that cannot be synced.
func TestDirectoryThatCannotBeRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := newStore(t, dir)
	if err := s.Save("x", 1); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o300); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Chmod(dir, 0o700) }()
	fakeroot.Unprivileged(t, func() {
		for name, err := range map[string]error{"save": s.Save("x", 2), "delete": s.Delete("x")} {
			if !errors.Is(err, os.ErrPermission) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestResizes: what a pod was given and what is in force survive a restart.
func TestResizes(t *testing.T) {
	store, err := checkpoint.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	of := func(cpu string) *corev1.Pod {
		r := corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "a"}, Spec: corev1.PodSpec{
			Resources: &r, Containers: []corev1.Container{{Name: "main", Resources: r}},
		}}
	}
	read := func() string {
		t.Helper()
		pods, err := checkpoint.Restore(store)
		if err != nil {
			t.Fatal(err)
		}
		pod, ok := pods.Get("a")
		if !ok {
			return "unknown"
		}
		text := func(whole *corev1.ResourceRequirements, r map[string]corev1.ResourceRequirements) string {
			cpu := r["main"].Requests["cpu"]
			return whole.Requests.Cpu().String() + "," + cpu.String()
		}
		out := text(pod.PodResources, pod.Resources)
		if pod.InForce != nil {
			out += " in force " + text(pod.InForce.Pod, pod.InForce.Containers)
		}
		return out
	}
	pods, err := checkpoint.Restore(store)
	if err != nil {
		t.Fatal(err)
	}
	inForce := func(cpu string) *checkpoint.Allocation {
		spec := of(cpu).Spec
		return &checkpoint.Allocation{Pod: spec.Resources, Containers: map[string]corev1.ResourceRequirements{"main": spec.Containers[0].Resources}}
	}
	for i, step := range []struct {
		do   func() error
		want string
	}{
		{func() error { return pods.Resize(of("1")) }, "unknown"},
		{func() error { return pods.SetInForce("a", inForce("1")) }, "unknown"},
		{func() error { return pods.Admit(of("1")) }, "1,1"},
		{func() error { return pods.Resize(of("2")) }, "2,2 in force 1,1"},
		{func() error { return pods.Resize(of("3")) }, "3,3 in force 1,1"},
		{func() error { return pods.SetInForce("a", inForce("2")) }, "3,3 in force 2,2"},
		{func() error { return pods.SetInForce("a", nil) }, "3,3"},
		{func() error { return pods.SetInForce("a", nil) }, "3,3"},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got := read(); got != step.want {
			t.Errorf("%d: %s, want %s", i, got, step.want)
		}
	}
}
