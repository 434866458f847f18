package shutdown_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/kubelet/shutdown"
)

func pod(name string, priority int32, grace int64) *corev1.Pod {
	p := &corev1.Pod{}
	p.Name, p.Generation = name, 3
	if priority != 0 {
		p.Spec.Priority = &priority
	}
	if grace >= 0 {
		p.Spec.TerminationGracePeriodSeconds = &grace
	}
	return p
}

func ExampleOrder() {
	groups := shutdown.Groups(30*time.Second, 10*time.Second)
	for _, turn := range shutdown.Order(groups, []*corev1.Pod{pod("dns", 2_000_000_000, 30), pod("web", 0, 30)}) {
		fmt.Println(turn.Grace, turn.Pods[0].Name)
	}
	// Output:
	// 20s web
	// 10s dns
}

func TestGroups(t *testing.T) {
	for _, tt := range []struct {
		total, critical time.Duration
		want            string
	}{
		{30 * time.Second, 10 * time.Second, "[{0 20s} {2000000000 10s}]"},
		{30 * time.Second, 0, "[{0 30s} {2000000000 0s}]"},
		{30 * time.Second, 30 * time.Second, "[{0 0s} {2000000000 30s}]"},
		{0, 0, "[]"},
		{10 * time.Second, 11 * time.Second, "[]"},
		{10 * time.Second, -time.Second, "[]"},
	} {
		if got := fmt.Sprint(shutdown.Groups(tt.total, tt.critical)); got != tt.want {
			t.Errorf("%v, %v: %s, want %s", tt.total, tt.critical, got, tt.want)
		}
	}
}

func TestOrder(t *testing.T) {
	groups := []shutdown.Group{{100, 1}, {-5, 2}, {10, 3}, {50, 4}}
	pods := []*corev1.Pod{pod("a", 10, 1), pod("b", 9, 1), pod("c", 0, 1), pod("d", -5, 1), pod("e", -6, 1), pod("f", 99, 1), pod("g", 100, 1), pod("h", 101, 1), pod("i", 0, 1)}
	var words []string
	for _, turn := range shutdown.Order(groups, pods) {
		words = append(words, fmt.Sprint(turn.Priority))
		for _, p := range turn.Pods {
			words = append(words, p.Name)
		}
	}
	if got, want := strings.Join(words, " "), "-5 b c d e i 10 a 50 f 100 g h"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if shutdown.Order(nil, pods) != nil && len(shutdown.Order(nil, pods)) > 0 {
		t.Error("there are turns without groups")
	}
	if groups[0].Priority != 100 {
		t.Error("the caller's groups were sorted")
	}
}

// machine is an inhibitor and the pods of a node, with a record of what happens.
type machine struct {
	mu     sync.Mutex
	start  time.Time
	log    []string
	pods   []*corev1.Pod
	slow   map[string]time.Duration // how long pods take to end
	signal chan bool
	broken bool    // the next sessions
	holds  []error // of Hold, in turn
}

func (m *machine) say(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log = append(m.log, fmt.Sprintf("%gs ", time.Since(m.start).Seconds())+fmt.Sprintf(format, args...))
}

func (m *machine) Open(_ context.Context, delay time.Duration) (shutdown.Session, error) {
	m.say("open %v", delay)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken {
		return nil, errors.New("no bus")
	}
	return m, nil
}

func (m *machine) Next(ctx context.Context) (bool, error) {
	select {
	case down, ok := <-m.signal:
		if !ok {
			return false, errors.New("the bus is gone")
		}
		return down, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (m *machine) Hold(hold bool) error {
	m.say("hold %t", hold)
	if len(m.holds) == 0 {
		return nil
	}
	err := m.holds[0]
	m.holds = m.holds[1:]
	return err
}

// Enabled, Handle, WithAttrs and WithGroup are of a slog.Handler.
func (m *machine) Enabled(context.Context, slog.Level) bool { return true }

func (m *machine) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool { m.say("%s: %v", r.Message, a); return true })
	return nil
}

func (m *machine) WithAttrs([]slog.Attr) slog.Handler { return m }
func (m *machine) WithGroup(string) slog.Handler      { return m }

func (m *machine) Close() { m.say("close") }

func (m *machine) Active() []*corev1.Pod { return m.pods }

func (m *machine) End(ctx context.Context, pod *corev1.Pod, grace int64, why corev1.PodCondition) error {
	if why.Type != corev1.DisruptionTarget || why.Reason != "TerminationByKubelet" || why.Message != shutdown.Message || why.ObservedGeneration != 3 || why.LastTransitionTime.IsZero() {
		m.say("odd condition %v", why)
	}
	m.say("end %s in %d", pod.Name, grace)
	select {
	case <-time.After(m.slow[pod.Name]):
		m.say("%s ended", pod.Name)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Record records an event.
func (m *machine) Record(e events.Event) { m.say("%s %s: %s", e.Type, e.Reason, e.Message) }

func (m *machine) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Equal(m.log, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(m.log, "\n"), strings.Join(want, "\n"))
	}
	m.log = nil
}

