package objects_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/kubelet/environment"
	"github.com/keelson-dev/keelson/kubelet/objects"
	"github.com/keelson-dev/keelson/kubelet/volume"
)

var (
	_ volume.Objects      = (*objects.Cache)(nil)
	_ environment.Objects = (*objects.Cache)(nil)
)

// server holds config maps and secrets, and counts requests.
type server struct {
	configMaps *memory.Store[*corev1.ConfigMap]
	secrets    *memory.Store[*corev1.Secret]

	mu      sync.Mutex
	err     error // instead of any answer
	gets    int
	lists   int
	streams int // open now
	changed []types.UID
}

func newServer() *server {
	return &server{configMaps: memory.New[*corev1.ConfigMap](), secrets: memory.New[*corev1.Secret]()}
}

func (s *server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *server) Get(_ context.Context, t client.Target) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gets++
	if s.err != nil {
		return nil, s.err
	}
	if t.Resource.Resource == "configmaps" {
		if o, ok := s.configMaps.Get(t.Namespace, t.Name); ok {
			return o.DeepCopy(), nil
		}
	} else if o, ok := s.secrets.Get(t.Namespace, t.Name); ok {
		return o.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(t.Resource.GroupResource(), t.Name)
}

func (s *server) watches() objects.Watches {
	return objects.Watches{
		ConfigMap: func(ns, name string) (informer.Source[*corev1.ConfigMap], error) {
			return one[*corev1.ConfigMap]{s, s.configMaps, ns, name}, nil
		},
		Secret: func(ns, name string) (informer.Source[*corev1.Secret], error) {
			return one[*corev1.Secret]{s, s.secrets, ns, name}, nil
		},
	}
}

func (s *server) tell(uids []types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = append(s.changed, uids...)
}

// told returns the pods passed to Changed since its last call.
func (s *server) told() []types.UID {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	told := s.changed
	s.changed = nil
	slices.Sort(told)
	return told
}

func (s *server) counts() string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%d gets, %d lists, %d watches", s.gets, s.lists, s.streams)
}

// one is a source of a single object in a store.
type one[T informer.Object] struct {
	server          *server
	store           *memory.Store[T]
	namespace, name string
}

func (o one[T]) List(ctx context.Context) ([]T, string, error) {
	o.server.mu.Lock()
	o.server.lists++
	err := o.server.err
	o.server.mu.Unlock()
	if err != nil {
		return nil, "", err
	}
	all, version, err := o.store.List(ctx)
	return slices.DeleteFunc(all, func(x T) bool { return x.GetNamespace() != o.namespace || x.GetName() != o.name }), version, err
}

func (o one[T]) Watch(ctx context.Context, version string) (informer.Stream[T], error) {
	o.server.mu.Lock()
	defer o.server.mu.Unlock()
	if o.server.err != nil {
		return nil, o.server.err
	}
	inner, err := o.store.Watch(ctx, version)
	if err != nil {
		return nil, err
	}
	o.server.streams++
	return &stream[T]{Stream: inner, one: o}, nil
}

// stream leaves out other objects, and ends after an hour.
type stream[T informer.Object] struct {
	informer.Stream[T]
	one    one[T]
	closed bool
}

func (s *stream[T]) Next(ctx context.Context) ([]informer.Event[T], error) {
	for {
		limited, cancel := context.WithTimeout(ctx, time.Hour)
		events, err := s.Stream.Next(limited)
		cancel()
		s.one.server.mu.Lock()
		if s.one.server.err != nil {
			err = s.one.server.err
		}
		s.one.server.mu.Unlock()
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return nil, io.EOF
		}
		if err != nil {
			return nil, err
		}
		events = slices.DeleteFunc(slices.Clone(events), func(e informer.Event[T]) bool {
			return e.Object.GetNamespace() != s.one.namespace || e.Object.GetName() != s.one.name
		})
		if len(events) > 0 {
			return events, nil
		}
	}
}

func (s *stream[T]) Close() {
	s.Stream.Close()
	s.one.server.mu.Lock()
	defer s.one.server.mu.Unlock()
	if !s.closed {
		s.one.server.streams--
	}
	s.closed = true
}

