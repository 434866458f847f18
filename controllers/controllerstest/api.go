package controllerstest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/apps"
	"github.com/keelson-dev/keelson/registry/autoscaling"
	"github.com/keelson-dev/keelson/registry/batch"
	"github.com/keelson-dev/keelson/registry/certificates"
	"github.com/keelson-dev/keelson/registry/coordination"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/direct"
	"github.com/keelson-dev/keelson/registry/discovery"
	"github.com/keelson-dev/keelson/registry/networking"
	"github.com/keelson-dev/keelson/registry/policy"
	"github.com/keelson-dev/keelson/registry/rbac"
	"github.com/keelson-dev/keelson/registry/scheduling"
	"github.com/keelson-dev/keelson/registry/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// Pods is the resource of pods, which most tests need.
func Pods() schema.GroupVersionResource { return corev1.SchemeGroupVersion.WithResource("pods") }

// Options of an API; the zero value works.
type Options struct {
	// Objects are added at the start, in order, as by Add.
	Objects []informer.Object
	// Kinds are served in addition to this module's own.
	Kinds []registry.Kind
	// Services allocates to services, from the ServiceCIDRs that the test adds. The zero value allocates nothing, and
	// takes services for those of a cluster with IPv4.
	Services core.Services
	// Before, when set, is called with every request of the client before it is carried out; if it returns an error,
	// that is the answer. It may call the API, like another client whose request comes first.
	Before func(faults.Request) error
	// Identifiers makes uids and the suffixes of generated names. Nil means that both count up: uid-00001, web-00001.
	Identifiers registry.Identifiers
}

// API is the API of a control plane without controllers. The embedded Client is for the controller under test: it can
// fail, and records its requests. Make an API with Start, or with New outside of tests.
type API struct {
	*faults.Client
	// Others is a client without faults and records, for the requests of users and other controllers.
	Others *direct.Client

	registry *registry.Registry
	store    *memory.Store
	objects  []informer.Object
}

// New returns an API that answers while Run runs. It fails if the kinds conflict.
func New(o Options) (*API, error) {
	if o.Identifiers == nil {
		o.Identifiers = &counted{}
	}
	store := memory.New(memory.Options{})
	reg, err := registry.New(store, append(kinds(o.Services), o.Kinds...), registry.Options{Identifiers: o.Identifiers})
	if err != nil {
		return nil, err
	}
	others := direct.New(reg, direct.Options{})
	return &API{
		Client: faults.New(others, faults.Options{Before: o.Before}), Others: others,
		registry: reg, store: store, objects: o.Objects,
	}, nil
}

// kinds are this module's own.
func kinds(services core.Services) []registry.Kind {
	all := core.Kinds(core.Options{Services: services})
	for _, more := range [][]registry.Kind{
		apps.Kinds(), autoscaling.Kinds(), batch.Kinds(), certificates.Kinds(nil), coordination.Kinds(), discovery.Kinds(), networking.Kinds(), policy.Kinds(), rbac.Kinds(nil), scheduling.Kinds(),
		storage.Kinds(),
	} {
		all = append(all, more...)
	}
	return all
}

// Run adds the Objects and answers requests until the context ends. It is called once.
func (a *API) Run(ctx context.Context) error {
	err := lifecycle.Group(a.registry, lifecycle.Func(func(ctx context.Context) error {
		if err := a.Add(ctx, a.objects...); err != nil && ctx.Err() == nil {
			return err
		}
		return nil
	})).Run(ctx)
	if closed := a.store.Close(); err == nil {
		err = closed
	}
	return err
}

// Start runs an API until the test ends. The Objects exist when it returns.
func Start(t testing.TB, o Options) *API {
	t.Helper()
	objects := o.Objects
	o.Objects = nil
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the API ended: %v", err)
		}
	})
	if err := a.Add(ctx, objects...); err != nil {
		t.Fatal(err)
	}
	return a
}

