package objects_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/kubelet/objects"
)

// envPod has a config map in its environment.
func envPod(uid types.UID, names ...string) *corev1.Pod {
	p := filePod(uid)
	for _, n := range names {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{EnvFrom: []corev1.EnvFromSource{{
			ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: n}},
		}}})
	}
	return p
}

func start(t *testing.T, c *objects.Cache) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Objects registered before Run are watched once it runs, and those registered after its end are read.
func TestBeforeAndAfterRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		c := objects.New(s, s.watches(), objects.Options{Changed: s.tell})
		s.configMaps.Put(config("a", "1"))
		for _, uid := range []types.UID{"p1", "p2", "p3"} {
			c.Register(filePod(uid, "a"))
		}
		c.Register(envPod("p4", "b"))
		if got := s.counts(); got != "0 gets, 0 lists, 0 watches" {
			t.Error(got)
		}
		stop := start(t, c)
		if got := s.counts(); got != "0 gets, 1 lists, 1 watches" {
			t.Error(got)
		}
		c.Register(filePod("p1", "a"))
		if got := s.counts(); got != "0 gets, 1 lists, 1 watches" {
			t.Error(got)
		}
		stop()
		s.configMaps.Put(config("a", "2"))
		c.Register(filePod("p5", "a", "c"))
		if got := value(t, c, "a"); got != "2" {
			t.Errorf("after the end it is %s", got)
		}
		if got := s.counts(); got != "1 gets, 1 lists, 0 watches" {
			t.Error(got)
		}
		stop = start(t, c)
		if got := s.counts(); got != "1 gets, 3 lists, 2 watches" {
			t.Error(got)
		}
		stop()
	})
}

// A pod that is registered again unchanged keeps its watch.
func TestRegisterAgain(t *testing.T) {
	within(t, func(t *testing.T, s *server, c *objects.Cache) {
		s.configMaps.Put(config("a", "1"))
		for range 3 {
			c.Register(filePod("p1", "a"))
			synctest.Wait()
		}
		if got := s.counts(); got != "0 gets, 1 lists, 1 watches" {
			t.Error(got)
		}
		c.Register(filePod("p1")) // no longer refers to anything
		if got := s.counts(); got != "0 gets, 1 lists, 0 watches" {
			t.Error(got)
		}
		c.Register(filePod("p1", "a"))
		synctest.Wait()
		c.Unregister("p1")
		c.Unregister("p1")
		if got := s.counts(); got != "0 gets, 2 lists, 0 watches" {
			t.Error(got)
		}
	})
}

// A secret without pods is dropped, like a config map.
func TestSecretsAreForgotten(t *testing.T) {
	within(t, func(t *testing.T, s *server, c *objects.Cache) {
		s.secrets.Put(secretOf("s"))
		p := filePod("p1")
		p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}}
		c.Register(p)
		read := func() error { _, err := c.Secret(t.Context(), "ns", "s"); return err }
		away := errors.New("away")
		if err := read(); err != nil {
			t.Error(err)
		}
		s.fail(away)
		if err := read(); err != nil {
			t.Errorf("what a pod refers to is forgotten: %v", err)
		}
		c.Unregister("p1")
		if err := read(); !errors.Is(err, away) {
			t.Errorf("what no pod refers to: %v", err)
		}
	})
}

func TestUnwatchedKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		c := objects.New(s, objects.Watches{}, objects.Options{})
		stop := start(t, c)
		c.Register(filePod("p1", "a"))
		for _, v := range []string{"1", "2"} {
			s.configMaps.Put(config("a", v))
			if got := value(t, c, "a"); got != v {
				t.Errorf("%s, not %s", got, v)
			}
		}
		if got := s.counts(); got != "2 gets, 0 lists, 0 watches" {
			t.Error(got)
		}
		stop()
	})
}

// Without Changed, changes are still seen.
func TestNobodyToTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		c := objects.New(s, s.watches(), objects.Options{})
		stop := start(t, c)
		s.configMaps.Put(config("a", "1"))
		c.Register(filePod("p1", "a"))
		synctest.Wait()
		s.configMaps.Put(config("a", "2"))
		synctest.Wait()
		if got := value(t, c, "a"); got != "2" {
			t.Error(got)
		}
		stop()

		calls := 0
		c = objects.New(s, s.watches(), objects.Options{Changed: func(uids []types.UID) { calls++ }})
		stop = start(t, c)
		c.Register(filePod("p1", "a"))
		c.Register(envPod("p2", "a"))
		synctest.Wait()
		c.Unregister("p1") // the watch continues as long as a pod refers to the object
		s.configMaps.Put(config("a", "3"))
		synctest.Wait()
		if got := value(t, c, "a"); got != "3" || calls != 0 {
			t.Errorf("%s, told %d times", got, calls)
		}
		stop()
	})
}