func config(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid of " + name)}, Data: map[string]string{"k": value}}
}

func secretOf(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string][]byte{"k": []byte("v")}}
}

// filePod mounts a config map as files.
func filePod(uid types.UID, names ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: string(uid), UID: uid}}
	for _, n := range names {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: n, VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: n}},
		}})
	}
	return p
}

// within runs a test with a cache in a bubble.
func within(t *testing.T, test func(t *testing.T, s *server, c *objects.Cache)) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		c := objects.New(s, s.watches(), objects.Options{Changed: s.tell})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		test(t, s, c)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := s.streams; got != 0 {
			t.Errorf("%d watches are open after the end", got)
		}
	})
}

func value(t *testing.T, c *objects.Cache, name string) string {
	t.Helper()
	m, err := c.ConfigMap(t.Context(), "ns", name)
	if err != nil {
		return err.Error()
	}
	return m.Data["k"]
}

func TestWatched(t *testing.T) {
	within(t, func(t *testing.T, s *server, c *objects.Cache) {
		s.configMaps.Put(config("a", "1"))
		s.configMaps.Put(config("other", "1"))
		c.Register(filePod("p1", "a"))
		c.Register(filePod("p2", "a"))
		c.Register(filePod("p1", "a"))
		if got := value(t, c, "a"); got != "1" {
			t.Errorf("got %s", got)
		}
		if got := s.counts(); got != "0 gets, 1 lists, 1 watches" {
			t.Error(got)
		}
		if told := s.told(); len(told) > 0 {
			t.Errorf("told of %v though they know", told)
		}
		s.configMaps.Put(config("a", "2"))
		if told := s.told(); !slices.Equal(told, []types.UID{"p1", "p2"}) || value(t, c, "a") != "2" {
			t.Errorf("told of %v, %s", told, value(t, c, "a"))
		}
		s.configMaps.Put(config("other", "2"))
		if told := s.told(); len(told) > 0 {
			t.Errorf("told of %v about another object", told)
		}
		time.Sleep(3 * time.Hour) // the server ends the watch from time to time
		s.configMaps.Delete("ns", "a")
		if told := s.told(); !slices.Equal(told, []types.UID{"p1", "p2"}) || value(t, c, "a") != `configmap "a" not found` {
			t.Errorf("told of %v, %s", told, value(t, c, "a"))
		}
		c.Unregister("p1")
		s.configMaps.Put(config("a", "3"))
		if told := s.told(); !slices.Equal(told, []types.UID{"p2"}) || value(t, c, "a") != "3" {
			t.Errorf("told of %v, %s", told, value(t, c, "a"))
		}
		c.Register(filePod("p2", "other"))
		s.configMaps.Put(config("a", "4"))
		if told := s.told(); len(told) > 0 || value(t, c, "other") != "2" {
			t.Errorf("told of %v, %s", told, value(t, c, "other"))
		}
		c.Unregister("p2")
		c.Unregister("p2")
		c.Unregister("never")
		if got := s.counts(); got != "1 gets, 2 lists, 0 watches" {
			t.Error(got)
		}
	})
}

// TestNeverStale: an object that was just created is found, whatever the state of the watch.
func TestNeverStale(t *testing.T) {
	within(t, func(t *testing.T, s *server, c *objects.Cache) {
		c.Register(filePod("p1", "a"))
		if got := value(t, c, "a"); got != `configmap "a" not found` {
			t.Errorf("got %s", got)
		}
		s.told()
		s.configMaps.Put(config("a", "1")) // no wait: the watch may not have seen it
		if got := value(t, c, "a"); got != "1" {
			t.Errorf("got %s", got)
		}
		if told := s.told(); !slices.Equal(told, []types.UID{"p1"}) {
			t.Errorf("told of %v", told)
		}
		if got := value(t, c, "unregistered"); got != `configmap "unregistered" not found` {
			t.Errorf("got %s", got)
		}
		s.configMaps.Put(config("unregistered", "1"))
		if got := value(t, c, "unregistered"); got != "1" {
			t.Errorf("got %s", got)
		}
	})
}

