package component_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/lifecycle"
)

func named(names ...string) (all []component.Component) {
	for _, name := range names {
		all = append(all, component.Component{Name: name, Source: "first"})
	}
	return all
}

func TestSets(t *testing.T) {
	all := named("a", "b", "c")
	fewer, err := component.Without(all, "b", "a")
	if got := component.Names(fewer); err != nil || !slices.Equal(got, []string{"c"}) {
		t.Errorf("without: %v, %v", got, err)
	}
	if _, err := component.Without(all, "b", "d"); !errors.Is(err, component.ErrUnknown) || !strings.Contains(err.Error(), `"d": there are a, b, c`) {
		t.Errorf("without what there is not: %v", err)
	}
	more := component.With(all, component.Component{Name: "b", Source: "second"}, component.Component{Name: "d"})
	if got := component.Names(more); !slices.Equal(got, []string{"a", "b", "c", "d"}) || more[1].Source != "second" {
		t.Errorf("with: %+v", more)
	}
	if got := component.Names(all); !slices.Equal(got, []string{"a", "b", "c"}) || all[1].Source != "first" {
		t.Errorf("the slice that was given is now %+v", all)
	}
	if !component.Has(all, "c") || component.Has(all, "d") {
		t.Error("has")
	}
}

func TestCheck(t *testing.T) {
	made := func(names ...string) []component.Component {
		all := named(names...)
		for i := range all {
			all[i].New = func(*component.Parts) (lifecycle.Runnable, error) { return nil, nil }
		}
		return all
	}
	if err := component.Check(made("a", "b")); err != nil {
		t.Error(err)
	}
	for want, all := range map[string][]component.Component{
		"number 1 has no name":   made("a", ""),
		"b has no New":           append(made("a"), named("b")...),
		"two are called a; With": made("a", "b", "a"),
	} {
		if err := component.Check(all); !errors.Is(err, component.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}

// maps is a feed of config maps and nothing else.
type maps struct {
	*memory.Store[*corev1.ConfigMap]
}

var errUnknown = errors.New("no such resource")

func (m maps) New(r schema.GroupVersionResource) (informer.Object, error) {
	if r.Resource != "configmaps" {
		return nil, errUnknown
	}
	return &corev1.ConfigMap{}, nil
}

func (m maps) Objects(r schema.GroupVersionResource) (informer.Source[informer.Object], error) {
	if _, err := m.New(r); err != nil {
		return nil, err
	}
	return informer.Convert(m.Store, func(obj *corev1.ConfigMap) (informer.Object, error) { return obj, nil }, nil), nil
}

func (m maps) Metadata(r schema.GroupVersionResource) (informer.Source[informer.Object], error) {
	return m.Objects(r)
}

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

func newInformers() (*component.Informers, maps) {
	feed := maps{memory.New[*corev1.ConfigMap]()}
	return component.NewInformers(feed, informer.Options{}), feed
}

// TestInformers: there is one cache per resource and type, and Run runs all of them.
func TestInformers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, feed := newInformers()
		whole := component.Informer[*corev1.ConfigMap](in, configMaps)
		if component.Informer[*corev1.ConfigMap](in, configMaps) != whole {
			t.Error("a second cache of the same")
		}
		meta := component.Metadata(in, configMaps)
		if component.Metadata(in, configMaps) != meta || in.Err() != nil {
			t.Errorf("a second cache of metadata, %v", in.Err())
		}
		feed.Put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- in.Run(ctx) }()
		if err := in.WaitSynced(ctx); err != nil {
			t.Fatal(err)
		}
		if _, ok := whole.Get("n", "a"); !ok {
			t.Error("not in the cache")
		}
		if _, ok := meta.Get("n", "a"); !ok {
			t.Error("not in the cache of metadata")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestNoInformers: an empty set runs until its context ends.
func TestNoInformers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, _ := newInformers()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := errors.Join(in.WaitSynced(ctx), in.Run(ctx)); err != nil || ctx.Err() == nil {
			t.Errorf("ended before its time with %v", err)
		}
	})
}

// TestUnreadable: the first resource that cannot be read is reported; its informer can be used and stays empty.
func TestUnreadable(t *testing.T) {
	in, _ := newInformers()
	pods := component.Informer[*corev1.Pod](in, corev1.SchemeGroupVersion.WithResource("pods"))
	pods.AddHandler(informer.Handler[*corev1.Pod]{})
	if err := in.Err(); !errors.Is(err, errUnknown) {
		t.Errorf("error %v", err)
	}
	component.Informer[*corev1.Secret](in, configMaps)
	if err := in.Err(); !errors.Is(err, errUnknown) {
		t.Errorf("a later error %v took the place of the first", err)
	}
	wrong, _ := newInformers()
	component.Informer[*corev1.Secret](wrong, configMaps)
	if err := wrong.Err(); err == nil || !strings.Contains(err.Error(), "resource configmaps: its objects are of type *v1.ConfigMap, not *v1.Secret") {
		t.Errorf("the wrong type: %v", err)
	}
	none, _ := newInformers()
	component.Metadata(none, corev1.SchemeGroupVersion.WithResource("pods"))
	if err := none.Err(); !errors.Is(err, errUnknown) {
		t.Errorf("metadata: %v", err)
	}
}

