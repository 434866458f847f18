package registry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// diary records what a kind reserves and how it is settled.
type diary struct {
	lines []string
	fail  error
}

func (d *diary) reserve(_ context.Context, r registry.Reservation[*corev1.ConfigMap]) (registry.Settle, error) {
	what := "update"
	switch {
	case r.Old == nil:
		what = "create"
	case r.Object == nil:
		what = "remove"
	}
	if r.DryRun {
		what = "dry " + what
	}
	if d.fail != nil {
		d.lines = append(d.lines, what+": no")
		return nil, d.fail
	}
	if r.Object != nil {
		r.Object.Data["took"] = what
	}
	return func(_ context.Context, o registry.Outcome) { d.lines = append(d.lines, what+": "+o.String()) }, nil
}

// notes are ConfigMaps that reserve something; they must have a text.
func (d *diary) notes() registry.Kind {
	k := configMaps()
	rules := registry.Rules[*corev1.ConfigMap]{
		Effects: registry.Effects[*corev1.ConfigMap]{Reserve: d.reserve},
		Validate: func(c *corev1.ConfigMap) field.ErrorList {
			if c.Data["text"] == "" {
				return field.ErrorList{field.Required(field.NewPath("data").Key("text"), "")}
			}
			return nil
		},
		CreateOnUpdate: true,
	}
	rules.ValidateUpdate = func(c, _ *corev1.ConfigMap) field.ErrorList { return rules.Validate(c) }
	k.Rules = registry.Definition[*corev1.ConfigMap]{Rules: rules}.Kind().Rules
	return k
}

func note(name, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string]string{"text": text}}
}

func openKinds(t testing.TB, store storage.Store, kinds ...registry.Kind) *registry.Registry {
	t.Helper()
	return openWith(t, store, registry.Options{Identifiers: registry.Seeded(1)}, kinds...)
}

