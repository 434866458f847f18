package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// server implements what a scheduler uses of an API server: it binds pods and merges their conditions, with the
// checks that matter.
type server struct {
	t     *testing.T
	start time.Time
	pods  *memory.Store[*corev1.Pod]
	lag   *lag.Source[*corev1.Pod] // what the scheduler sees of pods
	nodes *memory.Store[*corev1.Node]

	mu  sync.Mutex
	log []string
	// nominations are the written ones, in order; "" for those taken back.
	nominations []string
	// fail, if set, is called before each write.
	fail func(ctx context.Context, pod string) error
	// others are further sources of the scheduler.
	others []scheduler.Objects
}

func (s *server) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf("%v ", time.Since(s.start).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// said returns what happened since it was last called.
func (s *server) said() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log
	s.log = nil
	return log
}

// nominated returns the nominations so far.
func (s *server) nominated() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.nominations)
}

func (s *server) refuses(ctx context.Context, name string) error {
	s.mu.Lock()
	fail := s.fail
	s.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail(ctx, name)
}

func (s *server) failing(f func(ctx context.Context, pod string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = f
}

func (s *server) Create(ctx context.Context, t client.Target, obj runtime.Object, _ metav1.CreateOptions) (runtime.Object, error) {
	b, ok := obj.(*corev1.Binding)
	if !ok || t.Subresource != "binding" || t.Resource.Resource != "pods" || t.Name != b.Name || t.Namespace != b.Namespace || b.Target.Kind != "Node" {
		s.t.Errorf("created %+v at %+v", obj, t)
	}
	if err := s.refuses(ctx, t.Name); err != nil {
		return nil, err
	}
	p, err := s.get(t)
	if err != nil {
		return nil, err
	}
	if p.UID != b.UID || p.Spec.NodeName != "" {
		return nil, apierrors.NewConflict(corev1.Resource("pods/binding"), t.Name, errors.New("UID or node is another"))
	}
	p = p.DeepCopy()
	p.Spec.NodeName = b.Target.Name
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	s.pods.Put(p)
	return &metav1.Status{Status: metav1.StatusSuccess}, nil
}

func (s *server) get(t client.Target) (*corev1.Pod, error) {
	p, ok := s.pods.Get(t.Namespace, t.Name)
	if !ok {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), t.Name)
	}
	return p, nil
}

func (s *server) Patch(ctx context.Context, t client.Target, patch client.Patch, _ metav1.PatchOptions) (runtime.Object, error) {
	if t.Subresource != "status" || patch.Type != types.StrategicMergePatchType {
		s.t.Errorf("patched %+v with %+v", t, patch)
	}
	if err := s.refuses(ctx, t.Name); err != nil {
		return nil, err
	}
	p, err := s.get(t)
	if err != nil {
		return nil, err
	}
	var body corev1.Pod
	if err := json.Unmarshal(patch.Data, &body); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	p = p.DeepCopy()
	if n := body.Status.NominatedNodeName; n != "" || strings.Contains(string(patch.Data), `"nominatedNodeName":null`) {
		p.Status.NominatedNodeName = n
		s.mu.Lock()
		s.nominations = append(s.nominations, t.Name+":"+n)
		s.mu.Unlock()
	}
	for _, c := range body.Status.Conditions {
		p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(old corev1.PodCondition) bool { return old.Type == c.Type })
		p.Status.Conditions = append(p.Status.Conditions, c)
		s.note("%s: %s=%s %s: %s", t.Name, c.Type, c.Status, c.Reason, c.Message)
	}
	return s.pods.Put(p), nil
}

// Delete deletes pods. Those with a grace period and a node terminate until the test removes them.
func (s *server) Delete(ctx context.Context, t client.Target, o metav1.DeleteOptions) error {
	if t.Subresource != "" || t.Resource.Resource != "pods" || o.Preconditions == nil || o.Preconditions.UID == nil {
		s.t.Errorf("deleted %+v with %+v", t, o)
	}
	if err := s.refuses(ctx, t.Name); err != nil {
		return err
	}
	p, err := s.get(t)
	if err != nil {
		return err
	}
	if p.UID != *o.Preconditions.UID {
		return apierrors.NewConflict(corev1.Resource("pods"), t.Name, errors.New("UID is another"))
	}
	s.note("%s: deleted", t.Name)
	if p.Spec.NodeName != "" && p.Spec.TerminationGracePeriodSeconds != nil {
		p = p.DeepCopy()
		p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		s.pods.Put(p)
		return nil
	}
	s.pods.Delete(t.Namespace, t.Name)
	return nil
}

// Record records events as users see them.
func (s *server) Record(e events.Event) {
	if e.Regarding.Kind != "Pod" || e.Regarding.APIVersion != "v1" || e.Regarding.UID == "" {
		s.t.Errorf("event about %+v", e.Regarding)
	}
	related := ""
	if e.Related != nil {
		related = fmt.Sprintf(" (%s %s %s)", e.Related.Kind, e.Related.Name, e.Related.UID)
	}
	s.note("%s: %s %s/%s %s%s", e.Regarding.Name, e.Type, e.Action, e.Reason, e.Message, related)
}

// where returns the node of each pod, "-" for those without.
func (s *server) where() map[string]string {
	pods, _, err := s.pods.List(s.t.Context())
	if err != nil {
		s.t.Error(err)
	}
	nodes := map[string]string{}
	for _, p := range pods {
		nodes[p.Name] = p.Spec.NodeName
		if p.Spec.NodeName == "" {
			nodes[p.Name] = "-"
		}
	}
	return nodes
}

// run runs a test in a bubble with an idle scheduler.
func run(t *testing.T, o scheduler.Options, test func(*testing.T, *server, *scheduler.Scheduler), nodes ...*corev1.Node) {
	t.Helper()
	runProfile(t, defaults(), o, test, nodes...)
}

func runProfile(t *testing.T, p scheduler.Profile, o scheduler.Options, test func(*testing.T, *server, *scheduler.Scheduler), nodes ...*corev1.Node) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nodes...)
		p.Plugins = append(slices.Clip(p.Plugins), scheduler.Enabled{Plugin: plugins.DefaultBinder{Client: s}})
		s.schedule(t, p, o, func(sched *scheduler.Scheduler) { test(t, s, sched) })
	})
}

func newServer(t *testing.T, nodes ...*corev1.Node) *server {
	s := &server{t: t, start: time.Now(), pods: memory.New[*corev1.Pod](), nodes: memory.New[*corev1.Node]()}
	s.lag = lag.New[*corev1.Pod](s.pods)
	for _, n := range nodes {
		s.nodes.Put(n)
	}
	return s
}

// schedule runs a scheduler while test runs, which it calls when all is idle.
func (s *server) schedule(t *testing.T, p scheduler.Profile, o scheduler.Options, test func(*scheduler.Scheduler)) {
	t.Helper()
	mutated := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
	in := scheduler.Sources{
		Pods:  informer.New[*corev1.Pod](s.lag, mutated),
		Nodes: informer.New[*corev1.Node](s.nodes, mutated), Others: s.others,
	}
	sched, err := scheduler.New(in, p, s, s, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, run := range []func(context.Context) error{in.Pods.Run, in.Nodes.Run, sched.Run} {
		all.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	synctest.Wait()
	test(sched)
	cancel()
	all.Wait()
}

// after lets time pass and waits until all is idle.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func same[T any](t *testing.T, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func important(p *corev1.Pod, priority int32) *corev1.Pod {
	p.Spec.Priority = &priority
	return p
}