// Add creates objects, without faults and records, including their status, which a client has to write in a second
// request. Objects that need a namespace and have none go to "default". The resource is found by the Go type of the
// object.
func (a *API) Add(ctx context.Context, objects ...informer.Object) error {
	for _, obj := range objects {
		if _, err := a.add(ctx, obj); err != nil {
			return fmt.Errorf("add %T %s: %w", obj, obj.GetName(), err)
		}
	}
	return nil
}

// Add is API.Add for one object, completed (see Complete). It returns the stored object, and fails the test if there is
// an error.
func Add[T informer.Object](t testing.TB, a *API, obj T) T {
	t.Helper()
	stored, err := a.add(t.Context(), Complete(obj))
	if err != nil {
		t.Fatalf("add %T %s: %v", obj, obj.GetName(), err)
	}
	return stored.(T)
}

func (a *API) resourceOf(obj informer.Object) *registry.Resource {
	for _, res := range a.registry.Resources() {
		if res.Stored() && reflect.TypeOf(res.New()) == reflect.TypeOf(obj) {
			return res
		}
	}
	return nil
}

func (a *API) add(ctx context.Context, obj informer.Object) (informer.Object, error) {
	res := a.resourceOf(obj)
	if res == nil {
		return nil, errors.New("no kind is made of it")
	}
	t := client.Target{Resource: res.GroupVersion.WithResource(res.Plural), Namespace: obj.GetNamespace()}
	if res.Namespaced && t.Namespace == "" {
		t.Namespace = metav1.NamespaceDefault
	}
	out, err := a.Others.Create(ctx, t, obj, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	stored := out.(informer.Object)
	if _, ok := res.Sub.Views["status"]; !ok || !setStatus(stored, obj) {
		return stored, nil
	}
	if !res.Rules.ConditionalUpdate {
		stored.SetResourceVersion("") // whatever a controller has done with it meanwhile
	}
	t.Name, t.Subresource = stored.GetName(), "status"
	if out, err = a.Others.Update(ctx, t, stored, metav1.UpdateOptions{}); err != nil {
		return nil, err
	}
	return out.(informer.Object), nil
}

// setStatus copies the status of another object of the same type, and reports whether it has one.
func setStatus(obj, from informer.Object) bool {
	to, status := reflect.ValueOf(obj).Elem(), reflect.ValueOf(from.DeepCopyObject()).Elem()
	if to.Kind() != reflect.Struct || !to.FieldByName("Status").IsValid() || status.FieldByName("Status").IsZero() {
		return false
	}
	to.FieldByName("Status").Set(status.FieldByName("Status"))
	return true
}

// Source returns a source for informers of a resource whose kind is T. It returns the stored objects themselves, as in
// a cluster in one process, and can be made to lag.
func Source[T informer.Object](a *API, resource schema.GroupVersionResource) *lag.Source[T] {
	source, err := registry.Source[T](a.registry, resource.GroupResource(), registry.Selection{})
	if err != nil {
		source = broken[T]{err}
	}
	return lag.New(source)
}

// broken is the source of a resource that is not served.
type broken[T informer.Object] struct{ err error }

// List implements informer.Source.
func (b broken[T]) List(context.Context) ([]T, string, error) { return nil, "", b.err }

// Watch implements informer.Source.
func (b broken[T]) Watch(context.Context, string) (informer.Stream[T], error) { return nil, b.err }

// counted makes identifiers that show the order in which they were made.
type counted struct {
	mu          sync.Mutex
	uids, names int
}

// UID implements registry.Identifiers.
func (c *counted) UID(registry.ObjectKey) types.UID {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uids++
	return types.UID(fmt.Sprintf("uid-%05d", c.uids))
}

// Suffix implements registry.Identifiers.
func (c *counted) Suffix(string, string, string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names++
	return fmt.Sprintf("%05d", c.names)
}