func openWith(t testing.TB, store storage.Store, o registry.Options, kinds ...registry.Kind) *registry.Registry {
	t.Helper()
	reg, err := registry.New(store, kinds, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- reg.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if err := reg.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	return reg
}

// failing fails the calls that it is told to.
type failing struct {
	storage.Store
	create, update error
	before         func() // called before one update
}

func (f *failing) Create(ctx context.Context, key string, value []byte) (int64, error) {
	if f.create != nil {
		return 0, f.create
	}
	return f.Store.Create(ctx, key, value)
}

func (f *failing) Update(ctx context.Context, key string, value []byte, expected int64) (int64, error) {
	if before := f.before; before != nil {
		f.before = nil
		before()
	}
	if f.update != nil {
		return 0, f.update
	}
	return f.Store.Update(ctx, key, value, expected)
}

func TestReserve(t *testing.T) {
	errElse, ctx := errors.New("else"), t.Context()
	write := func(text string) registry.Change {
		return func(_ context.Context, current registry.Object) (registry.Object, error) {
			if current == nil {
				return note("a", text), nil
			}
			c := current.DeepCopyObject().(*corev1.ConfigMap)
			c.Data["text"] = text
			return c, nil
		}
	}
	no := func(context.Context, registry.Object) error { return errElse }
	cases := []struct {
		name string
		do   func(r *registry.Resource, store *failing, d *diary) error
		want []string
		err  error
	}{
		{"create", func(r *registry.Resource, _ *failing, _ *diary) error {
			item, err := r.Create(ctx, note("a", "x"), registry.CreateOptions{})
			if took := item.Object.(*corev1.ConfigMap).Data["took"]; took != "create" {
				t.Errorf("a reservation is not stored: %q", took)
			}
			return err
		}, []string{"create: written"}, nil},
		{"dry create", func(r *registry.Resource, _ *failing, _ *diary) error {
			_, err := r.Create(ctx, note("a", "x"), registry.CreateOptions{DryRun: true})
			return err
		}, []string{"dry create: not written"}, nil},
		{"create invalid", func(r *registry.Resource, _ *failing, _ *diary) error {
			_, err := r.Create(ctx, note("a", ""), registry.CreateOptions{})
			return err
		}, []string{"create: not written"}, registry.ErrInvalid},
		{"create unadmitted", func(r *registry.Resource, _ *failing, _ *diary) error {
			_, err := r.Create(ctx, note("a", "x"), registry.CreateOptions{Admit: no})
			return err
		}, []string{"create: not written"}, errElse},
		{"create of an existing object", func(r *registry.Resource, _ *failing, d *diary) error {
			if _, err := r.Create(ctx, note("a", "x"), registry.CreateOptions{}); err != nil {
				return err
			}
			d.lines = nil
			_, err := r.Create(ctx, note("a", "x"), registry.CreateOptions{})
			return err
		}, []string{"create: not written"}, registry.ErrExists},
		{"create with nothing left", func(r *registry.Resource, _ *failing, d *diary) error {
			d.fail = errElse
			_, err := r.Create(ctx, note("a", ""), registry.CreateOptions{})
			return err
		}, []string{"create: no"}, errElse},
		{"create in a broken store", func(r *registry.Resource, store *failing, _ *diary) error {
			store.create = errElse
			_, err := r.Create(ctx, note("a", "x"), registry.CreateOptions{})
			return err
		}, []string{"create: unknown"}, errElse},
		{"create with a panic", func(r *registry.Resource, _ *failing, _ *diary) (err error) {
			defer func() {
				if recover() != nil {
					err = errElse
				}
			}()
			_, err = r.Create(ctx, note("a", "x"), registry.CreateOptions{Admit: func(context.Context, registry.Object) error { panic("x") }})
			return err
		}, []string{"create: not written"}, errElse},
		{"create by update", func(r *registry.Resource, _ *failing, _ *diary) error {
			_, _, err := r.Update(ctx, "ns", "a", write("x"), registry.UpdateOptions{})
			return err
		}, []string{"create: written"}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { checkReserve(t, c.do, c.want, c.err) })
	}
	updates := []struct {
		name string
		do   func(r *registry.Resource, store *failing, d *diary) error
		want []string
		err  error
	}{
		{"update", func(r *registry.Resource, _ *failing, _ *diary) error {
			_, _, err := r.Update(ctx, "ns", "a", write("y"), registry.UpdateOptions{})
			return err
		}, []string{"update: written"}, nil},
		{"update invalid", func(r *registry.Resource, _ *failing, _ *diary) error {
			_, _, err := r.Update(ctx, "ns", "a", write(""), registry.UpdateOptions{})
			return err
		}, []string{"update: not written"}, registry.ErrInvalid},
		{"dry update", func(r *registry.Resource, _ *failing, _ *diary) error {
			_, _, err := r.Update(ctx, "ns", "a", write("y"), registry.UpdateOptions{DryRun: true})
			return err
		}, []string{"dry update: not written"}, nil},
		{"raw update", func(r *registry.Resource, _ *failing, _ *diary) error {
			_, _, err := r.Update(ctx, "ns", "a", write("y"), registry.UpdateOptions{Raw: true})
			return err
		}, nil, nil},
		{"update after a conflict", func(r *registry.Resource, store *failing, _ *diary) error {
			store.before = func() {
				_, _, err := r.Update(ctx, "ns", "a", write("z"), registry.UpdateOptions{Raw: true})
				if err != nil {
					t.Error(err)
				}
			}
			_, _, err := r.Update(ctx, "ns", "a", write("y"), registry.UpdateOptions{})
			return err
		}, []string{"update: not written", "update: written"}, nil},
		{"update in a broken store", func(r *registry.Resource, store *failing, _ *diary) error {
			store.update = errElse
			_, _, err := r.Update(ctx, "ns", "a", write("y"), registry.UpdateOptions{})
			return err
		}, []string{"update: unknown"}, errElse},
		{"update without a change", func(r *registry.Resource, _ *failing, d *diary) error {
			if _, _, err := r.Update(ctx, "ns", "a", write("y"), registry.UpdateOptions{}); err != nil {
				return err
			}
			d.lines = nil
			_, _, err := r.Update(ctx, "ns", "a", write("y"), registry.UpdateOptions{})
			return err
		}, []string{"update: not written"}, nil},
		{"delete", func(r *registry.Resource, _ *failing, _ *diary) error {
			_, _, err := r.Delete(ctx, "ns", "a", registry.DeleteOptions{})
			return err
		}, []string{"remove: written"}, nil},
		{"dry delete", func(r *registry.Resource, _ *failing, _ *diary) error {
			_, _, err := r.Delete(ctx, "ns", "a", registry.DeleteOptions{DryRun: true})
			return err
		}, nil, nil},
		{"delete held up", func(r *registry.Resource, _ *failing, d *diary) error {
			finalizers := func(f ...string) registry.Change {
				return func(_ context.Context, current registry.Object) (registry.Object, error) {
					c := current.DeepCopyObject().(*corev1.ConfigMap)
					c.Finalizers = f
					return c, nil
				}
			}
			if _, _, err := r.Update(ctx, "ns", "a", finalizers("example.com/x"), registry.UpdateOptions{}); err != nil {
				return err
			}
			if _, _, err := r.Delete(ctx, "ns", "a", registry.DeleteOptions{}); err != nil {
				return err
			}
			_, _, err := r.Update(ctx, "ns", "a", finalizers(), registry.UpdateOptions{})
			return err
		}, []string{"update: written", "update: not written", "remove: written"}, nil},
	}
	for _, c := range updates {
		t.Run(c.name, func(t *testing.T) {
			checkReserve(t, func(r *registry.Resource, store *failing, d *diary) error {
				if _, err := r.Create(ctx, note("a", "x"), registry.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				d.lines = nil
				return c.do(r, store, d)
			}, c.want, c.err)
		})
	}
}

func checkReserve(t *testing.T, do func(*registry.Resource, *failing, *diary) error, want []string, wantErr error) {
	t.Helper()
	d, store := &diary{}, &failing{Store: memory.New(memory.Options{})}
	reg := openKinds(t, store, d.notes())
	res, _ := reg.Resource(schema.GroupResource{Resource: "configmaps"})
	if err := do(res, store, d); !errors.Is(err, wantErr) || wantErr == nil && err != nil {
		t.Errorf("error %v, want %v", err, wantErr)
	}
	if !slices.Equal(d.lines, want) {
		t.Errorf("%q, want %q", d.lines, want)
	}
}

// TestReservationEnds: a write is refused if it takes longer than its reservation lasts.
func TestReservationEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		reg := openKinds(t, memory.New(memory.Options{}), d.notes())
		res, _ := reg.Resource(schema.GroupResource{Resource: "configmaps"})
		slow := func(context.Context, registry.Object) error {
			time.Sleep(registry.ReservationTime + time.Second)
			return nil
		}
		_, err := res.Create(t.Context(), note("a", "x"), registry.CreateOptions{Admit: slow})
		if !errors.Is(err, context.DeadlineExceeded) || !slices.Equal(d.lines, []string{"create: not written"}) {
			t.Errorf("%v, %q", err, d.lines)
		}
		if _, err := res.Get(t.Context(), "ns", "a", ""); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("written nonetheless: %v", err)
		}
	})
}

