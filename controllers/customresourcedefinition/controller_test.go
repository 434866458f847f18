package customresourcedefinition_test

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
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/customresourcedefinition"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
	"github.com/keelson-dev/keelson/registry/apiextensions"
)

var definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// valid completes the definition of names that a server accepts.
func valid(wanted string) *definition {
	crd := named(wanted, "")
	crd.Spec.Scope = apiextensionsv1.NamespaceScoped
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
		Name: "v1", Served: true, Storage: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
	}}
	return crd
}

// bench is a running controller with an API, a server and objects that it makes up, in a bubble.
type bench struct {
	*testing.T
	options customresourcedefinition.Options
	client  *trial.Client
	log     *slog.Logger
	api     *controllerstest.API
	source  *lag.Source[*definition]
	began   time.Time

	mu     sync.Mutex
	did    []string
	served []*definition
	// serving and withdrawing are errors of the server, in turn; listing and deleting of requests for objects.
	serving, withdrawing, listing, deleting []error
	// left is the number of objects, by namespace. An object in the namespace "held" is not deleted.
	left map[string]int
	// odd has requests for lists answered by an object.
	odd bool
}

func (b *bench) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.did = append(b.did, fmt.Sprintf("%v ", time.Since(b.began).Truncate(time.Second))+fmt.Sprintf(format, args...))
}

// took fails unless that is what was done since the last call. Repetitions do not count: how many there are depends on when
// the cache shows what was written.
func (b *bench) took(want ...string) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.did = slices.Compact(b.did); !slices.Equal(b.did, slices.Compact(want)) {
		b.Errorf("done:\n%s\nwant:\n%s", strings.Join(b.did, "\n"), strings.Join(want, "\n"))
	}
	b.did = nil
}

// next takes the first of some errors.
func (b *bench) next(all *[]error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(*all) == 0 {
		return nil
	}
	err := (*all)[0]
	*all = (*all)[1:]
	return err
}

// Serve implements customresourcedefinition.Server.
func (b *bench) Serve(_ context.Context, crd *definition) error {
	b.note("serve %s", text(crd.Status.AcceptedNames))
	b.mu.Lock()
	b.served = append(b.served, crd)
	b.mu.Unlock()
	return b.next(&b.serving)
}

// Withdraw implements customresourcedefinition.Server.
func (b *bench) Withdraw(_ context.Context, gr schema.GroupResource) error {
	b.note("withdraw %s", gr)
	return b.next(&b.withdrawing)
}

// objects are the objects of the definitions.
type objects struct{ *bench }

func (o objects) List(_ context.Context, at client.Target, _ metav1.ListOptions) (runtime.Object, error) {
	o.note("list %s", at.Resource)
	if err := o.next(&o.listing); err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.odd {
		return &corev1.ConfigMap{}, nil
	}
	list := &corev1.ConfigMapList{}
	for namespace, n := range o.left {
		for range n {
			list.Items = append(list.Items, corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}})
		}
	}
	return list, nil
}

func (o objects) Delete(_ context.Context, at client.Target, _ metav1.DeleteOptions) error {
	o.note("delete %s %s/%s", at.Resource, at.Namespace, at.Name)
	if err := o.next(&o.deleting); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if at.Namespace != "held" {
		delete(o.left, at.Namespace)
	}
	return nil
}

// run runs a test in a bubble.
func (b *bench) run(t *testing.T, before func(b *bench, r faults.Request) error, test func(b *bench)) {
	t.Helper()
	b.open(t, before, func(b *bench, c controllers.Controller) {
		controllerstest.Go(b.T, controllers.NewLoop(c, controllers.Options{Workers: 5, Logger: b.log}))
		synctest.Wait()
		test(b)
	})
}