// Readers wait for a pending first answer, until their context ends.
func TestGetWaitsForTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.configMaps.Put(config("a", "1"))
		answer := make(chan struct{})
		c := objects.New(s, objects.Watches{ConfigMap: func(string, string) (informer.Source[*corev1.ConfigMap], error) {
			<-answer
			return s.configMaps, nil
		}}, objects.Options{})
		stop := start(t, c)
		c.Register(filePod("p1", "a"))
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.ConfigMap(impatient, "ns", "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		time.AfterFunc(time.Minute, func() { close(answer) })
		if got := value(t, c, "a"); got != "1" {
			t.Error(got)
		}
		if got := s.counts(); got != "0 gets, 0 lists, 0 watches" {
			t.Error(got)
		}
		stop()
	})
}

// A source with more than one object does no harm: the object of that name counts.
func TestOthersObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		var elsewhere, namesake []*corev1.ConfigMap
		for _, v := range []string{"1", "2"} {
			other, same := config("b", "other"+v), config("a", "other"+v)
			same.Namespace = "elsewhere"
			elsewhere, namesake = append(elsewhere, other), append(namesake, same)
		}
		put := func(i int) { s.configMaps.Put(elsewhere[i]); s.configMaps.Put(namesake[i]) }
		c := objects.New(s, objects.Watches{ConfigMap: func(string, string) (informer.Source[*corev1.ConfigMap], error) {
			return s.configMaps, nil
		}}, objects.Options{Changed: s.tell})
		stop := start(t, c)
		put(0)
		s.configMaps.Put(config("a", "1"))
		s.configMaps.Put(func() *corev1.ConfigMap { m := config("z", "other"); m.Namespace = "zoo"; return m }())
		s.configMaps.Put(func() *corev1.ConfigMap { m := config("a", "other"); m.Namespace = "zoo"; return m }())
		s.configMaps.Put(config("z", "other"))
		c.Register(filePod("p1", "a"))
		if got := value(t, c, "a"); got != "1" {
			t.Errorf("listed %s", got)
		}
		put(1)
		if told := s.told(); len(told) > 0 || value(t, c, "a") != "1" {
			t.Errorf("told of %v, %s", told, value(t, c, "a"))
		}
		stop()
	})
}

// scripted is a source with scripted answers.
type scripted struct {
	mu       sync.Mutex
	list     func() ([]*corev1.ConfigMap, string, error)
	watch    func(version string) error
	events   chan []informer.Event[*corev1.ConfigMap]
	versions []string // that were watched from
	lists    int
}

func (s *scripted) List(context.Context) ([]*corev1.ConfigMap, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	return s.list()
}

func (s *scripted) Watch(_ context.Context, version string) (informer.Stream[*corev1.ConfigMap], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions = append(s.versions, version)
	if s.watch != nil {
		if err := s.watch(version); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Next ends the stream at a nil event.
func (s *scripted) Next(ctx context.Context) ([]informer.Event[*corev1.ConfigMap], error) {
	select {
	case events := <-s.events:
		if events == nil {
			return nil, io.EOF
		}
		return events, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *scripted) Close() {}

func (s *scripted) cache(server *server, log io.Writer) *objects.Cache {
	s.events = make(chan []informer.Event[*corev1.ConfigMap])
	return objects.New(server, objects.Watches{ConfigMap: func(string, string) (informer.Source[*corev1.ConfigMap], error) { return s, nil }},
		objects.Options{Changed: server.tell, Logger: slog.New(slog.NewTextHandler(log, nil))})
}

func at(m *corev1.ConfigMap, version string) *corev1.ConfigMap {
	m.ResourceVersion = version
	return m
}

// A watch that ended resumes where it was, including after a bookmark, and a recreated object is a different one even
// at the same version.
func TestWatchGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		src := &scripted{list: func() ([]*corev1.ConfigMap, string, error) {
			return []*corev1.ConfigMap{at(config("a", "1"), "5")}, "7", nil
		}}
		var log bytes.Buffer
		c := src.cache(s, &log)
		stop := start(t, c)
		c.Register(filePod("p1", "a"))
		synctest.Wait()
		send := func(events ...informer.Event[*corev1.ConfigMap]) { src.events <- events; synctest.Wait() }
		end := func() { src.events <- nil; time.Sleep(time.Second) }
		end()
		send(informer.Event[*corev1.ConfigMap]{Type: informer.Bookmark, Version: "9"})
		end()
		send(informer.Event[*corev1.ConfigMap]{Type: informer.Modified, Object: at(config("a", "1"), "5"), Version: "11"})
		if told := s.told(); len(told) > 0 {
			t.Errorf("told of %v about what it was", told)
		}
		end()
		again := at(config("a", "2"), "5")
		again.UID = "another"
		send(informer.Event[*corev1.ConfigMap]{Type: informer.Modified, Object: again, Version: "12"})
		if told := s.told(); !slices.Equal(told, []types.UID{"p1"}) || value(t, c, "a") != "2" {
			t.Errorf("told of %v, %s", told, value(t, c, "a"))
		}
		if want := []string{"7", "7", "9", "11"}; !slices.Equal(src.versions, want) || src.lists != 1 {
			t.Errorf("watched from %v, not %v; listed %d times", src.versions, want, src.lists)
		}
		fixed := at(config("a", "3"), "13")
		fixed.Immutable = new(true)
		send(informer.Event[*corev1.ConfigMap]{Type: informer.Modified, Object: fixed, Version: "13"})
		time.Sleep(time.Hour)
		if len(src.versions) != 4 || src.lists != 1 || value(t, c, "a") != "3" {
			t.Errorf("an object that stays as it is was watched: %v, %d", src.versions, src.lists)
		}
		stop()
		if log.Len() > 0 {
			t.Errorf("logged %s", &log)
		}
	})
}