// TestForbidden covers the time until the authorizer knows that the pod is on this node.
func TestForbidden(t *testing.T) {
	within(t, func(t *testing.T, s *server, c *objects.Cache) {
		s.configMaps.Put(config("a", "1"))
		refused := apierrors.NewForbidden(corev1.Resource("configmaps"), "a", errors.New("no relationship found between node and this object"))
		s.fail(refused)
		c.Register(filePod("p1", "a"))
		start := time.Now()
		if _, err := c.ConfigMap(t.Context(), "ns", "a"); !apierrors.IsForbidden(err) {
			t.Errorf("got %v", err)
		}
		s.fail(nil)
		if got := value(t, c, "a"); got != "1" || time.Since(start) != 0 {
			t.Errorf("got %s after %v", got, time.Since(start))
		}
		time.Sleep(time.Second)
		if got := s.counts(); got != "2 gets, 2 lists, 1 watches" {
			t.Error(got)
		}
		s.told()
		s.configMaps.Put(config("a", "2"))
		if told := s.told(); !slices.Equal(told, []types.UID{"p1"}) {
			t.Errorf("told of %v", told)
		}
	})
}

func TestServerAway(t *testing.T) {
	within(t, func(t *testing.T, s *server, c *objects.Cache) {
		s.configMaps.Put(config("a", "1"))
		s.secrets.Put(secretOf("s"))
		p := filePod("p1", "a", "optional")
		p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}}
		c.Register(p)
		read := func() error {
			_, errA := c.ConfigMap(t.Context(), "ns", "a")
			_, errS := c.Secret(t.Context(), "ns", "s")
			return errors.Join(errA, errS)
		}
		if err := read(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, away := range []error{errors.New("connection refused"), apierrors.NewServiceUnavailable("starting")} {
			s.fail(away)
			s.configMaps.Put(config("noise", "wakes the stream"))
			time.Sleep(10 * time.Minute)
			if err := read(); err != nil {
				t.Errorf("what was known is not good enough: %v", err)
			}
			if _, err := c.ConfigMap(t.Context(), "ns", "b"); !errors.Is(err, away) {
				t.Errorf("of an object that was never read: %v", err)
			}
			if got := value(t, c, "optional"); got != `configmap "optional" not found` {
				t.Errorf("what was not there is: %s", got)
			}
			s.fail(nil)
			s.configMaps.Put(config("a", "while away"))
			time.Sleep(31 * time.Second)
			if got := value(t, c, "a"); got != "while away" {
				t.Errorf("got %s", got)
			}
			if told := s.told(); !slices.Equal(told, []types.UID{"p1"}) {
				t.Errorf("told of %v", told)
			}
			s.configMaps.Put(config("a", "1"))
			s.told()
		}
		s.configMaps.Put(config("a", "2"))
		s.configMaps.Trim() // the history is gone
		time.Sleep(time.Minute)
		if got := value(t, c, "a"); got != "2" {
			t.Errorf("got %s", got)
		}
	})
}

func TestImmutable(t *testing.T) {
	within(t, func(t *testing.T, s *server, c *objects.Cache) {
		fixed := config("a", "1")
		fixed.Immutable = new(true)
		s.configMaps.Put(fixed)
		later := secretOf("s")
		s.secrets.Put(later)
		p := filePod("p1", "a")
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}})
		c.Register(p)
		for range 3 {
			if got := value(t, c, "a"); got != "1" {
				t.Errorf("got %s", got)
			}
		}
		if got := s.counts(); got != "0 gets, 2 lists, 1 watches" {
			t.Error(got)
		}
		later = later.DeepCopy()
		later.Immutable = new(true)
		s.secrets.Put(later)
		if got := s.counts(); got != "0 gets, 2 lists, 0 watches" {
			t.Error(got)
		}
		c.Unregister("p1")
		again := config("a", "2")
		s.configMaps.Put(again)
		c.Register(p)
		if got := value(t, c, "a"); got != "2" {
			t.Errorf("got %s", got)
		}
	})
}

