package dra_test

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
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/kubelet/dra"
)

// server is an API server that answers as it is told.
type server struct {
	mu        sync.Mutex
	claim     runtime.Object
	slices    runtime.Object
	err       error // of all requests
	deletions error
	lists     int
	deleted   []string
}

func (s *server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *server) Get(context.Context, client.Target) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claim, s.err
}

func (s *server) List(_ context.Context, _ client.Target, o metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	if o.FieldSelector != "spec.nodeName=n" {
		return nil, fmt.Errorf("selects %s", o.FieldSelector)
	}
	return s.slices, s.err
}

func (s *server) Delete(_ context.Context, t client.Target, o metav1.DeleteOptions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deletions != nil {
		return s.deletions
	}
	s.deleted = append(s.deleted, t.Name+" "+string(*o.Preconditions.UID))
	return nil
}

func published(drivers ...string) *resourcev1.ResourceSliceList {
	list := &resourcev1.ResourceSliceList{}
	for _, driver := range drivers {
		s := resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: driver}}
		s.Name, s.UID = "of-"+driver, "1"
		list.Items = append(list.Items, s)
	}
	return list
}

// TestAnswers: claims that the server does not show as they should be are not prepared.
func TestAnswers(t *testing.T) {
	a := pod("a", "x")
	of := func(change func(c *resourcev1.ResourceClaim)) *resourcev1.ResourceClaim {
		c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", UID: "u"}}
		c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "a", UID: "a"}}
		c.Status.Allocation = &resourcev1.AllocationResult{}
		change(c)
		return c
	}
	for want, s := range map[string]*server{
		"fetch ResourceClaim x: down":                               {err: errors.New("down")},
		"fetch ResourceClaim x: the server answered with a *v1.Pod": {claim: &corev1.Pod{}},
		"ResourceClaim x: not allocated":                            {claim: of(func(c *resourcev1.ResourceClaim) { c.Status.Allocation = nil })},
		"pod a (a) is not allowed to use ResourceClaim x (u)":       {claim: of(func(c *resourcev1.ResourceClaim) { c.Status.ReservedFor[0].UID = "b" })},
		"DRA driver name is empty": {claim: of(func(c *resourcev1.ResourceClaim) {
			c.Status.Allocation.Devices.Results = make([]resourcev1.DeviceRequestAllocationResult, 1)
		})},
		"": {claim: of(func(*resourcev1.ResourceClaim) {})},
	} {
		m, err := dra.New(t.TempDir(), "n", s, dra.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := m.Prepare(t.Context(), a); err != nil {
			got = strings.TrimPrefix(err.Error(), "prepare dynamic resources: ")
		}
		equal(t, "preparing", got, want)
		if _, err := m.CDIDevices(a, &a.Spec.Containers[0]); (err == nil) != (want == "") {
			t.Errorf("devices: %v", err)
		}
	}
}

