package static_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/internal/fakeroot"
	"github.com/keelson-dev/keelson/kubelet/static"
)

// TestMirrorNotSeenYet: no second mirror is made while the first is not in the cache, until it must have been there.
func TestMirrorNotSeenYet(t *testing.T) {
	mirror(t, func(m *mirroring) {
		m.registerNode()
		m.pods.Hold()
		m.put("a")
		m.expect("0s create pods ns/web-n1")
		time.Sleep(time.Second)
		m.put("a") // as when its file is read again
		m.expect()
		time.Sleep(9900 * time.Millisecond)
		m.expect()
		time.Sleep(1100 * time.Millisecond)
		m.expect("12s create pods ns/web-n1") // it may have been seen and deleted in between
	})
}

// TestMirrorSeen: once a mirror was seen there is nothing to wait for.
func TestMirrorSeen(t *testing.T) {
	mirror(t, func(m *mirroring) {
		m.registerNode()
		m.put("a")
		m.expect("0s create pods ns/web-n1")
		m.pods.Hold()
		time.Sleep(time.Second)
		m.put("b")
		m.expect("1s delete pods ns/web-n1", "1s create pods ns/web-n1")
	})
}

// TestMirrorSeenAndGone: a mirror that is deleted before anybody looked at it is made again at once.
func TestMirrorSeenAndGone(t *testing.T) {
	mirror(t, func(m *mirroring) {
		m.registerNode()
		m.pods.Hold()
		m.put("a")
		m.expect("0s create pods ns/web-n1")
		m.delete(*metav1.NewDeleteOptions(0))
		m.pods.Resume()
		m.expect("0s create pods ns/web-n1")
	})
}

// TestMirrorSeenLateAndGone: one that was first seen when its pod was looked at, and is deleted then, is made again at once.
func TestMirrorSeenLateAndGone(t *testing.T) {
	mirror(t, func(m *mirroring) {
		m.registerNode()
		m.put("a")
		m.expect("0s create pods ns/web-n1")
		m.put("a") // it is looked at, and is as it should be
		m.expect()
		m.delete(*metav1.NewDeleteOptions(0))
		m.expect("0s create pods ns/web-n1")
	})
}

// TestNodeThatIsAnother: a node that is leaving gets no mirrors; one of its name that comes after it does.
func TestNodeThatIsAnother(t *testing.T) {
	mirror(t, func(m *mirroring) {
		leaving := node()
		leaving.DeletionTimestamp = new(metav1.Now())
		m.nodes.Put(leaving)
		m.put("a")
		m.expect()
		other := node()
		other.UID = "another"
		m.nodes.Put(other)
		m.expect("0s create pods ns/web-n1")
	})
}

// TestChangeWhileItWaits: a pod that has changed is not kept waiting for what failed before.
func TestChangeWhileItWaits(t *testing.T) {
	mirror(t, func(m *mirroring) {
		m.registerNode()
		m.away()
		m.put("a")
		m.expect("0s create pods ns/web-n1")
		time.Sleep(3 * time.Second)
		m.api.Heal()
		m.busy.Store(true) // nor for its containers: they are those of the pod that there is
		m.put("b")
		m.expect("3s create pods ns/web-n1")
		m.put("c")
		m.expect("3s delete pods ns/web-n1", "3s create pods ns/web-n1")
	})
}

// TestMirrorsEnd: the end of the context is no error, that of what mirrors are made of is one.
func TestMirrorsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := informer.New[*corev1.Pod](memory.New[*corev1.Pod](), informer.Options{})
		nodes := informer.New[*corev1.Node](memory.New[*corev1.Node](), informer.Options{})
		mirrors, err := static.NewMirrors(static.Sources{Static: pods, Pods: pods, Nodes: nodes}, &server{}, "n1", static.MirrorOptions{})
		if err != nil {
			t.Fatal(err)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if err := mirrors.Run(over); err != nil {
			t.Errorf("ended with %v", err)
		}
		if err := pods.Run(over); err != nil {
			t.Fatal(err)
		}
		if err := mirrors.Run(t.Context()); !errors.Is(err, informer.ErrStopped) || !strings.HasPrefix(err.Error(), "mirroring static pods: ") {
			t.Errorf("ended with %v", err)
		}
	})
}

// TestWhatIsRead: a file is taken as it is up to its largest size, and no more than once.
func TestWhatIsRead(t *testing.T) {
	const most = 10 << 20
	dir := t.TempDir()
	text := manifest("large", "")
	write(t, dir, "a.yaml", text+strings.Repeat("#"+strings.Repeat(" ", 1022)+"\n", (most-len(text))/1024)+strings.Repeat("\n", (most-len(text))%1024))
	prepared := 0
	d := newDirectory(t, dir, static.Options{Prepare: func(*corev1.Pod) error { prepared++; return nil }})
	for range 3 {
		if got := names(list(t, d)); got != "default/large-node1" {
			t.Errorf("got %s", got)
		}
	}
	if prepared != 1 {
		t.Errorf("read %d times", prepared)
	}
	for uid, good := range map[string]bool{".": false, "..": false, "...": true, "a/b": false, `a\\b`: false, `a\0`: false, "a.b": true} {
		dir := t.TempDir()
		write(t, dir, "a.yaml", strings.Replace(manifest("web", ""), "metadata:\n", fmt.Sprintf("metadata:\n  uid: \"%s\"\n", uid), 1))
		if got := list(t, newDirectory(t, dir, static.Options{})); (len(got) == 1) != good {
			t.Errorf("UID %q: %v", uid, got)
		}
	}
}

func TestDirectoryThatMayNotBeRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o300); err != nil {
		t.Fatal(err)
	}
	fakeroot.Unprivileged(t, func() {
		if pods, _, err := newDirectory(t, dir, static.Options{}).List(t.Context()); !errors.Is(err, os.ErrPermission) || pods != nil {
			t.Errorf("%v, %v", pods, err)
		}
	})
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestPeriod: a directory is looked at as often as upstream's kubelet does, or as is said.
func TestPeriod(t *testing.T) {
	for said, want := range map[time.Duration]time.Duration{0: 20 * time.Second, time.Minute: time.Minute} {
		if got := newDirectory(t, t.TempDir(), static.Options{Period: said}).Period(); got != want {
			t.Errorf("%s: %s", said, got)
		}
	}
}

// TestDirectoryThatIsReplaced: what happens in another directory of the same name is noticed without waiting for the next look.
func TestDirectoryThatIsReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manifests")
	replace := func(name string) {
		t.Helper()
		next := dir + ".next"
		if err := os.Mkdir(next, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, next, name+".yaml", manifest(name, ""))
		if err := errors.Join(os.RemoveAll(dir), os.Rename(next, dir)); err != nil {
			t.Fatal(err)
		}
	}
	replace("a")
	f := follow(t, newDirectory(t, dir, static.Options{Period: time.Hour}))
	f.expect(t, "added a-node1 g1 p0")
	replace("b")
	f.expect(t, "deleted a-node1 g1 p0", "added b-node1 g1 p0")
	write(t, dir, ".c", manifest("c", ""))
	if err := os.Rename(filepath.Join(dir, ".c"), filepath.Join(dir, "c.yaml")); err != nil {
		t.Fatal(err)
	}
	f.expect(t, "added c-node1 g1 p0")
}