// A kind of seats, which nobody can take twice: each taken seat is an object of another kind, whose name is
// unique.
func ExampleReservation() {
	seats := configMaps() // any kind will do
	tickets := registry.Definition[*corev1.Secret]{
		Names:        registry.Names{Kind: "Secret", Plural: "secrets", Singular: "secret"},
		GroupVersion: corev1.SchemeGroupVersion, Namespaced: true,
		New:     func() *corev1.Secret { return &corev1.Secret{} },
		NewList: func() runtime.Object { return &corev1.SecretList{} },
		Rules: registry.Rules[*corev1.Secret]{Effects: registry.Effects[*corev1.Secret]{Reserve: func(ctx context.Context, r registry.Reservation[*corev1.Secret]) (registry.Settle, error) {
			gr := schema.GroupResource{Resource: "configmaps"}
			ticket := r.Object
			if ticket == nil {
				ticket = r.Old
			}
			seat := registry.ObjectKey{Resource: gr, Namespace: ticket.Namespace, Name: "seat-" + ticket.Labels["seat"]}
			free := func(ctx context.Context) { _ = r.Delete(ctx, seat, metav1.DeleteOptions{}) }
			switch {
			case r.Object == nil: // the ticket is given back
				return func(ctx context.Context, o registry.Outcome) {
					if o == registry.Written {
						free(ctx)
					}
				}, nil
			case r.Old != nil || r.DryRun:
				return nil, nil
			}
			_, err := r.Create(ctx, gr, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: seat.Namespace, Name: seat.Name}})
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context, o registry.Outcome) {
				if o == registry.NotWritten {
					free(ctx)
				}
			}, nil
		}}},
	}.Kind()
	reg, err := registry.New(memory.New(memory.Options{}), []registry.Kind{seats, tickets}, registry.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- reg.Run(ctx) }()
	buy := func(name, seat string) error {
		_, err := reg.Access().Create(ctx, schema.GroupResource{Resource: "secrets"}, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "hall", Name: name, Labels: map[string]string{"seat": seat}},
		})
		return err
	}
	if err := reg.WaitSynced(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println("Ann:", buy("ann", "7"))
	fmt.Println("Bob:", buy("bob", "7"))
	fmt.Println("Ann gives it back:", reg.Access().Delete(ctx, registry.ObjectKey{Resource: schema.GroupResource{Resource: "secrets"}, Namespace: "hall", Name: "ann"}, metav1.DeleteOptions{}))
	fmt.Println("Bob:", buy("bob", "7"))
	stop()
	<-ended
	// Output:
	// Ann: <nil>
	// Bob: configmaps "seat-7": already exists
	// Ann gives it back: <nil>
	// Bob: <nil>
}