// An object that is explicitly mutable is still watched.
func TestNotImmutable(t *testing.T) {
	within(t, func(t *testing.T, s *server, c *objects.Cache) {
		open, fixed := config("a", "1"), config("f", "1")
		open.Immutable, fixed.Immutable = new(false), new(true)
		s.configMaps.Put(open)
		s.configMaps.Put(fixed)
		c.Register(filePod("p1", "a", "f"))
		time.Sleep(30 * time.Minute)
		if got := s.counts(); got != "0 gets, 2 lists, 1 watches" {
			t.Error(got)
		}
		s.configMaps.Put(config("a", "2"))
		if told := s.told(); !slices.Equal(told, []types.UID{"p1"}) {
			t.Errorf("told of %v", told)
		}
	})
}

// Failures are retried with growing pauses, and logged with their reason; a request for a new list is not a failure,
// and neither is the end.
func TestRetries(t *testing.T) {
	broken := errors.New("broken pipe")
	tests := map[string]struct {
		source *scripted
		logged string
		lists  int // within a minute: after 0.2 s, 0.6 s, 1.4 s, 3 s, 6.2 s, 12.6 s, 25.4 s, 51 s
	}{
		"list":    {&scripted{list: func() ([]*corev1.ConfigMap, string, error) { return nil, "", broken }}, `error="broken pipe"`, 9},
		"watch":   {&scripted{list: func() ([]*corev1.ConfigMap, string, error) { return nil, "", nil }, watch: func(string) error { return broken }}, `error="broken pipe"`, 0},
		"expired": {&scripted{list: func() ([]*corev1.ConfigMap, string, error) { return nil, "", informer.ErrExpired }}, "", 9},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				c := tt.source.cache(newServer(), &log)
				stop := start(t, c)
				c.Register(filePod("p1", "a"))
				time.Sleep(time.Minute)
				stop()
				// Each successful list resets the pause: every 0.2 s.
				want := tt.lists
				if want == 0 {
					want = 300
				}
				if got := tt.source.lists; got < want || got > want+1 {
					t.Errorf("%d lists, not %d", got, want)
				}
				if tt.logged == "" && log.Len() > 0 || !strings.Contains(log.String(), tt.logged) {
					t.Errorf("logged %s", &log)
				}
				if n := strings.Count(log.String(), "\n"); tt.logged != "" && n != tt.source.lists {
					t.Errorf("%d lines for %d lists", n, tt.source.lists)
				}
			})
		})
	}
}

func TestSourceThatCannotBeOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := newServer()
		s.configMaps.Put(config("a", "1"))
		c := objects.New(s, objects.Watches{ConfigMap: func(string, string) (informer.Source[*corev1.ConfigMap], error) {
			return nil, errors.New("no such resource")
		}}, objects.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), RetryAfter: time.Hour})
		stop := start(t, c)
		c.Register(filePod("p1", "a"))
		if got := value(t, c, "a"); got != "1" {
			t.Error(got)
		}
		stop()
		if want := `resource=configmaps object=ns/a error="no such resource"`; !strings.Contains(log.String(), want) {
			t.Errorf("logged %s", &log)
		}
	})
}