// open runs a test in a bubble, on a controller without a loop.
func (b *bench) open(t *testing.T, before func(b *bench, r faults.Request) error, test func(*bench, controllers.Controller)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b.T, b.began = t, time.Now()
		b.api = controllerstest.Start(t, controllerstest.Options{Kinds: apiextensions.Kinds(), Before: func(r faults.Request) error {
			if r.Verb == faults.Update {
				crd := r.Object.(*definition)
				b.note("%s", strings.ReplaceAll(strings.TrimSpace(conditions(crd)), "\n", "; "))
			}
			if before != nil {
				return before(b, r)
			}
			return nil
		}})
		b.source = controllerstest.Source[*definition](b.api, definitions)
		cache := informer.New(b.source, informer.Options{DetectMutations: func(err error) { t.Error(err) }})
		var c customresourcedefinition.Definitions = b.api
		if b.client != nil {
			b.client.Client = b.api
			c = b.client
		}
		controllerstest.Go(t, cache)
		test(b, customresourcedefinition.New(cache, c, objects{b}, b, b.options))
	})
}

// at waits until so long after the beginning.
func (b *bench) at(d time.Duration) {
	time.Sleep(time.Until(b.began.Add(d)))
	synctest.Wait()
}

func (b *bench) post(crd *definition) {
	b.Helper()
	if _, err := b.api.Others.Create(b.Context(), client.Target{Resource: definitions}, crd, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) get(name string) *definition {
	b.Helper()
	crd, err := client.As[*definition](b.api.Others.Get(b.Context(), client.Target{Resource: definitions, Name: name}))
	if err != nil {
		b.Fatal(err)
	}
	return crd
}

func (b *bench) patch(name, patch string) {
	b.Helper()
	p := client.Patch{Type: types.MergePatchType, Data: []byte(patch)}
	if _, err := b.api.Others.Patch(context.Background(), client.Target{Resource: definitions, Name: name}, p, metav1.PatchOptions{}); err != nil {
		b.Error(err)
	}
}

func (b *bench) delete(name string) {
	b.Helper()
	if err := b.api.Others.Delete(b.Context(), client.Target{Resource: definitions, Name: name}, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// gone reports whether a definition is.
func (b *bench) gone(name string) bool {
	_, err := b.api.Others.Get(b.Context(), client.Target{Resource: definitions, Name: name})
	return apierrors.IsNotFound(err)
}

const dogs = "dogs dog Dog DogList d"

// TestOrder: a kind is served before its definition is seen to be established, and until its definition is gone.
func TestOrder(t *testing.T) {
	(&bench{}).run(t, nil, func(b *bench) {
		b.post(valid(dogs))
		b.took("0s serve "+dogs, "0s "+noConflicts+"; "+established, "0s serve "+dogs, "0s serve "+dogs, "0s serve "+dogs)
		b.left = map[string]int{"a": 2, "b": 1}
		b.delete("dogs.example.com")
		before := noConflicts + "; " + established + "; "
		b.took("0s serve "+dogs, "0s "+before+"Terminating True InstanceDeletionInProgress: CustomResource deletion is in progress",
			"0s list example.com/v1, Resource=dogs", "0s delete example.com/v1, Resource=dogs a/", "0s delete example.com/v1, Resource=dogs b/",
			"0s list example.com/v1, Resource=dogs", "0s "+before+"Terminating False InstanceDeletionCompleted: removed all instances",
			"0s withdraw dogs.example.com")
		if !b.gone("dogs.example.com") {
			t.Error("it is still there")
		}
	})
}

// TestSettle: the other servers get time to serve the kind.
func TestSettle(t *testing.T) {
	b := &bench{options: customresourcedefinition.Options{Settle: 5 * time.Second}}
	b.run(t, nil, func(b *bench) {
		b.post(valid(dogs))
		b.took("0s "+noConflicts+"; "+installing, "0s serve "+dogs, "0s serve "+dogs)
		b.at(time.Minute)
		b.took("5s serve "+dogs, "5s "+noConflicts+"; "+established, "5s serve "+dogs)
	})
}

// TestServing: a definition is established once it can be served.
func TestServing(t *testing.T) {
	later := errors.New("later")
	b := &bench{serving: []error{later, later, later, later, later}}
	b.run(t, nil, func(b *bench) {
		b.post(valid(dogs))
		if got := conditions(b.get("dogs.example.com")); got != noConflicts+"\n"+installing {
			t.Errorf("conditions: %s", got)
		}
		b.at(time.Minute)
		if got := conditions(b.get("dogs.example.com")); got != noConflicts+"\n"+established {
			t.Errorf("conditions: %s", got)
		}
		b.mu.Lock()
		b.serving = []error{fmt.Errorf("%w: why", customresourcedefinition.ErrUnservable)}
		b.mu.Unlock()
		b.patch("dogs.example.com", `{"spec":{"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","description":"changed"}}}]}}`)
		synctest.Wait()
		// The condition is written, and seen; then it can be served.
		if got := conditions(b.get("dogs.example.com")); got != noConflicts+"\n"+established {
			t.Errorf("conditions: %s", got)
		}
	})
}

// TestStale: what the controller has written counts, even if its cache does not show it.
func TestStale(t *testing.T) {
	(&bench{}).run(t, nil, func(b *bench) {
		b.source.Hold()
		b.post(valid(dogs))
		b.post(valid("hounds hound Hound HoundList d"))
		b.source.Resume()
		b.at(time.Minute)
		conflict := `NamesAccepted False ShortNamesConflict: "d" is already in use`
		one, other := conditions(b.get("dogs.example.com")), conditions(b.get("hounds.example.com"))
		if one > other {
			one, other = other, one
		}
		if one != conflict+"\n"+notAccepted || other != noConflicts+"\n"+established {
			t.Errorf("conditions:\n%s\n\n%s", one, other)
		}
	})
}

// TestConflicts: other clients' changes are kept, and do not keep the controller from its work.
func TestConflicts(t *testing.T) {
	n := 0
	change := func(b *bench, r faults.Request) error {
		if r.Verb == faults.Update && !b.gone("dogs.example.com") {
			if n++; n%2 == 1 {
				b.patch("dogs.example.com", fmt.Sprintf(`{"metadata":{"labels":{"n%d":"x"}}}`, n))
			}
		}
		return nil
	}
	(&bench{}).run(t, change, func(b *bench) {
		b.post(valid(dogs))
		b.at(time.Minute)
		crd := b.get("dogs.example.com")
		if got := conditions(crd); got != noConflicts+"\n"+established || len(crd.Labels) != 1 {
			t.Errorf("labels %v, conditions: %s", crd.Labels, got)
		}
		b.delete("dogs.example.com")
		b.at(2 * time.Minute)
		if !b.gone("dogs.example.com") {
			t.Error("it is still there")
		}
	})
}

// TestNeverEstablished: a definition whose names were refused has no objects.
func TestNeverEstablished(t *testing.T) {
	(&bench{}).run(t, nil, func(b *bench) {
		b.post(valid(dogs))
		b.post(valid("hounds hound Hound HoundList d"))
		b.did = nil
		b.delete("hounds.example.com")
		before := `NamesAccepted False ShortNamesConflict: "d" is already in use; ` + notAccepted + "; "
		b.mu.Lock()
		b.did = slices.DeleteFunc(b.did, func(did string) bool { return strings.Contains(did, dogs) })
		b.mu.Unlock()
		b.took("0s withdraw hounds.example.com", "0s "+before+"Terminating True InstanceDeletionInProgress: CustomResource deletion is in progress",
			"0s "+before+"Terminating False NeverEstablished: resource was never established", "0s withdraw hounds.example.com")
		if !b.gone("hounds.example.com") {
			t.Error("it is still there")
		}
	})
}

// TestOverlap: the objects of a kind that is served without the definition are not deleted with it.
func TestOverlap(t *testing.T) {
	builtIn := func(n int) []error {
		return slices.Repeat([]error{fmt.Errorf("dogs: %w", customresourcedefinition.ErrBuiltIn)}, n)
	}
	(&bench{serving: builtIn(100)}).run(t, nil, func(b *bench) {
		b.post(valid(dogs))
		if got := conditions(b.get("dogs.example.com")); got != noConflicts+"\n"+established {
			t.Errorf("conditions: %s", got)
		}
		b.did = nil
		b.delete("dogs.example.com")
		before := noConflicts + "; " + established + "; "
		b.took("0s serve "+dogs, "0s "+before+"Terminating True InstanceDeletionInProgress: CustomResource deletion is in progress",
			"0s "+before+"Terminating False OverlappingBuiltInResource: instances overlap with built-in resources in storage", "0s withdraw dogs.example.com")
	})
}

// TestDeletionFails: what keeps objects from being deleted is told, and tried again with back-off.
func TestDeletionFails(t *testing.T) {
	for name, test := range map[string]struct {
		set  func(b *bench, err error)
		want string
	}{
		"listing":  {func(b *bench, err error) { b.listing = []error{err, err} }, "InstanceDeletionFailed: could not list instances: down"},
		"deleting": {func(b *bench, err error) { b.deleting = []error{err, err, err} }, "InstanceDeletionFailed: could not issue all deletes: [down, down]"},
		"checking": {func(b *bench, err error) { b.listing = []error{nil, err, err} }, "InstanceDeletionCheck: could not confirm zero CustomResources remaining: down"},
	} {
		t.Run(name, func(t *testing.T) {
			(&bench{}).run(t, nil, func(b *bench) {
				b.post(valid(dogs))
				b.mu.Lock()
				b.left, b.did = map[string]int{"a": 1, "b": 1}, nil
				err := errors.New("down")
				test.set(b, err)
				b.mu.Unlock()
				b.delete("dogs.example.com")
				b.at(time.Minute)
				told := 0
				b.mu.Lock()
				for _, did := range b.did {
					if strings.HasSuffix(did, "Terminating True "+strings.Replace(test.want, "[down, down]", "down", 1)) {
						told++
					}
				}
				did := strings.Join(b.did, "\n")
				b.mu.Unlock()
				if told == 0 || !b.gone("dogs.example.com") {
					t.Errorf("told %d times; done:\n%s", told, did)
				}
			})
		})
	}
}

// TestHeld: objects that stay are looked for now and then, and not all the time.
func TestHeld(t *testing.T) {
	(&bench{}).run(t, nil, func(b *bench) {
		b.post(valid(dogs))
		b.mu.Lock()
		b.left = map[string]int{"held": 1}
		b.mu.Unlock()
		b.delete("dogs.example.com")
		b.at(10*time.Minute - time.Second)
		b.mu.Lock()
		looks, failures := 0, 0
		for _, did := range b.did {
			if strings.Contains(did, " delete ") {
				looks++
			}
			if strings.Contains(did, "InstanceDeletionCheck: could not confirm zero CustomResources remaining: context deadline exceeded") {
				failures++
			}
		}
		delete(b.left, "held")
		b.mu.Unlock()
		if looks < 100 || looks > 150 || failures < 8 || failures > 10 {
			t.Errorf("in ten minutes, %d looks and %d failures", looks, failures)
		}
		b.at(11 * time.Minute)
		if !b.gone("dogs.example.com") {
			t.Error("it is still there")
		}
	})
}

// TestEveryFailure: whichever request fails, it is made up for.
func TestEveryFailure(t *testing.T) {
	trial.EveryFailure(t, func(request string) bool {
		return strings.HasPrefix(request, "get ") // after a conflict, of which there is none
	}, func(c *trial.Client, log *slog.Logger) (state string) {
		(&bench{client: c, log: log}).run(t, nil, func(b *bench) {
			b.post(valid(dogs))
			b.at(time.Minute)
			state = conditions(b.get("dogs.example.com"))
			b.left = map[string]int{"a": 1}
			b.delete("dogs.example.com")
			b.at(2 * time.Minute)
			state += fmt.Sprint(" gone: ", b.gone("dogs.example.com"))
		})
		return state
	})
}

// TestWithdrawFails: a kind that could not be withdrawn is withdrawn later.
func TestWithdrawFails(t *testing.T) {
	(&bench{withdrawing: []error{errors.New("later")}}).run(t, nil, func(b *bench) {
		b.post(valid(dogs))
		b.delete("dogs.example.com")
		b.at(time.Minute)
		if n := len(b.did); n < 2 || b.did[n-1] != "0s withdraw dogs.example.com" || b.did[n-2] != "0s withdraw dogs.example.com" {
			t.Errorf("done: %q", b.did)
		}
	})
}
