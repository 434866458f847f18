package informertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/informer"
)

// Backend is a fresh, empty Source of ConfigMaps and the means to change what it shows. The
// functions fail the test themselves when they cannot do their part.
type Backend struct {
	Source informer.Source[*corev1.ConfigMap]
	// Put creates or replaces an object.
	Put func(*corev1.ConfigMap)
	// Delete removes an object that is there.
	Delete func(namespace, name string)
	// Expire forgets the history, so that watches which have not seen all of it expire. It may
	// be nil for a source that cannot be told to.
	Expire func()
}

// TestSource runs the suite. The function opens a new Backend for each part. A source that keeps
// back what it should tell makes it wait until the test binary's -timeout.
func TestSource(t *testing.T, open func(t *testing.T) Backend) {
	for _, part := range []struct {
		name string
		test func(*suite)
	}{
		{"empty list can be watched from", (*suite).emptyList},
		{"list is complete and in key order", (*suite).listOrder},
		{"watch sees every change in order", (*suite).watchOrder},
		{"deletion carries the last state", (*suite).deletion},
		{"watch resumes from each version", (*suite).resume},
		{"list and watch fit together", (*suite).fit},
		{"expired versions are told", (*suite).expired},
		{"waiting ends with the context", (*suite).contextEnds},
		{"close may be repeated", (*suite).closeTwice},
		{"readers do not disturb each other", (*suite).concurrent},
	} {
		t.Run(part.name, func(t *testing.T) {
			part.test(&suite{T: t, Backend: open(t)})
		})
	}
}

// suite is one part at work.
type suite struct {
	*testing.T
	Backend
}

func object(namespace, name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data:       map[string]string{"value": value},
	}
}

// said is one event in short.
func said(e informer.Event[*corev1.ConfigMap]) string {
	return fmt.Sprintf("%s %s/%s=%s", e.Type, e.Object.Namespace, e.Object.Name, e.Object.Data["value"])
}

func (s *suite) list() ([]string, string) {
	s.Helper()
	items, version, err := s.Source.List(s.Context())
	if err != nil {
		s.Fatalf("List: %v", err)
	}
	var out []string
	for _, o := range items {
		if o.ResourceVersion == "" {
			s.Errorf("%s has no resource version", o.Name)
		}
		out = append(out, fmt.Sprintf("%s/%s=%s", o.Namespace, o.Name, o.Data["value"]))
	}
	return out, version
}

func (s *suite) watch(version string) informer.Stream[*corev1.ConfigMap] {
	s.Helper()
	stream, err := s.Source.Watch(s.Context(), version)
	if err != nil {
		s.Fatalf("Watch from %q: %v", version, err)
	}
	s.Cleanup(stream.Close)
	return stream
}

// read returns the next n events that are not bookmarks, and checks their form.
func (s *suite) read(stream informer.Stream[*corev1.ConfigMap], n int) []informer.Event[*corev1.ConfigMap] {
	s.Helper()
	var out []informer.Event[*corev1.ConfigMap]
	for len(out) < n {
		events, err := stream.Next(s.Context())
		if err != nil {
			s.Fatalf("Next after %d of %d events: %v", len(out), n, err)
		}
		if len(events) == 0 {
			s.Fatal("Next returned no event and no error")
		}
		for _, e := range events {
			switch {
			case e.Version == "":
				s.Errorf("%s has no version", e.Type)
			case e.Type == informer.Bookmark:
				continue
			case e.Object == nil:
				s.Fatalf("%s has no object", e.Type)
			case e.Object.ResourceVersion != e.Version:
				s.Errorf("%s of version %s has an object of version %s", e.Type, e.Version, e.Object.ResourceVersion)
			}
			out = append(out, e)
		}
	}
	if len(out) > n {
		s.Fatalf("%d events, want %d: the last is %s", len(out), n, said(out[len(out)-1]))
	}
	return out
}

func (s *suite) expect(stream informer.Stream[*corev1.ConfigMap], want ...string) {
	s.Helper()
	var got []string
	for _, e := range s.read(stream, len(want)) {
		got = append(got, said(e))
	}
	if !slices.Equal(got, want) {
		s.Errorf("events %q, want %q", got, want)
	}
}

func (s *suite) emptyList() {
	items, version := s.list()
	if len(items) > 0 || version == "" {
		s.Fatalf("%d items at %q", len(items), version)
	}
	stream := s.watch(version)
	s.Put(object("a", "x", "1"))
	s.expect(stream, "ADDED a/x=1")
}

func (s *suite) listOrder() {
	for _, o := range []*corev1.ConfigMap{object("b", "a", "1"), object("a", "z", "2"), object("a-b", "x", "3"), object("a", "b.c", "4"), object("a", "b", "5")} {
		s.Put(o)
	}
	s.Put(object("a", "z", "6"))
	s.Put(object("c", "gone", "7"))
	s.Delete("c", "gone")
	got, _ := s.list()
	want := []string{"a-b/x=3", "a/b=5", "a/b.c=4", "a/z=6", "b/a=1"}
	if !slices.Equal(got, want) {
		s.Errorf("list %q, want %q", got, want)
	}
}