// The last known state is used only if the server does not answer: any answer counts.
func TestWhichAnswersCount(t *testing.T) {
	what := corev1.Resource("configmaps")
	for name, tt := range map[string]struct {
		err  error
		away bool
	}{
		"no connection":      {errors.New("connection refused"), true},
		"internal error":     {apierrors.NewInternalError(errors.New("x")), true},
		"unavailable":        {apierrors.NewServiceUnavailable("x"), true},
		"too many requests":  {apierrors.NewTooManyRequests("x", 1), true},
		"timeout of server":  {apierrors.NewServerTimeout(what, "get", 1), true},
		"timeout":            {apierrors.NewTimeoutError("x", 1), true},
		"forbidden":          {apierrors.NewForbidden(what, "a", nil), false},
		"unauthorized":       {apierrors.NewUnauthorized("x"), false},
		"not found":          {apierrors.NewNotFound(what, "a"), false},
		"malformed":          {apierrors.NewBadRequest("x"), false},
		"another, not there": {apierrors.NewResourceExpired("x"), false},
	} {
		t.Run(name, func(t *testing.T) {
			within(t, func(t *testing.T, s *server, c *objects.Cache) {
				s.configMaps.Put(config("a", "1"))
				s.configMaps.Put(config("w", "1"))
				c.Register(envPod("p1", "a", "b"))
				c.Register(filePod("p2", "w"))
				if value(t, c, "a") != "1" || value(t, c, "b") != `configmap "b" not found` || value(t, c, "w") != "1" {
					t.Fatal("cannot read")
				}
				s.configMaps.Delete("ns", "w")
				synctest.Wait()
				s.fail(tt.err)
				_, err := c.ConfigMap(t.Context(), "ns", "a")
				if tt.away != (err == nil) {
					t.Errorf("what was known: %v", err)
				}
				// The watch saw the deletion: that is known too.
				if _, err := c.ConfigMap(t.Context(), "ns", "w"); tt.away && !apierrors.IsNotFound(err) || !tt.away && apierrors.ReasonForError(err) != apierrors.ReasonForError(tt.err) {
					t.Errorf("what was known to be gone: %v", err)
				}
				// Nothing is cached for an object that was missing when it was read.
				if _, err := c.ConfigMap(t.Context(), "ns", "b"); apierrors.ReasonForError(err) != apierrors.ReasonForError(tt.err) {
					t.Errorf("what was not there: %v", err)
				}
				over, cancel := context.WithCancel(t.Context())
				cancel()
				for _, name := range []string{"a", "w"} {
					_, err := c.ConfigMap(over, "ns", name)
					if !errors.Is(err, context.Canceled) && apierrors.ReasonForError(err) != apierrors.ReasonForError(tt.err) || err == nil {
						t.Errorf("%s, for nobody: %v", name, err)
					}
				}
				s.fail(nil)
				s.configMaps.Delete("ns", "a")
				if got := value(t, c, "a"); got != `configmap "a" not found` {
					t.Error(got)
				}
				s.fail(errors.New("away"))
				if got := value(t, c, "a"); got != "away" {
					t.Errorf("what went before the server did is %s", got)
				}
			})
		})
	}
}

// A pod whose object appears is told although nobody has asked for the object, and no end is logged.
func TestAppearance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		src := &scripted{list: func() ([]*corev1.ConfigMap, string, error) { return nil, "7", nil }}
		var log bytes.Buffer
		c := src.cache(s, &log)
		stop := start(t, c)
		c.Register(filePod("p1", "a"))
		synctest.Wait()
		src.events <- []informer.Event[*corev1.ConfigMap]{{Type: informer.Added, Object: at(config("a", "1"), "8"), Version: "8"}}
		if told := s.told(); !slices.Equal(told, []types.UID{"p1"}) {
			t.Errorf("told of %v", told)
		}
		stop()
		if log.Len() > 0 {
			t.Errorf("logged %s", &log)
		}
	})
}

// A pod may come to refer to nothing, any number of times, and to something again.
func TestNoReferencesAnyMore(t *testing.T) {
	within(t, func(t *testing.T, s *server, c *objects.Cache) {
		s.configMaps.Put(config("a", "1"))
		for range 2 {
			c.Register(filePod("p1", "a"))
			if got := s.counts(); !strings.HasSuffix(got, " 1 watches") {
				t.Error(got)
			}
			for range 2 {
				c.Register(filePod("p1"))
				if got := s.counts(); !strings.HasSuffix(got, " 0 watches") {
					t.Error(got)
				}
			}
		}
		c.Unregister("p1")
	})
}