func run(t *testing.T, m *machine, test func(s *shutdown.Manager)) {
	synctest.Test(t, func(t *testing.T) {
		m.start, m.signal = time.Now(), make(chan bool)
		s, err := shutdown.New(m, m, shutdown.Groups(30*time.Second, 10*time.Second), shutdown.Options{Recorder: m, Changed: func() { m.say("changed") }, Logger: slog.New(m)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		synctest.Wait()
		test(s)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestShutdown: pods end by priority, each group within its time; then the machine goes down, or on.
func TestShutdown(t *testing.T) {
	m := &machine{
		pods: []*corev1.Pod{pod("web", 0, 60), pod("dns", 2_000_000_000, -1), pod("stuck", 5, 3)},
		slow: map[string]time.Duration{"web": time.Second, "stuck": time.Hour, "dns": 2 * time.Second},
	}
	run(t, m, func(s *shutdown.Manager) {
		m.expect(t, "0s open 30s", "0s hold true")
		if s.Problem() != nil {
			t.Error("it is shutting down")
		}
		m.signal <- true
		time.Sleep(time.Minute)
		synctest.Wait()
		m.mu.Lock()
		slices.Sort(m.log[2:4]) // at the same time
		m.mu.Unlock()
		m.expect(t, "0s Normal NodeShutdown: Shutdown manager detected shutdown event", "0s changed", "0s end stuck in 3", "0s end web in 20",
			"1s web ended", "20s a pod has not ended before the shutdown: pod=/stuck", "20s a pod has not ended before the shutdown: error=context deadline exceeded",
			"20s end dns in 10", "22s dns ended", "22s hold false")
		if err := s.Problem(); !errors.Is(err, shutdown.ErrShuttingDown) || err.Error() != "node is shutting down" {
			t.Errorf("the problem is %v", err)
		}
		m.signal <- false
		m.expect(t, "60s Normal NodeShutdown: Shutdown manager detected shutdown cancellation", "60s changed", "60s hold true")
		if s.Problem() != nil {
			t.Error("it is still shutting down")
		}
	})
}

const failed = "watching for shutdowns of the machine failed: error="

// TestReopen: an inhibitor that fails is opened again.
func TestReopen(t *testing.T) {
	m := &machine{broken: true}
	run(t, m, func(*shutdown.Manager) {
		time.Sleep(time.Second)
		m.expect(t, "0s open 30s", "0s "+failed+"no bus", "1s open 30s", "1s "+failed+"no bus")
		m.mu.Lock()
		m.broken = false
		m.mu.Unlock()
		time.Sleep(time.Second)
		m.expect(t, "2s open 30s", "2s hold true")
		close(m.signal)
		m.expect(t, "2s close", "2s "+failed+"the bus is gone")
		time.Sleep(1500 * time.Millisecond)
		m.expect(t, "3s open 30s", "3s hold true", "3s close", "3s "+failed+"the bus is gone")
	})
}

// TestHoldFails: a session that cannot delay a shutdown, or let it go on, ends, and another one begins.
func TestHoldFails(t *testing.T) {
	down := errors.New("down")
	m := &machine{holds: []error{down, nil, down, nil, down}}
	run(t, m, func(*shutdown.Manager) {
		m.expect(t, "0s open 30s", "0s hold true", "0s close", "0s "+failed+"down")
		time.Sleep(time.Second)
		m.expect(t, "1s open 30s", "1s hold true")
		m.signal <- true
		m.expect(t, "1s Normal NodeShutdown: Shutdown manager detected shutdown event", "1s changed", "1s hold false", "1s close", "1s "+failed+"down")
		time.Sleep(time.Second)
		m.expect(t, "2s open 30s", "2s hold true")
		m.signal <- false
		m.expect(t, "2s Normal NodeShutdown: Shutdown manager detected shutdown cancellation", "2s changed", "2s hold true", "2s close", "2s "+failed+"down")
	})
}

// TestEnds: that the manager ends, be it during a shutdown, is no failure.
func TestEnds(t *testing.T) {
	m := &machine{pods: []*corev1.Pod{pod("web", 0, 60)}, slow: map[string]time.Duration{"web": time.Hour}}
	run(t, m, func(*shutdown.Manager) {
		m.signal <- true
		synctest.Wait()
		m.mu.Lock()
		m.log = nil
		m.mu.Unlock()
	})
	if !slices.Equal(m.log, []string{"0s hold false", "0s close"}) {
		t.Errorf("done %q", m.log)
	}
}

// TestDefaults: without options a shutdown goes its way, too.
func TestDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{start: time.Now(), signal: make(chan bool)}
		s, err := shutdown.New(m, m, shutdown.Groups(30*time.Second, 10*time.Second), shutdown.Options{})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { done <- s.Run(ctx) }()
		m.signal <- true
		m.expect(t, "0s open 30s", "0s hold true", "0s hold false")
		close(m.signal)
		m.expect(t, "0s close")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestNewRejects(t *testing.T) {
	m, groups := &machine{}, shutdown.Groups(time.Minute, 0)
	for name, create := range map[string]func() (*shutdown.Manager, error){
		"no pods":      func() (*shutdown.Manager, error) { return shutdown.New(nil, m, groups, shutdown.Options{}) },
		"no inhibitor": func() (*shutdown.Manager, error) { return shutdown.New(m, nil, groups, shutdown.Options{}) },
		"no groups":    func() (*shutdown.Manager, error) { return shutdown.New(m, m, nil, shutdown.Options{}) },
		"less than 0": func() (*shutdown.Manager, error) {
			return shutdown.New(m, m, []shutdown.Group{{Grace: -time.Second}}, shutdown.Options{})
		},
		"no seconds": func() (*shutdown.Manager, error) {
			return shutdown.New(m, m, []shutdown.Group{{Grace: time.Millisecond}}, shutdown.Options{})
		},
	} {
		if s, err := create(); err == nil || s != nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, groups := range [][]shutdown.Group{groups, {{Grace: 7 * time.Second}}} {
		if _, err := shutdown.New(m, m, groups, shutdown.Options{}); err != nil {
			t.Error(err)
		}
	}
}