// TestReferences: every object that a pod refers to is cached, and only files are watched.
func TestReferences(t *testing.T) {
	within(t, func(t *testing.T, s *server, c *objects.Cache) {
		ref := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
		container := func(n string) corev1.Container {
			return corev1.Container{
				EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref("c1" + n)}}, {SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref("s1" + n)}}},
				Env: []corev1.EnvVar{
					{ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref("c2" + n)}}},
					{ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref("s2" + n)}}}, {Name: "plain"},
				},
			}
		}
		p := filePod("p1", "file")
		p.Spec.Containers, p.Spec.InitContainers = []corev1.Container{container("")}, []corev1.Container{container("i")}
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Env: container("e").Env}}}
		p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{ref("pull"), ref("")}
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: ref("projected")}}, {Secret: &corev1.SecretProjection{LocalObjectReference: ref("projected")}}, {},
		}}}})
		c.Register(p)
		if got := s.counts(); got != "0 gets, 3 lists, 3 watches" {
			t.Error(got)
		}
		names := []string{"c1", "c2", "c1i", "c2i", "c2e", "file", "projected"}
		for _, n := range names {
			s.configMaps.Put(config(n, "1"))
		}
		for _, n := range names {
			if got := value(t, c, n); got != "1" {
				t.Errorf("%s: %s", n, got)
			}
		}
		secrets := []string{"s1", "s2", "s1i", "s2i", "s2e", "pull", "projected"}
		for _, n := range secrets {
			s.secrets.Put(secretOf(n))
			if _, err := c.Secret(t.Context(), "ns", n); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		s.fail(errors.New("away"))
		for _, n := range append(names, "c1") {
			if got := value(t, c, n); got != "1" {
				t.Errorf("%s: %s", n, got)
			}
		}
		for _, n := range secrets {
			if _, err := c.Secret(t.Context(), "ns", n); err != nil {
				t.Error(err)
			}
		}
		c.Unregister("p1")
		for _, n := range names {
			if got := value(t, c, n); got != "away" {
				t.Errorf("%s is remembered: %s", n, got)
			}
		}
		s.fail(nil)
	})
}

// TestWithoutRun: a cache that does not run reads from the server.
func TestWithoutRun(t *testing.T) {
	s := newServer()
	s.configMaps.Put(config("a", "1"))
	for _, watches := range []objects.Watches{s.watches(), {}} {
		c := objects.New(s, watches, objects.Options{})
		c.Register(filePod("p1", "a"))
		if got := value(t, c, "a"); got != "1" {
			t.Errorf("got %s", got)
		}
		c.Unregister("p1")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := objects.New(s, s.watches(), objects.Options{})
	c.Register(filePod("p1", "a"))
	if err := c.Run(ctx); err != nil {
		t.Error(err)
	}
	if got := value(t, c, "a"); got != "1" {
		t.Errorf("after the end: %s", got)
	}
}

// TestManyAtOnce registers and reads from many goroutines.
func TestManyAtOnce(t *testing.T) {
	within(t, func(t *testing.T, s *server, c *objects.Cache) {
		for i := range 5 {
			s.configMaps.Put(config(fmt.Sprint(i), "1"))
		}
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				uid := types.UID(fmt.Sprint("p", i))
				for j := range 20 {
					c.Register(filePod(uid, fmt.Sprint((i+j)%5), fmt.Sprint(j%5)))
					if got := value(t, c, fmt.Sprint((i+j)%5)); got != "1" {
						t.Errorf("got %s", got)
					}
				}
				c.Unregister(uid)
			})
		}
		all.Wait()
		synctest.Wait()
		if s.streams != 0 {
			t.Errorf("%d watches for no pod", s.streams)
		}
	})
}

func Example() {
	s := newServer() // in a program, a *rest.Client, and wire.New with a field selector for each object
	s.configMaps.Put(config("settings", "blue"))
	cache := objects.New(s, s.watches(), objects.Options{Changed: func(pods []types.UID) { fmt.Println("look at", pods) }})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- cache.Run(ctx) }()
	cache.Register(filePod("pod-1", "settings"))
	m, err := cache.ConfigMap(ctx, "ns", "settings")
	fmt.Println(m.Data["k"], err)
	cache.Unregister("pod-1")
	cancel()
	fmt.Println(<-done)
	// Output:
	// blue <nil>
	// <nil>
}
