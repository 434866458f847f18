package etcd_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/etcd"
)

// changes returns events of one revision, with values of the given sizes.
func changes(revision int64, sizes ...int) []storage.Event {
	var events []storage.Event
	for _, size := range sizes {
		events = append(events, storage.Event{Type: storage.Put, Revision: revision, Key: "k", Value: make([]byte, size-1)})
	}
	return events
}

// revisions returns the revisions of events, negative for progress.
func revisions(events []storage.Event) []int64 {
	var all []int64
	for _, e := range events {
		if e.Type == storage.Progress {
			all = append(all, -e.Revision)
			continue
		}
		all = append(all, e.Revision)
	}
	return all
}

// TestStreamIsBounded: a stream buffers changes and bytes up to its limits, and always one whole batch; read changes no
// longer count. One that was cut off returns only the error.
func TestStreamIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		puts [][]storage.Event
		fine int  // how many of them
		read bool // after each
	}{
		"as many as may be":  {puts: [][]storage.Event{changes(11, 1), changes(12, 1, 1)}, fine: 2},
		"one more":           {puts: [][]storage.Event{changes(11, 1), changes(12, 1, 1), changes(13, 1)}, fine: 2},
		"many at once":       {puts: [][]storage.Event{changes(11, 1, 1, 1, 1, 1)}, fine: 1},
		"as large as may be": {puts: [][]storage.Event{changes(11, 60), changes(12, 40)}, fine: 2},
		"a byte more":        {puts: [][]storage.Event{changes(11, 60), changes(12, 41)}, fine: 1},
		"large at once":      {puts: [][]storage.Event{changes(11, 500)}, fine: 1},
		"read each time":     {puts: [][]storage.Event{changes(11, 90), changes(12, 1, 1, 90), changes(13, 90)}, fine: 3, read: true},
	} {
		s := etcd.NewStream(3, 100, 10)
		ctx := patient(t)
		var told []int64
		for i, events := range c.puts {
			if fine := s.Put(events); fine != (i < c.fine) {
				t.Errorf("%s: batch %d is taken: %v", name, i, fine)
			}
			if c.read {
				events, err := s.Next(ctx)
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				told = append(told, revisions(events)...)
			}
		}
		if c.fine < len(c.puts) {
			for range 2 {
				if events, err := s.Next(ctx); len(events) != 0 || !errors.Is(err, storage.ErrCompacted) {
					t.Errorf("%s: %v, %v", name, events, err)
				}
			}
			if s.Put(changes(99, 1)) {
				t.Errorf("%s: it takes more", name)
			}
			continue
		}
		if !c.read {
			events, err := s.Next(ctx)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			told = revisions(events)
		}
		var want []int64
		for _, events := range c.puts {
			want = append(want, revisions(events)...)
		}
		if !slices.Equal(told, want) {
			t.Errorf("%s: told %v, want %v", name, told, want)
		}
	}
}

// TestStreamsProgress: progress is delivered once, after the changes, and only where no change implies it.
func TestStreamsProgress(t *testing.T) {
	s := etcd.NewStream(10, 1000, 10)
	for i, step := range []struct {
		do   func()
		want []int64
	}{
		{func() { s.Pass(12) }, []int64{-12}},
		{func() { s.Put(changes(13, 1)) }, []int64{13}},
		{func() { s.Put(changes(14, 1)); s.Pass(15) }, []int64{14, -15}},
		{func() { s.Pass(16); s.Put(changes(17, 1)) }, []int64{17}},
		{func() { s.Pass(18); s.Pass(17); s.Pass(20) }, []int64{-20}},
		{func() { s.Pass(20); s.Put(changes(21, 1)); s.Put(changes(22, 1, 1)) }, []int64{21, 22, 22}},
	} {
		step.do()
		events, err := s.Next(patient(t))
		if got := revisions(events); err != nil || !slices.Equal(got, step.want) {
			t.Errorf("step %d: %v, %v, want %v", i, got, err, step.want)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if events, err := s.Next(ended); len(events) != 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("step %d, then: %v, %v", i, events, err)
		}
	}
	if at, wanted := s.Standing(); at != 22 || wanted != 10 {
		t.Errorf("it stands at %d of %d", at, wanted)
	}
	s.Want(30)
	s.Want(25)
	if at, wanted := s.Standing(); at != 22 || wanted != 30 {
		t.Errorf("it stands at %d of %d", at, wanted)
	}
	if !s.Behind() || s.Behind() {
		t.Error("it is not told once that it is behind")
	}
	s.Pass(40)
	if s.Want(35); s.Behind() {
		t.Error("it is behind what it is past")
	}
	first, second := errors.New("first"), errors.New("second")
	s.Fail(first)
	s.Fail(second)
	s.Pass(50)
	if events, err := s.Next(patient(t)); len(events) != 0 || !errors.Is(err, first) {
		t.Errorf("after its end: %v, %v", events, err)
	}
}

