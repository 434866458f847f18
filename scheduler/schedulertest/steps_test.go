package schedulertest_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
	"github.com/keelson-dev/keelson/scheduler/schedulertest"
)

// api binds pods as an API server does.
type api struct {
	mu    sync.Mutex
	pods  map[types.NamespacedName]types.UID
	nodes map[types.NamespacedName]string
	// on, if set, makes bindings go wrong.
	on func(b *corev1.Binding) (instead *corev1.Binding)
}

func newAPI() *api {
	return &api{pods: map[types.NamespacedName]types.UID{}, nodes: map[types.NamespacedName]string{}}
}

func (a *api) Add(pod *corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pods[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = pod.UID
}

func (a *api) Node(pod *corev1.Pod) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.nodes[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]
}

func (a *api) Create(ctx context.Context, t client.Target, obj runtime.Object, _ metav1.CreateOptions) (runtime.Object, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	b := obj.(*corev1.Binding)
	if t.Resource.Resource != "pods" || t.Subresource != "binding" {
		return nil, apierrors.NewNotFound(t.Resource.GroupResource(), t.Name)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	name := types.NamespacedName{Namespace: t.Namespace, Name: t.Name}
	if a.on != nil {
		b = a.on(b)
	}
	if b == nil {
		return nil, nil
	}
	if b.UID != "" && (a.pods[name] != b.UID || a.nodes[name] != "") {
		return nil, apierrors.NewConflict(corev1.Resource("pods/binding"), t.Name, errors.New("it is another or bound"))
	}
	a.nodes[name] = b.Target.Name
	return &metav1.Status{}, nil
}

func TestDefaultBinder(t *testing.T) {
	schedulertest.TestBinder(t, func() (scheduler.Binder, schedulertest.Bound) {
		a := newAPI()
		return plugins.DefaultBinder{Client: a}, a
	})
}

func TestSuiteFindsBinders(t *testing.T) {
	for rule, on := range map[string]func(*corev1.Binding) *corev1.Binding{
		"takes a pod of the name": func(b *corev1.Binding) *corev1.Binding { c := *b; c.UID = ""; return &c },
		"returns <nil>, and it":   func(*corev1.Binding) *corev1.Binding { return nil },
	} {
		var r recorder
		schedulertest.TestBinder(&r, func() (scheduler.Binder, schedulertest.Bound) {
			a := newAPI()
			a.on = on
			return plugins.DefaultBinder{Client: a}, a
		})
		finds(t, r, rule)
	}
	var r recorder
	schedulertest.TestBinder(&r, func() (scheduler.Binder, schedulertest.Bound) {
		a := newAPI()
		return scheduler.BinderFunc("moves", func(ctx context.Context, pod *corev1.Pod, node string) error {
			if strings.HasSuffix(node, "-elsewhere") {
				a.mu.Lock()
				defer a.mu.Unlock()
				maps.Copy(a.nodes, map[types.NamespacedName]string{{Namespace: pod.Namespace, Name: pod.Name}: node})
				return nil
			}
			return plugins.DefaultBinder{Client: a}.Bind(ctx, pod, node)
		}), a
	})
	finds(t, r, "is moved")
	r = recorder{}
	schedulertest.TestBinder(&r, func() (scheduler.Binder, schedulertest.Bound) {
		a := newAPI()
		return scheduler.BinderFunc("declines late", func(ctx context.Context, pod *corev1.Pod, node string) error {
			return errors.Join(plugins.DefaultBinder{Client: a}.Bind(ctx, pod, node), scheduler.ErrDeclined)
		}), a
	})
	finds(t, r, "binder declined the pod, and it is on")
}

func TestDecliningBinder(t *testing.T) {
	schedulertest.TestBinder(t, func() (scheduler.Binder, schedulertest.Bound) {
		return scheduler.BinderFunc("none", func(context.Context, *corev1.Pod, string) error { return scheduler.ErrDeclined }), newAPI()
	})
}

func finds(t *testing.T, r recorder, rule string) {
	t.Helper()
	if !strings.Contains(strings.Join(r.found, "\n"), rule) {
		t.Errorf("a plugin against %q was found to %q", rule, r.found)
	}
}

// licenses limits how many pods can hold a license.
type licenses struct {
	mu   sync.Mutex
	left int
}

func (*licenses) Name() string { return "Licenses" }

func (l *licenses) Reserve(context.Context, *corev1.Pod, string) (func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left == 0 {
		return nil, scheduler.Refuse("no license left")
	}
	l.left--
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.left++
	}, nil
}