// TestFiles: what cannot be written is not done.
func TestFiles(t *testing.T) {
	w := newWorld(t, dra.Options{})
	s := w.serve(driverName)
	a := pod("a", "x")
	c := w.claim("x", []string{driverName}, a)
	dir := filepath.Join(w.dir, "dra")
	block := func() {
		if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
			t.Error(err)
		}
	}
	free := func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	}
	block()
	w.prepare(a, "prepare dynamic resources: checkpoint ResourceClaim state: …")
	equal(t, "calls before it is noted", s.took(), "")
	if _, err := dra.New(w.dir, "n", w.api, dra.Options{}); err == nil {
		t.Error("a file is taken for the directory")
	}
	free()
	s.set(func() { s.during = block })
	w.prepare(a, "prepare dynamic resources: checkpoint ResourceClaim state: …")
	equal(t, "calls", s.took(), "prepare default/x")
	equal(t, "devices", w.devices(a, 0), "ResourceClaim x is not prepared")
	s.set(func() { s.during = nil })
	w.release(a, "unprepare dynamic resources: checkpoint ResourceClaim state: …")
	equal(t, "calls before the end is noted", s.took(), "")
	free()
	w.prepare(a, "done")
	s.took()

	d, e := pod("d", "y"), pod("e", "y")
	w.claim("y", []string{driverName}, d, e)
	w.prepare(d, "done")
	w.prepare(e, "done")
	block()
	w.release(d, "unprepare dynamic resources: checkpoint ResourceClaim state: …")
	free()
	w.release(d, "done")
	if got, err := w.Orphans(func(p types.UID) bool { return p == a.UID }); err != nil || !slices.Equal(got, []types.UID{e.UID}) {
		t.Errorf("claims are left of %v, %v", got, err)
	}
	w.release(e, "done")
	equal(t, "calls for two pods", s.took(), "prepare default/y, unprepare default/y")
	w.release(a, "done")
	w.prepare(a, "done")
	s.took()

	file := filepath.Join(dir, string(c.UID)+".json")
	s.set(func() {
		s.during = func() {
			if err := errors.Join(os.Remove(file), os.MkdirAll(filepath.Join(file, "x"), 0o700)); err != nil {
				t.Error(err)
			}
		}
	})
	w.release(a, "unprepare dynamic resources: checkpoint ResourceClaim state: …")
	if _, err := dra.New(w.dir, "n", w.api, dra.Options{}); err == nil {
		t.Error("a directory is taken for a file")
	}
	s.set(func() { s.during = func() { _ = os.Remove(file) } })
	if err := os.RemoveAll(file); err != nil {
		t.Error(err)
	}
	w.release(a, "done") // somebody removes the file
	if err := os.WriteFile(filepath.Join(dir, ".x.json"), []byte("half"), 0o600); err != nil {
		t.Error(err)
	}
	if _, err := dra.New(w.dir, "n", w.api, dra.Options{}); err != nil {
		t.Errorf("with a file that was being written: %v", err)
	}

	blocked := t.TempDir()
	if err := os.WriteFile(filepath.Join(blocked, "plugins_registry"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := dra.New(blocked, "n", w.api, dra.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(t.Context()); err == nil {
		t.Error("it runs where registrars cannot be")
	}
}

// TestTurns: who waits for another's call about the claim may give up.
func TestTurns(t *testing.T) {
	w := newWorld(t, dra.Options{})
	s := w.serve(driverName)
	a, b := pod("a", "x"), pod("b", "x")
	w.claim("x", []string{driverName}, a, b)
	called, goOn := make(chan bool), make(chan bool)
	s.set(func() { s.during = func() { called <- true; <-goOn } })
	done := make(chan error)
	for _, step := range []struct {
		first  func() error
		second func(ctx context.Context) error
	}{
		{func() error { return w.Prepare(t.Context(), a) }, func(ctx context.Context) error { return w.Prepare(ctx, b) }},
		{func() error { return w.Release(t.Context(), a.UID) }, func(ctx context.Context) error { return w.Release(ctx, a.UID) }},
	} {
		go func() { done <- step.first() }()
		<-called
		brief, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if err := step.second(brief); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		cancel()
		goOn <- true
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	equal(t, "calls", s.took(), "prepare default/x, unprepare default/x")
}

// absent runs a manager in virtual time, on whose node drivers have published devices.
func absent(t *testing.T, s *server, o dra.Options, test func(log func() string)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var log bytes.Buffer
		o.Logger = slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return log.Write(p)
		}), nil))
		m, err := dra.New(dir, "n", s, o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		test(func() string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			defer log.Reset()
			return log.String()
		})
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// TestAbsence: what drivers have published that do not come back goes after 30 seconds, once, whatever fails meanwhile.
func TestAbsence(t *testing.T) {
	gone := apierrors.NewNotFound(resourcev1.Resource("resourceslices"), "x")
	s := &server{slices: published("a", "b")}
	said := func(want string) {
		t.Helper()
		s.set(func() { equal(t, "deleted", strings.Join(s.deleted, ", "), want) })
	}
	absent(t, s, dra.Options{}, func(log func() string) {
		time.Sleep(29*time.Second + time.Second/2)
		said("")
		time.Sleep(time.Second)
		said("of-a 1, of-b 1")
		s.set(func() { s.lists = 0 })
		time.Sleep(time.Hour)
		equal(t, "log", log(), "")
		if s.lists > 0 {
			t.Errorf("%d lists for nothing", s.lists)
		}
	})
	s = &server{slices: published("a"), err: errors.New("down")}
	absent(t, s, dra.Options{}, func(log func() string) {
		time.Sleep(time.Minute)
		if got := log(); !strings.Contains(got, "listing what DRA drivers have published failed, will retry") || !strings.Contains(got, "down") {
			t.Errorf("log %s", got)
		}
		s.set(func() { s.err = nil })
		time.Sleep(29 * time.Second)
		said("")
		s.set(func() { s.deletions = errors.New("busy") })
		time.Sleep(10 * time.Second)
		said("")
		if got := log(); !strings.Contains(got, "deleting what a DRA driver has published failed, will retry") || !strings.Contains(got, "busy") {
			t.Errorf("log %s", got)
		}
		s.set(func() { s.deletions = nil })
		time.Sleep(2 * time.Second)
		said("of-a 1")
	})
	s = &server{slices: &corev1.Pod{}}
	absent(t, s, dra.Options{}, func(log func() string) {
		time.Sleep(time.Second / 2)
		if got := log(); !strings.Contains(got, "listing resource slices: the server answered with a *v1.Pod") {
			t.Errorf("log %s", got)
		}
	})
	s = &server{slices: published("a"), deletions: gone}
	absent(t, s, dra.Options{}, func(log func() string) {
		time.Sleep(time.Minute)
		s.set(func() { s.lists = 0 })
		time.Sleep(time.Minute)
		equal(t, "log", log(), "")
		if s.lists > 0 {
			t.Errorf("%d lists for what others have deleted", s.lists)
		}
	})
	s = &server{err: gone}
	absent(t, s, dra.Options{}, func(log func() string) {
		time.Sleep(time.Minute)
		equal(t, "log", log(), "")
		if s.lists != 1 {
			t.Errorf("%d lists of a resource that is not served", s.lists)
		}
	})
}