// place is a host in a test.
func place(in *component.Informers, connect func(*authn.Identity, string) (client.Client, error)) *component.Host {
	return &component.Host{Connect: connect, Informers: in, Pace: &component.Pace{}, Cluster: component.Cluster{RootCA: []byte("root")}}
}

// TestMake: a component gets a client with its own identity and the parts of its host.
func TestMake(t *testing.T) {
	in, _ := newInformers()
	var who, program string
	host := place(in, func(id *authn.Identity, name string) (client.Client, error) {
		who, program = id.Name, name
		return nil, nil
	})
	c := component.Component{Name: "greeter", Identity: &authn.Identity{Name: "jane"}, New: func(p *component.Parts) (lifecycle.Runnable, error) {
		if p.Informers != in || p.Recorder == nil || string(p.Cluster.RootCA) != "root" || p.Pace != host.Pace {
			t.Errorf("parts are %+v", p)
		}
		return lifecycle.Func(func(context.Context) error { return errors.New("ran") }), nil
	}}
	run, err := host.Make(c)
	if err != nil || who != "jane" || program != "greeter" {
		t.Fatalf("%v, as %s by %s", err, who, program)
	}
	if err := run.Run(t.Context()); err == nil || err.Error() != "ran" {
		t.Errorf("run: %v", err)
	}
	c.Program = "manager"
	if _, err := host.Make(c); err != nil || program != "manager" {
		t.Errorf("%v, by %s", err, program)
	}
}

// TestMakeFails: errors from making a component include its name.
func TestMakeFails(t *testing.T) {
	broken := errors.New("broken")
	works := func(p *component.Parts) (lifecycle.Runnable, error) { return lifecycle.Group(), nil }
	for name, c := range map[string]struct {
		connect error
		make    func(*component.Parts) (lifecycle.Runnable, error)
		want    error
	}{
		"connection":  {broken, works, broken},
		"constructor": {nil, func(*component.Parts) (lifecycle.Runnable, error) { return nil, broken }, broken},
		"an informer that its constructor took as it was": {nil, func(p *component.Parts) (lifecycle.Runnable, error) {
			component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods"))
			return works(p)
		}, errUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			in, _ := newInformers()
			host := place(in, func(*authn.Identity, string) (client.Client, error) { return nil, c.connect })
			if _, err := host.Make(component.Component{Name: "x", New: c.make}); !errors.Is(err, c.want) || !strings.HasPrefix(err.Error(), "x: ") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// posted records what is created.
type posted struct {
	client.Client
	all chan schema.GroupVersionResource
}

func (p posted) Create(_ context.Context, t client.Target, obj runtime.Object, _ metav1.CreateOptions) (runtime.Object, error) {
	p.all <- t.Resource
	return obj, nil
}

// TestEvents: events use the core API, or events.k8s.io if repetitions form series.
func TestEvents(t *testing.T) {
	for series, want := range map[bool]string{false: "", true: "events.k8s.io"} {
		synctest.Test(t, func(t *testing.T) {
			api := posted{all: make(chan schema.GroupVersionResource, 1)}
			in, _ := newInformers()
			run, err := place(in, func(*authn.Identity, string) (client.Client, error) { return api, nil }).Make(component.Component{
				Name: "x", Series: series,
				New: func(p *component.Parts) (lifecycle.Runnable, error) {
					p.Recorder.Record(events.Event{Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: "n", Name: "a"}, Type: "Normal", Reason: "Told"})
					return lifecycle.Group(), nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { _ = run.Run(ctx) }()
			if got := <-api.all; got.Group != want {
				t.Errorf("event in group %q, want %q", got.Group, want)
			}
		})
	}
}

// ticker is a controller that records when it acts.
type ticker struct {
	name string
	at   chan string
}

func (k ticker) Name() string { return k.name }

func (k ticker) Watch(q controllers.Queue) []controllers.Synced {
	q.Add(controllers.Key{Name: "x"})
	return nil
}

func (k ticker) Reconcile(context.Context, controllers.Key) (controllers.Result, error) {
	k.at <- k.name + time.Now().Format(" 05.000")
	return controllers.Result{}, nil
}

// TestPace: with a settle time, each loop acts at distinct instants, in the order in which the loops were made.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pace := &component.Pace{Settle: time.Millisecond}
		at := make(chan string, 2)
		p := &component.Parts{Pace: pace}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first, second := p.Loop(ticker{"first", at}), p.Loop(ticker{"second", at})
		go func() { _ = lifecycle.Group(second, first).Run(ctx) }()
		if got := <-at + ", " + <-at; got != "first 00.001, second 00.002" {
			t.Errorf("acted at %s", got)
		}
		cancel()
		synctest.Wait()
	})
	seed := uint64(7)
	if (&component.Pace{}).InOrder() || !(&component.Pace{Seed: &seed}).InOrder() {
		t.Error("in order without a seed")
	}
}