// TestAsksLessAndLess: the first progress request goes out five milliseconds after a revision is wanted; then intervals
// double up to half a second, until it is reached. A newer wanted revision is asked for soon.
func TestAsksLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := etcd.NewStream(10, 1000, 10)
		began := time.Now()
		var asked []int // milliseconds
		a := etcd.NewAsker(s, func(context.Context) error {
			asked = append(asked, int(time.Since(began)/time.Millisecond))
			return nil
		})
		defer a.Stop()
		run := func(d time.Duration) {
			end := time.After(d)
			for {
				select {
				case <-a.Timer():
					if err := a.Now(t.Context()); err != nil {
						t.Error(err)
					}
				case <-end:
					return
				}
			}
		}
		expect := func(what string, want ...int) {
			t.Helper()
			if !slices.Equal(asked, want) {
				t.Errorf("%s: asked at %v ms, want %v", what, asked, want)
			}
			asked, began = nil, time.Now()
		}
		run(time.Second)
		expect("nothing is wanted")
		s.Want(12)
		a.Soon()
		run(2200 * time.Millisecond)
		expect("nothing comes", 5, 15, 35, 75, 155, 315, 635, 1135, 1635, 2135)
		s.Want(13)
		a.Soon() // the answer has not come: asking again postpones nothing
		run(436 * time.Millisecond)
		expect("more is wanted", 435)
		s.Pass(13)
		s.Want(14)
		a.Soon()
		run(20 * time.Millisecond)
		expect("what was wanted came", 5, 15)
		for range 10 { // a caller that asks all the time does not wait forever
			s.Pass(14)
			s.Want(15)
			a.Soon()
			run(2 * time.Millisecond)
		}
		if len(asked) == 0 {
			t.Error("who asks all the time waits for ever")
		}
	})
	s := etcd.NewStream(10, 1000, 10)
	broken := errors.New("broken")
	a := etcd.NewAsker(s, func(context.Context) error { return broken })
	defer a.Stop()
	if err := a.Now(t.Context()); err != nil {
		t.Errorf("nothing is wanted: %v", err)
	}
	s.Want(11)
	if err := a.Now(t.Context()); !errors.Is(err, broken) || err.Error() != "ask for progress: broken" {
		t.Errorf("asking fails: %v", err)
	}
}

// TestKeysOfNothing: a key that would be empty in etcd is refused.
func TestKeysOfNothing(t *testing.T) {
	for _, c := range []struct {
		trim, prefix, key string
		empty             bool
	}{{"/a/", "", "/a/", true}, {"", "", "", true}, {"/a/", "/b/", "/a/", false}, {"/a/", "", "/a/x", false}} {
		if _, _, _, err := etcd.Mapped(etcd.Options{Trim: c.trim, Prefix: c.prefix}, c.key, "", ""); errors.Is(err, storage.ErrEmptyKey) != c.empty || !c.empty && err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestCompactionInterval: the default is five minutes, as upstream's.
func TestCompactionInterval(t *testing.T) {
	for every, want := range map[time.Duration]time.Duration{0: 5 * time.Minute, -1: 5 * time.Minute, 1: 1} {
		if got := etcd.Interval(etcd.NewCompaction(nil, every)); got != want {
			t.Errorf("%v: %v", every, got)
		}
	}
}
