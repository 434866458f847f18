package webhook_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/apiserver/audit/webhook"
)

// TestPost: what is sent, where, and how.
func TestPost(t *testing.T) {
	bubble(t, webhook.Options{}, nil, func(t *testing.T, c *collector, s *webhook.Sink, _ func() time.Duration) {
		e := event("a")
		if err := s.Write(e); err != nil {
			t.Fatal(err)
		}
		e.AuditID = "changed" // the writer goes on with it
		if err := s.Write(event("b")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(31 * time.Second)
		posts := c.got()
		if len(posts) != 1 {
			t.Fatalf("%d posts", len(posts))
		}
		item := func(id string) string {
			return `{"level":"Metadata","auditID":"` + id + `","stage":"ResponseComplete","requestURI":"/api","verb":"get","user":{},"requestReceivedTimestamp":null,"stageTimestamp":null}`
		}
		want := `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[` + item("a") + "," + item("b") + "]}\n"
		if diff := cmp.Diff(want, posts[0].body); diff != "" {
			t.Error(diff)
		}
		if posts[0].url != "POST https://collector.example/events?timeout=30s" || posts[0].after != 30*time.Second {
			t.Errorf("%s after %v", posts[0].url, posts[0].after)
		}
		for name, want := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, */*", "Authorization": "Bearer secret"} {
			if got := posts[0].header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		lost(t, s, nil)
	})
}

// TestBatches: how events are collected.
func TestBatches(t *testing.T) {
	for name, c := range map[string]struct {
		o     webhook.Batching
		write []int           // a second apart
		sizes []int           // of posts, after
		after []time.Duration // the start
	}{
		"default":        {webhook.Batching{}, []int{399, 1, 3}, []int{400, 3}, []time.Duration{time.Second, 31 * time.Second}},
		"small":          {webhook.Batching{MaxSize: 2}, []int{3}, []int{2, 1}, []time.Duration{0, 30 * time.Second}},
		"one at a time":  {webhook.Batching{MaxSize: 1}, []int{2}, []int{1, 1}, []time.Duration{0, 0}},
		"soon":           {webhook.Batching{MaxWait: time.Second}, []int{1, 0, 0, 1}, []int{1, 1}, []time.Duration{time.Second, 4 * time.Second}},
		"throttled":      {webhook.Batching{MaxSize: 1, QPS: 2, Burst: 3}, []int{5}, []int{1, 1, 1, 1, 1}, []time.Duration{0, 0, 0, time.Second / 2, time.Second}},
		"default rate":   {webhook.Batching{MaxSize: 1}, []int{17}, slices.Repeat([]int{1}, 17), append(make([]time.Duration, 15), time.Second/10, time.Second/5)},
		"without limits": {webhook.Batching{MaxSize: 1, QPS: 1, Burst: 1, NoThrottle: true}, []int{5}, []int{1, 1, 1, 1, 1}, make([]time.Duration, 5)},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, webhook.Options{Batching: c.o}, nil, func(t *testing.T, server *collector, s *webhook.Sink, _ func() time.Duration) {
				for _, n := range c.write {
					write(t, s, n)
					// Just after the second, so that a timer of this moment has been seen.
					time.Sleep(time.Second)
					synctest.Wait()
				}
				time.Sleep(time.Minute)
				posts := server.got()
				if got := sizes(posts); !slices.Equal(got, c.sizes) {
					t.Errorf("posts of %v, want %v", got, c.sizes)
				}
				for i, p := range posts {
					if i < len(c.after) && p.after.Truncate(10*time.Millisecond) != c.after[i] {
						t.Errorf("post %d after %v, want %v", i, p.after, c.after[i])
					}
				}
				lost(t, s, nil)
			})
		})
	}
}

// TestRetries: every failure is tried again, up to five times in all, after pauses of 10 s, each half as long again, and up to a
// fifth longer. What still fails is lost, and counted.
func TestRetries(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no "+strings.Repeat("x", 1<<20), code) }
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		down   bool
		takes  time.Duration // each attempt
	}{
		"down":             {down: true},
		"slow":             {answer: hang, takes: 30 * time.Second},
		"400":              {answer: status(http.StatusBadRequest)},
		"404":              {answer: status(http.StatusNotFound)},
		"429":              {answer: status(http.StatusTooManyRequests)},
		"500":              {answer: status(http.StatusInternalServerError)},
		"a broken answer":  {answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		"a redirect in it": {answer: status(http.StatusNotModified)},
	} {
		t.Run(name, func(t *testing.T) {
			var log lines
			bubble(t, webhook.Options{Logger: log.logger()}, c.answer, func(t *testing.T, server *collector, s *webhook.Sink, _ func() time.Duration) {
				server.down.Store(c.down)
				write(t, s, 400)
				synctest.Wait()
				began := time.Now()
				for s.Failures()["webhook"] == 0 && time.Since(began) < time.Hour {
					time.Sleep(time.Second)
				}
				const pauses = 10*time.Second + 15*time.Second + 22500*time.Millisecond + 33750*time.Millisecond
				if took, least := time.Since(began), pauses+5*c.takes; took < least || took > least+pauses/5+2*time.Second {
					t.Errorf("gives up after %v, want %v to a fifth more", took, least)
				}
				lost(t, s, map[string]int64{"webhook": 400})
				if text := log.String(); !strings.Contains(text, "plugin=webhook events=400 error=") || strings.Contains(text, "secret") || strings.Count(text, "\n") != 1 || len(text) > 4096 {
					t.Errorf("the log: %s", text)
				}
				if got := len(server.got()); got != 5 && !c.down {
					t.Errorf("%d attempts", got)
				}
				for i, p := range server.got() {
					if !slices.Equal(p.ids, server.got()[0].ids) || i > 0 && p.body != server.got()[0].body {
						t.Errorf("attempt %d has something else", i)
					}
				}
				// Meanwhile it goes on with other events, which arrive when the server is back.
				write(t, s, 1)
				server.down.Store(false)
				server.reset()
				time.Sleep(time.Minute)
				if got := sizes(server.got()); !slices.Equal(got, []int{1}) {
					t.Errorf("posts of %v when the server is back", got)
				}
				lost(t, s, map[string]int64{"webhook": 400})
			})
		})
	}
}

// TestComesBack: a server that is down for a minute misses nothing, neither what was collected meanwhile.
func TestComesBack(t *testing.T) {
	bubble(t, webhook.Options{}, nil, func(t *testing.T, c *collector, s *webhook.Sink, _ func() time.Duration) {
		c.down.Store(true)
		for range 6 {
			write(t, s, 10)
			time.Sleep(10 * time.Second)
		}
		c.down.Store(false)
		time.Sleep(5 * time.Minute)
		total := 0
		for _, n := range sizes(c.got()) {
			total += n
		}
		if total != 60 {
			t.Errorf("%d events arrived", total)
		}
		lost(t, s, nil)
	})
}

// TestRetryAfter: within one attempt, a server may ask to come back.
func TestRetryAfter(t *testing.T) {
	asked := 0
	bubble(t, webhook.Options{Batching: webhook.Batching{MaxSize: 1}}, func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked < 4 {
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}, func(t *testing.T, c *collector, s *webhook.Sink, _ func() time.Duration) {
		write(t, s, 1)
		time.Sleep(9 * time.Second)
		if posts := c.got(); len(posts) != 4 || posts[3].after != 6*time.Second {
			t.Errorf("%d posts: %+v", len(posts), posts)
		}
		lost(t, s, nil)
	})
}

// TestFull: what does not fit into the buffer, by number or by size, is lost, and so counted and logged, but not each time.
func TestFull(t *testing.T) {
	one := int64(len(`{"level":"Metadata","auditID":"e0","stage":"ResponseComplete","requestURI":"/api","verb":"get","user":{},"requestReceivedTimestamp":null,"stageTimestamp":null}`))
	for name, c := range map[string]struct {
		o    webhook.Batching
		room int
	}{
		"number": {webhook.Batching{BufferSize: 7, MaxSize: 1, QPS: 0.001, Burst: 1}, 1 + 1 + 7}, // one posted, one waits for the throttle
		"size":   {webhook.Batching{MaxBytes: 5 * one, MaxSize: 1, QPS: 0.001, Burst: 1}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			var log lines
			bubble(t, webhook.Options{Batching: c.o, Logger: log.logger()}, hang, func(t *testing.T, _ *collector, s *webhook.Sink, _ func() time.Duration) {
				for range c.room {
					write(t, s, 1)
					synctest.Wait()
				}
				for range 100 {
					if err := s.Write(event("e0")); !errors.Is(err, webhook.ErrFull) {
						t.Fatal(err)
					}
				}
				lost(t, s, map[string]int64{"buffered": 100})
				if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, `plugin=buffered events=1 error="audit buffer queue blocked"`) {
					t.Error(text)
				}
				time.Sleep(11 * time.Second)
				_ = s.Write(event("e0"))
				if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "plugin=buffered events=100 ") {
					t.Error(text)
				}
			})
		})
	}
}

// TestRoom: events no longer count when they have been posted, or lost.
func TestRoom(t *testing.T) {
	bubble(t, webhook.Options{Batching: webhook.Batching{MaxBytes: 1000, MaxSize: 5, NoThrottle: true}}, nil, func(t *testing.T, c *collector, s *webhook.Sink, _ func() time.Duration) {
		for range 20 {
			write(t, s, 5)
			synctest.Wait()
		}
		c.down.Store(true)
		c.server.CloseClientConnections()
		for range 3 {
			write(t, s, 5)
			time.Sleep(5 * time.Minute)
		}
		if got := len(c.got()); got != 20 {
			t.Errorf("%d posts", got)
		}
		lost(t, s, map[string]int64{"webhook": 15})
	})
}

// TestSlots: no more than 256 posts go on at once.
func TestSlots(t *testing.T) {
	bubble(t, webhook.Options{Batching: webhook.Batching{MaxSize: 1, NoThrottle: true}}, hang, func(t *testing.T, c *collector, s *webhook.Sink, end func() time.Duration) {
		write(t, s, 300)
		time.Sleep(10 * time.Second)
		if got := len(c.got()); got != 256 {
			t.Errorf("%d at once", got)
		}
		if took := end(); took != 10*time.Second {
			t.Errorf("the end takes %v", took)
		}
		lost(t, s, map[string]int64{"webhook": 300})
	})
}

// TestEnd: at the end, everything is posted that was written, in batches, and nothing afterwards.
func TestEnd(t *testing.T) {
	var log lines
	bubble(t, webhook.Options{Batching: webhook.Batching{MaxSize: 3}, Logger: log.logger()}, nil, func(t *testing.T, c *collector, s *webhook.Sink, end func() time.Duration) {
		synctest.Wait()
		write(t, s, 10)
		if took := end(); took != 0 {
			t.Errorf("it takes %v", took)
		}
		got := sizes(c.got())
		slices.Sort(got)
		if total := len(got); total < 4 || slices.Max(got) > 3 {
			t.Errorf("posts of %v", got)
		}
		n := 0
		for _, size := range got {
			n += size
		}
		if n != 10 {
			t.Errorf("%d events arrived", n)
		}
		for range 2 {
			if err := s.Write(event("late")); !errors.Is(err, webhook.ErrEnded) {
				t.Error(err)
			}
		}
		lost(t, s, map[string]int64{"buffered": 2})
	})
}

// TestDeadline: the end does not wait longer than it may, whatever the server does.
func TestDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		o      webhook.Options
		answer http.HandlerFunc
		want   time.Duration
	}{
		"default":  {webhook.Options{}, hang, 10 * time.Second},
		"shorter":  {webhook.Options{FlushTimeout: time.Second}, hang, time.Second},
		"refused":  {webhook.Options{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, 10 * time.Second},
		"throttle": {webhook.Options{Batching: webhook.Batching{MaxSize: 1, QPS: 0.01, Burst: 1}}, nil, 0},
		"blocking": {webhook.Options{Mode: webhook.Blocking}, hang, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			var log lines
			c.o.Logger = log.logger()
			bubble(t, c.o, c.answer, func(t *testing.T, server *collector, s *webhook.Sink, end func() time.Duration) {
				for range 3 {
					go func() { _ = s.Write(event("x")) }()
				}
				synctest.Wait()
				took := end()
				n := int64(3)
				if name == "throttle" { // it sees at once that this will take too long, but for the wait that goes on
					n = 3 - int64(len(server.got()))
					if took > 10*time.Second || n == 0 {
						t.Errorf("took %v, lost %d", took, n)
					}
				} else if took != c.want {
					t.Errorf("took %v, want %v", took, c.want)
				}
				synctest.Wait()
				lost(t, s, map[string]int64{"webhook": n})
				told := 0
				for line := range strings.Lines(log.String()) {
					var n int
					if _, after, ok := strings.Cut(line, "events="); ok {
						if _, err := fmt.Sscan(after, &n); err != nil {
							t.Error(err)
						}
					}
					told += n
				}
				if told != int(n) {
					t.Errorf("%d are lost, and the log tells of %d:\n%s", n, told, log.String())
				}
			})
		})
	}
}

// TestBlocking: a write returns when the event has been posted, or has failed five times.
func TestBlocking(t *testing.T) {
	for _, mode := range []webhook.Mode{webhook.Blocking, webhook.BlockingStrict} {
		fails := 2
		bubble(t, webhook.Options{Mode: mode, InitialBackoff: time.Second}, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Second)
			if fails--; fails >= 0 {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}, func(t *testing.T, c *collector, s *webhook.Sink, _ func() time.Duration) {
			began := time.Now()
			if err := s.Write(event("a")); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took < 5500*time.Millisecond || took > 6*time.Second || !slices.Equal(sizes(c.got()), []int{1, 1, 1}) {
				t.Errorf("took %v: %v", took, sizes(c.got()))
			}
			lost(t, s, nil)
			c.down.Store(true)
			c.server.CloseClientConnections()
			if err := s.Write(event("b")); err == nil || !strings.Contains(err.Error(), "connection refused") {
				t.Error(err)
			}
			lost(t, s, map[string]int64{"webhook": 1})
		})
	}
}

// TestUse: what failed at the old address goes to the new one. A configuration that is none changes nothing.
func TestUse(t *testing.T) {
	bubble(t, webhook.Options{Batching: webhook.Batching{MaxSize: 1}}, nil, func(t *testing.T, c *collector, s *webhook.Sink, _ func() time.Duration) {
		c.down.Store(true)
		write(t, s, 1)
		time.Sleep(time.Second)
		moved := collect(t, nil)
		defer moved.server.Close()
		defer moved.server.CloseClientConnections()
		if err := s.Use(moved.config); err != nil {
			t.Fatal(err)
		}
		if err := s.Use(&rest.Config{Host: "https://%"}); err == nil {
			t.Error("accepted")
		}
		time.Sleep(12 * time.Second)
		if len(moved.got()) != 1 || len(c.got()) != 0 {
			t.Errorf("%d at the new address, %d at the old", len(moved.got()), len(c.got()))
		}
	})
}

// TestUnknownAuthority: the server's certificate is verified.
func TestUnknownAuthority(t *testing.T) {
	bubble(t, webhook.Options{Mode: webhook.Blocking, InitialBackoff: time.Second}, nil, func(t *testing.T, c *collector, _ *webhook.Sink, _ func() time.Duration) {
		other := collect(t, nil)
		defer other.server.Close()
		config := rest.CopyConfig(c.config)
		config.CAData = other.config.CAData
		s, err := webhook.New(config, webhook.Options{Mode: webhook.Blocking})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Write(event("a")); err == nil || !strings.Contains(err.Error(), "unknown authority") || len(c.got()) != 0 {
			t.Error(err)
		}
	})
}

// TestTruncate: objects of events that are too large are left out, and events that still are.
func TestTruncate(t *testing.T) {
	with := func(level auditv1.Level, object, uri int) *auditv1.Event {
		e := event("e")
		e.Level = level
		e.RequestURI = strings.Repeat("u", uri)
		for _, o := range []**runtime.Unknown{&e.RequestObject, &e.ResponseObject} {
			*o = &runtime.Unknown{Raw: []byte(`"` + strings.Repeat("x", object) + `"`)}
		}
		return e
	}
	const shell = 200 // more than the rest of an event
	for name, c := range map[string]struct {
		e    *auditv1.Event
		want string // "", "cut" or "lost"
	}{
		"small":                      {with(auditv1.LevelRequestResponse, 10, 10), ""},
		"large objects":              {with(auditv1.LevelRequestResponse, 600, 10), "cut"},
		"large objects at Request":   {with(auditv1.LevelRequest, 600, 10), "cut"},
		"large by both":              {with(auditv1.LevelRequestResponse, (1000-shell)/2+100, 10), "cut"},
		"large in itself":            {with(auditv1.LevelRequestResponse, 600, 1000), "lost"},
		"large in itself, no object": {with(auditv1.LevelMetadata, 0, 1000), "lost"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, webhook.Options{Mode: webhook.BlockingStrict, Truncate: &webhook.Truncate{MaxEventSize: 1000}}, nil, func(t *testing.T, server *collector, s *webhook.Sink, _ func() time.Duration) {
				c.e.Annotations = map[string]string{"a": "b"}
				if err := s.Write(c.e); err != nil {
					t.Error(err)
				}
				posts := server.got()
				if c.want == "lost" {
					if len(posts) != 0 {
						t.Error("it was posted")
					}
					lost(t, s, map[string]int64{"truncate": 1})
					return
				}
				lost(t, s, nil)
				if len(posts) != 1 {
					t.Fatalf("%d posts", len(posts))
				}
				cut := strings.Contains(posts[0].body, `"annotations":{"a":"b","audit.k8s.io/truncated":"true"}`)
				if objects := strings.Contains(posts[0].body, "Object"); cut != (c.want == "cut") || objects == cut {
					t.Errorf("%s", posts[0].body)
				}
				if len(c.e.Annotations) != 1 || c.e.RequestObject == nil {
					t.Error("the writer's event has changed")
				}
			})
		})
	}
}

// TestTruncateBorder: an event has the size of its JSON document in a line of its own.
func TestTruncateBorder(t *testing.T) {
	size := int64(len(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"e","stage":"ResponseComplete","requestURI":"/api","verb":"get","user":{},"requestReceivedTimestamp":null,"stageTimestamp":null}` + "\n"))
	for limit, posts := range map[int64]int{size: 1, size - 1: 0} {
		bubble(t, webhook.Options{Mode: webhook.Blocking, Truncate: &webhook.Truncate{MaxEventSize: limit}}, nil, func(t *testing.T, c *collector, s *webhook.Sink, _ func() time.Duration) {
			if err := s.Write(event("e")); err != nil || len(c.got()) != posts {
				t.Errorf("limit %d: %v, %d posts", limit, err, len(c.got()))
			}
		})
	}
	bubble(t, webhook.Options{Truncate: &webhook.Truncate{MaxEventSize: size, MaxBatchSize: 3 * size}, Batching: webhook.Batching{MaxSize: 7}}, nil, func(t *testing.T, c *collector, s *webhook.Sink, _ func() time.Duration) {
		for range 7 {
			if err := s.Write(event("e")); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		got := sizes(c.got())
		slices.Sort(got)
		if !slices.Equal(got, []int{1, 3, 3}) {
			t.Errorf("posts of %v", got)
		}
	})
}

func TestNew(t *testing.T) {
	good := &rest.Config{Host: "https://x"}
	for name, c := range map[string]struct {
		config *rest.Config
		o      webhook.Options
		want   string
	}{
		"address":     {&rest.Config{Host: "https://%"}, webhook.Options{}, "invalid URL escape"},
		"mode":        {good, webhook.Options{Mode: "later"}, `mode "later"`},
		"negative":    {good, webhook.Options{Batching: webhook.Batching{MaxSize: -1}}, "negative"},
		"rate":        {good, webhook.Options{Batching: webhook.Batching{QPS: -1}}, "negative"},
		"truncate":    {good, webhook.Options{Truncate: &webhook.Truncate{MaxEventSize: 2, MaxBatchSize: 1}}, "at least"},
		"truncate, 2": {good, webhook.Options{Truncate: &webhook.Truncate{MaxEventSize: -1}}, "at least"},
	} {
		if _, err := webhook.New(c.config, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