func TestReservers(t *testing.T) {
	l := &licenses{left: 15}
	schedulertest.TestReserver(t, l)
	if l.left != 15 {
		t.Errorf("%d licenses are left", l.left)
	}
	reserve := func(f func(l *licenses) (func(), error)) recorder {
		var r recorder
		l := &licenses{left: 3}
		schedulertest.TestReserver(&r, scheduler.ReserverFunc("bad", func(context.Context, *corev1.Pod, string) (func(), error) { return f(l) }))
		return r
	}
	finds(t, reserve(func(l *licenses) (func(), error) {
		_, err := l.Reserve(t.Context(), nil, "")
		return func() {}, err
	}), "returns an undo")
	finds(t, reserve(func(l *licenses) (func(), error) {
		_, err := l.Reserve(t.Context(), nil, "")
		return nil, err
	}), "when that is undone")
	finds(t, reserve(func(*licenses) (func(), error) { return nil, &scheduler.Refusal{} }), "without reason")
	finds(t, reserve(func(*licenses) (func(), error) { return nil, (*scheduler.Refusal)(nil) }), "nil *Refusal")
}

func TestPermitters(t *testing.T) {
	permit := func(f func() (*scheduler.Wait, error)) recorder {
		var r recorder
		schedulertest.TestPermitter(&r, scheduler.PermitterFunc("P", func(context.Context, *corev1.Pod, string) (*scheduler.Wait, error) { return f() }))
		return r
	}
	if r := permit(func() (*scheduler.Wait, error) { return scheduler.NewWait(time.Minute), nil }); len(r.found) != 0 {
		t.Errorf("found %q", r.found)
	}
	one := scheduler.NewWait(time.Minute)
	finds(t, permit(func() (*scheduler.Wait, error) { return one, nil }), "the Wait of another pod")
	finds(t, permit(func() (*scheduler.Wait, error) { return scheduler.NewWait(time.Minute), errors.New("no") }), "has it wait")
}

func TestPreAndPostBinders(t *testing.T) {
	var mu sync.Mutex
	done := map[string]bool{}
	mark := func(pod *corev1.Pod) error {
		mu.Lock()
		defer mu.Unlock()
		if done[pod.Name] {
			return errors.New("done already")
		}
		done[pod.Name] = true
		return nil
	}
	schedulertest.TestPreBinder(t, scheduler.PreBinderFunc("P", func(_ context.Context, pod *corev1.Pod, _ string) error {
		_ = mark(pod)
		return nil
	}))
	var r recorder
	schedulertest.TestPreBinder(&r, scheduler.PreBinderFunc("P", func(_ context.Context, pod *corev1.Pod, _ string) error { return mark(pod) }))
	if len(r.found) != 0 {
		t.Errorf("all pods are marked by now, but found %q", r.found)
	}
	clear(done)
	schedulertest.TestPreBinder(&r, scheduler.PreBinderFunc("P", func(_ context.Context, pod *corev1.Pod, _ string) error { return mark(pod) }))
	finds(t, r, "when it is called again")
	schedulertest.TestPostBinder(t, scheduler.PostBinderFunc("P", func(_ context.Context, pod *corev1.Pod, _ string) { _ = mark(pod) }))
	r = recorder{}
	schedulertest.TestPostBinder(&r, scheduler.PostBinderFunc("P", func(_ context.Context, pod *corev1.Pod, _ string) {
		mu.Lock()
		defer mu.Unlock()
		pod.Labels = map[string]string{"bound": "yes"}
	}))
	finds(t, r, "was changed")
}

func TestPreemptors(t *testing.T) {
	preempt := func(f func(d scheduler.Decision) (*scheduler.Nomination, error)) recorder {
		var r recorder
		schedulertest.TestPreemptor(&r, scheduler.PreemptorFunc("P", func(_ context.Context, t *scheduler.Trial) (*scheduler.Nomination, error) {
			return f(t.Decision())
		}))
		return r
	}
	first := func(d scheduler.Decision) (*scheduler.Nomination, error) {
		return &scheduler.Nomination{Node: d.Verdicts[0].Node}, nil
	}
	if r := preempt(first); len(r.found) != 0 {
		t.Errorf("found %q", r.found)
	}
	finds(t, preempt(func(scheduler.Decision) (*scheduler.Nomination, error) {
		return &scheduler.Nomination{Node: "nowhere"}, nil
	}), "which does not exist")
	finds(t, preempt(func(d scheduler.Decision) (*scheduler.Nomination, error) {
		d.Verdicts[0].Refusal.Reasons[0] = "x"
		return nil, nil
	}), "the decision about")
	finds(t, preempt(func(d scheduler.Decision) (*scheduler.Nomination, error) {
		return &scheduler.Nomination{Node: d.Verdicts[0].Node, Victims: []*corev1.Pod{d.Pod}}, nil
	}), "is not on")
	schedulertest.TestPreemptor(t, plugins.DefaultPreemption{})
}
