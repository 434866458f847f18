package overlay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/overlay"
)

// host is a Writer that remembers.
type host struct {
	mu       sync.Mutex
	underlay overlay.Underlay
	tables   []string
	fail     error
}

func (h *host) Underlay(context.Context) (overlay.Underlay, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.underlay, h.fail
}

func (h *host) Write(_ context.Context, t overlay.Table) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tables = append(h.tables, show(t, nil))
	return nil
}

// took returns what was written since the last call.
func (h *host) took() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.tables
	h.tables = nil
	return all
}

type world struct {
	*testing.T
	host    *host
	source  *memory.Store[*corev1.Node]
	log     strings.Builder
	written atomic.Bool
	stop    context.CancelFunc
	ended   chan error
}

func inBubble(t *testing.T, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, host: &host{underlay: underlay("192.0.2.0/24")}, source: memory.New[*corev1.Node](), ended: make(chan error, 1)}
		nodes := informer.New(w.source, informer.Options{})
		o := overlay.New(nodes, "a", w.host, overlay.Options{
			Settings: overlay.Settings{Networks: prefixes("10.64.0.0/10")}, CheckPeriod: time.Minute, Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
			Written: func(t overlay.Table) {
				w.written.Store(true)
				if len(t.Own) != 1 {
					w.Errorf("written: %v", t)
				}
			},
		})
		var ctx context.Context
		ctx, w.stop = context.WithCancel(t.Context())
		go func() { w.ended <- lifecycle.Group(nodes, o).Run(ctx) }()
		synctest.Wait()
		test(w)
		w.stop()
		if err := <-w.ended; err != nil {
			t.Error(err)
		}
	})
}

// want expects what was written last within a second, in which not everything is written again; nothing without a table.
func (w *world) want(table ...string) {
	w.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	got := w.host.took()
	if len(got) > len(table)*3 || len(got) < len(table) || len(table) > 0 && got[len(got)-1] != table[0] {
		w.Errorf("written %q, want %q", got, table)
	}
}

func TestRun(t *testing.T) {
	inBubble(t, func(w *world) {
		w.source.Put(node("b 10.64.1.0/24 192.0.2.2"))
		w.want()
		w.source.Put(node("a 10.64.0.0/24 192.0.2.1"))
		w.want("10.64.1.0/24 via 192.0.2.2")
		same := node("b 10.64.1.0/24 192.0.2.2")
		same.Labels = map[string]string{"x": "y"} // a heartbeat, say
		w.source.Put(same)
		w.want()
		w.source.Put(node("b 10.64.1.0/24 198.51.100.2"))
		w.want("10.64.1.0/24 in VXLAN to 198.51.100.2 0a:58:0a:40:01:00")
		w.source.Put(node("b 198.51.100.2"))
		w.want("")
		w.source.Delete("", "a") // it will be there again
		w.want()
		w.source.Put(node("a 10.64.0.0/24 192.0.2.1"))
		w.source.Put(node("b 10.64.1.0/24 192.0.2.2"))
		w.source.Put(node("c 10.64.2.0/24 192.0.2.3"))
		w.source.Delete("", "b")
		w.want("10.64.2.0/24 via 192.0.2.3")
		old := node("c 192.0.2.3")
		old.Spec.PodCIDR = "10.64.3.0/24"
		w.source.Put(old)
		w.want("10.64.3.0/24 via 192.0.2.3")
		old = old.DeepCopy()
		old.Spec.PodCIDR = "10.64.4.0/24"
		w.source.Put(old)
		w.want("10.64.4.0/24 via 192.0.2.3")
		w.source.Delete("", "c")
		w.want("")
		if !w.written.Load() {
			t.Error("nobody was told of what was written")
		}
	})
}

// TestCollected: many changes at once are few writes.
func TestCollected(t *testing.T) {
	inBubble(t, func(w *world) {
		w.source.Put(node("a 10.64.0.0/24 192.0.2.1"))
		w.want("")
		for i := range 100 {
			w.source.Put(node(fmt.Sprintf("n%d 10.64.%d.0/24 192.0.2.%d", i, i+1, i+2)))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := w.host.took(); len(got) > 3 || strings.Count(got[len(got)-1], "via") != 100 {
			t.Errorf("%d tables, the last one %q", len(got), got[len(got)-1])
		}
	})
}

// TestRepair: all is written again from time to time, also after failures, and with what the host's own network is then.
func TestRepair(t *testing.T) {
	inBubble(t, func(w *world) {
		w.source.Put(node("a 10.64.0.0/24 192.0.2.1"))
		w.source.Put(node("b 10.64.1.0/24 192.0.2.2"))
		w.want("10.64.1.0/24 via 192.0.2.2")
		time.Sleep(time.Minute)
		w.want("10.64.1.0/24 via 192.0.2.2")
		w.host.mu.Lock()
		w.host.fail = errors.New("no network")
		w.host.mu.Unlock()
		time.Sleep(time.Minute)
		w.want()
		if !strings.Contains(w.log.String(), "no network") {
			t.Errorf("logged %s", w.log.String())
		}
		w.host.mu.Lock()
		w.host.fail, w.host.underlay = nil, underlay("192.0.2.0/31")
		w.host.mu.Unlock()
		time.Sleep(time.Minute)
		w.want("10.64.1.0/24 in VXLAN to 192.0.2.2 0a:58:0a:40:01:00")
	})
}

// TestRefusalsAreTold once, until what a node says changes.
func TestRefusalsAreTold(t *testing.T) {
	inBubble(t, func(w *world) {
		w.source.Put(node("a 10.64.0.0/24 192.0.2.1"))
		w.source.Put(node("b 10.64.1.0/24 127.0.0.1"))
		time.Sleep(time.Hour)
		w.source.Put(node("c 0.0.0.0/0"))
		time.Sleep(time.Hour)
		synctest.Wait()
		for _, want := range []string{"node=b says=127.0.0.1", "node=c says=0.0.0.0/0"} {
			if n := strings.Count(w.log.String(), want); n != 1 {
				t.Errorf("%s is told %d times in %s", want, n, w.log.String())
			}
		}
	})
}

// TestEnds: an informer that stops ends an overlay that waits for it.
func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := informer.New(memory.New[*corev1.Node](), informer.Options{})
		o := overlay.New(nodes, "a", &host{}, overlay.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := o.Run(ctx); err != nil {
			t.Error(err)
		}
		if err := nodes.Run(ctx); err != nil {
			t.Error(err)
		}
		if err := o.Run(t.Context()); !errors.Is(err, informer.ErrStopped) {
			t.Errorf("without nodes: %v", err)
		}
	})
}