func (s *suite) watchOrder() {
	_, version := s.list()
	before, after := s.watch(version), version
	s.Put(object("b", "x", "1"))
	s.Put(object("a", "x", "1"))
	s.Put(object("b", "x", "2"))
	s.Delete("a", "x")
	s.Put(object("a", "x", "3"))
	want := []string{"ADDED b/x=1", "ADDED a/x=1", "MODIFIED b/x=2", "DELETED a/x=1", "ADDED a/x=3"}
	s.expect(before, want...)
	s.expect(s.watch(after), want...)
}

func (s *suite) deletion() {
	s.Put(object("a", "x", "1"))
	_, version := s.list()
	s.Put(object("a", "x", "2"))
	s.Delete("a", "x")
	events := s.read(s.watch(version), 2)
	if got := said(events[1]); got != "DELETED a/x=2" {
		s.Errorf("got %s", got)
	}
	if events[0].Version == events[1].Version {
		s.Error("the deletion has the version of the change before")
	}
}

func (s *suite) resume() {
	_, version := s.list()
	versions := []string{version}
	for n := range 5 {
		s.Put(object("a", fmt.Sprint(n%2), fmt.Sprint(n)))
	}
	s.Delete("a", "0")
	all := s.read(s.watch(version), 6)
	for _, e := range all {
		versions = append(versions, e.Version)
	}
	for n, version := range versions[:6] {
		var want []string
		for _, e := range all[n:] {
			want = append(want, said(e))
		}
		s.expect(s.watch(version), want...)
	}
	last := s.watch(versions[6])
	s.Put(object("a", "new", "9"))
	s.expect(last, "ADDED a/new=9")
}

func (s *suite) fit() {
	s.Put(object("a", "x", "1"))
	items, version := s.list()
	s.Put(object("a", "y", "2"))
	if !slices.Equal(items, []string{"a/x=1"}) {
		s.Errorf("list %q", items)
	}
	s.expect(s.watch(version), "ADDED a/y=2")
}

func (s *suite) expired() {
	if s.Expire == nil {
		return // this source does not forget on demand
	}
	_, version := s.list()
	idle := s.watch(version)
	s.Put(object("a", "x", "1"))
	s.Put(object("a", "x", "2"))
	s.Expire()
	if err := s.until(idle); !errors.Is(err, informer.ErrExpired) && err != nil {
		s.Errorf("Next of a watch that fell behind: %v", err)
	}
	stream, err := s.Source.Watch(s.Context(), version)
	if err == nil {
		defer stream.Close()
		if err = s.until(stream); err == nil {
			s.Fatal("an expired version could be watched from")
		}
	}
	if !errors.Is(err, informer.ErrExpired) {
		s.Errorf("Watch from an expired version: %v", err)
	}
	items, version := s.list()
	if !slices.Equal(items, []string{"a/x=2"}) {
		s.Errorf("list %q", items)
	}
	fresh := s.watch(version)
	s.Put(object("a", "x", "3"))
	s.expect(fresh, "MODIFIED a/x=3")
}

// until reads the two events that were made, or returns the error that came instead.
func (s *suite) until(stream informer.Stream[*corev1.ConfigMap]) error {
	for seen := 0; seen < 2; {
		events, err := stream.Next(s.Context())
		if err != nil {
			return err
		}
		seen += len(events)
	}
	return nil
}

func (s *suite) contextEnds() {
	_, version := s.list()
	stream := s.watch(version)
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan error, 1)
	go func() {
		for {
			if _, err := stream.Next(ctx); err != nil {
				done <- err
				return
			}
		}
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		s.Errorf("Next: %v", err)
	}
}

func (s *suite) closeTwice() {
	_, version := s.list()
	stream := s.watch(version)
	stream.Close()
	stream.Close()
	other := s.watch(version)
	s.Put(object("a", "x", "1"))
	s.expect(other, "ADDED a/x=1")
}

func (s *suite) concurrent() {
	const readers, writes = 8, 50
	_, version := s.list()
	seen := make([][]string, readers)
	var wg sync.WaitGroup
	for n := range readers {
		stream := s.watch(version)
		wg.Go(func() {
			for len(seen[n]) < writes {
				events, err := stream.Next(s.Context())
				if err != nil {
					s.Errorf("reader %d: %v", n, err)
					return
				}
				for _, e := range events {
					if e.Type != informer.Bookmark {
						seen[n] = append(seen[n], said(e)+"@"+e.Version)
					}
				}
			}
		})
	}
	for n := range writes {
		s.Put(object("a", fmt.Sprint(n%7), fmt.Sprint(n)))
	}
	wg.Wait()
	for n := 1; n < readers; n++ {
		if !slices.Equal(seen[0], seen[n]) {
			s.Errorf("reader %d saw %q, reader 0 %q", n, seen[n], seen[0])
		}
	}
}
