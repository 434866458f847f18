package customresourcedefinition_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/customresourcedefinition"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
)

// stepper is a controller without a loop: the test says what is reconciled.
type stepper struct {
	*bench
	controller controllers.Controller
	queue      trial.Queue
	lags       bool // the cache learns nothing of what happens
}

func byHand(t *testing.T, o customresourcedefinition.Options, test func(*stepper)) {
	t.Helper()
	(&bench{options: o}).open(t, nil, func(b *bench, c controllers.Controller) {
		s := &stepper{bench: b, controller: c}
		c.Watch(&s.queue)
		test(s)
	})
}

// step has dogs.example.com, or another one, reconciled, and returns the error. It compares what is asked of the server, what
// is done about the objects and what is queued.
func (s *stepper) step(name string, want ...string) error {
	s.Helper()
	name = strings.TrimSuffix(name, ".example.com") + ".example.com"
	synctest.Wait()
	s.source.Hold() // what the informer queues is not counted
	s.api.Reset()
	s.mu.Lock()
	s.did = nil
	s.mu.Unlock()
	s.queue.Take()
	result, err := s.controller.Reconcile(s.Context(), controllers.Key{Name: name})
	var got []string
	s.mu.Lock()
	for _, did := range s.did {
		_, did, _ = strings.Cut(did, " ")
		if verb, _, _ := strings.Cut(did, " "); slices.Contains([]string{"serve", "withdraw", "list", "delete"}, verb) {
			got = append(got, verb)
		}
	}
	s.mu.Unlock()
	for _, r := range s.api.Requests() {
		got = append(got, strings.NewReplacer("customresourcedefinitions", "crd", ".example.com", "").Replace(r.String()))
	}
	if queued := s.queue.Take(); queued != "" {
		got = append(got, "queue "+strings.ReplaceAll(queued, ".example.com", ""))
	}
	if result.RequeueAfter > 0 {
		got = append(got, "again "+result.RequeueAfter.String())
	}
	if !slices.Equal(got, want) {
		s.Errorf("%s: did %q, want %q", name, got, want)
	}
	if !s.lags {
		s.source.Resume()
		synctest.Wait()
	}
	return err
}

// good is a step without an error.
func (s *stepper) good(name string, want ...string) {
	s.Helper()
	if err := s.step(name, want...); err != nil {
		s.Errorf("%s: %v", name, err)
	}
}

// bad is a step with an error.
func (s *stepper) bad(message, name string, want ...string) {
	s.Helper()
	if err := s.step(name, want...); err == nil || err.Error() != message {
		s.Errorf("%s: error %v, want %q", name, err, message)
	}
}

// down has the next request of a verb for definitions fail.
func (s *stepper) down(verb string) { s.api.Inject(faults.Fault{Verb: verb, Err: errors.New("down")}) }

// wantConditions compares the conditions of a definition.
func (s *stepper) wantConditions(name string, want ...string) {
	s.Helper()
	if got := conditions(s.get(name + ".example.com")); got != strings.Join(want, "\n") {
		s.Errorf("%s: conditions\n%s, want\n%s", name, got, strings.Join(want, "\n"))
	}
}

const write = "update crd/status dogs"

// TestEstablishSteps: what becomes of a definition, and how it goes on after failures.
func TestEstablishSteps(t *testing.T) {
	unservable := fmt.Errorf("%w: why", customresourcedefinition.ErrUnservable)
	byHand(t, customresourcedefinition.Options{}, func(s *stepper) {
		s.post(valid(dogs))
		s.down(faults.Update)
		s.bad("down", "dogs", "serve", write)
		s.good("dogs", "serve", "serve", write)
		s.wantConditions("dogs", noConflicts, established)
		s.good("dogs", "serve", "serve")
		s.serving = []error{unservable, unservable}
		s.good("dogs", "serve", "serve", write)
		s.wantConditions("dogs", noConflicts, "Established False Unservable: cannot be served: why")
		s.serving = []error{unservable, unservable}
		s.good("dogs", "serve", "serve")
		s.serving = []error{errors.New("later"), errors.New("later")}
		s.bad("later", "dogs", "serve", "serve")
		s.good("dogs", "serve", "serve", write)
		s.wantConditions("dogs", noConflicts, established)
	})
	byHand(t, customresourcedefinition.Options{Settle: 5 * time.Second}, func(s *stepper) {
		s.post(valid(dogs))
		s.good("dogs", "serve", write, "again 5s")
		time.Sleep(2 * time.Second)
		s.good("dogs", "serve", "again 3s")
		time.Sleep(3 * time.Second)
		s.down(faults.Update)
		s.bad("down", "dogs", "serve", write)
		s.wantConditions("dogs", noConflicts, installing)
		s.good("dogs", "serve", write)
		s.good("dogs", "serve")
		s.wantConditions("dogs", noConflicts, established)
		s.serving = []error{unservable}
		s.good("dogs", "serve", write)
		s.wantConditions("dogs", noConflicts, "Established False Unservable: cannot be served: why")
	})
}

// TestOvertakenSteps: a write that comes too late is tried on the newest state, whether the cache has it or not.
func TestOvertakenSteps(t *testing.T) {
	byHand(t, customresourcedefinition.Options{}, func(s *stepper) {
		s.post(valid(dogs))
		s.lags = true
		s.source.Hold()
		s.patch("dogs.example.com", `{"metadata":{"labels":{"n":"x"}}}`)
		s.down(faults.Get)
		s.bad("down", "dogs", "serve", write, "get crd dogs")
		s.good("dogs", "serve", write, "get crd dogs", "queue dogs")
		s.good("dogs", "serve", "serve", write)
		s.good("dogs", "serve", "serve")
		s.delete("dogs.example.com")
		s.patch("dogs.example.com", `{"metadata":{"finalizers":null}}`)
		s.good("dogs", "serve", "serve") // it does not know yet
		s.lags = false
		s.source.Resume()
		s.good("dogs", "withdraw")
	})
	byHand(t, customresourcedefinition.Options{}, func(s *stepper) { // deleted, which the cache does not show
		s.post(valid(dogs))
		s.lags = true
		s.source.Hold()
		s.delete("dogs.example.com")
		s.patch("dogs.example.com", `{"metadata":{"finalizers":null}}`)
		s.good("dogs", "serve", write)
	})
}

// TestSpec: the spec that is served is the cache's, of which there is one.
func TestSpec(t *testing.T) {
	byHand(t, customresourcedefinition.Options{}, func(s *stepper) {
		s.post(valid(dogs))
		s.good("dogs", "serve", "serve", write)
		if len(s.served) != 2 || &s.served[0].Spec.Versions[0] != &s.served[1].Spec.Versions[0] {
			s.Error("the spec is there twice")
		}
	})
}

// TestSchemasOnce: schemas are judged once for each generation.
func TestSchemasOnce(t *testing.T) {
	const old = "NonStructuralSchema True Violations: old"
	mark := func(s *stepper) {
		crd := with(s.get("dogs.example.com"), old)
		if _, err := s.api.Others.Update(s.Context(), client.Target{Resource: definitions, Name: crd.Name, Subresource: "status"}, crd, metav1.UpdateOptions{}); err != nil {
			s.Fatal(err)
		}
	}
	byHand(t, customresourcedefinition.Options{}, func(s *stepper) {
		s.post(valid(dogs))
		mark(s)
		s.down(faults.Update)
		s.bad("down", "dogs", "serve", write)
		s.good("dogs", "serve", "serve", write)
		s.wantConditions("dogs", noConflicts, established)
		mark(s)
		s.good("dogs", "serve", "serve")
		s.wantConditions("dogs", noConflicts, established, old)
		s.patch("dogs.example.com", `{"spec":{"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","description":"changed"}}}]}}`)
		s.good("dogs", "serve", "serve", write)
		s.wantConditions("dogs", noConflicts, established)
	})
}

// TestWaiting: definitions that wait for names are looked at again when another one of the group may have freed some.
func TestWaiting(t *testing.T) {
	byHand(t, customresourcedefinition.Options{}, func(s *stepper) {
		s.post(valid(dogs))
		s.good("dogs", "serve", "serve", write)
		s.post(valid("hounds hound Hound HoundList d"))
		elsewhere := valid("cats cat Cat CatList")
		elsewhere.Name, elsewhere.Spec.Group = "cats.example.org", "example.org"
		s.post(elsewhere)
		s.good("hounds", "withdraw", "withdraw", "update crd/status hounds")
		s.good("dogs", "serve", "serve")
		s.patch("dogs.example.com", `{"spec":{"names":{"shortNames":["e"]}}}`)
		s.good("dogs", "serve", "serve", write, "queue hounds")
		s.good("hounds", "serve", "serve", "update crd/status hounds")
		s.wantConditions("hounds", noConflicts, established)
		s.post(valid("wolves wolf Wolf WolfList e"))
		s.good("wolves", "withdraw", "withdraw", "update crd/status wolves")
		s.delete("dogs.example.com")
		s.patch("dogs.example.com", `{"metadata":{"finalizers":null}}`)
		s.withdrawing = []error{errors.New("down")}
		s.bad("down", "dogs", "withdraw", "queue wolves")
		s.good("wolves", "serve", "serve", "update crd/status wolves")
	})
}

// TestFinalizeSteps: what is done about the objects of a definition that is being deleted, and after failures.
func TestFinalizeSteps(t *testing.T) {
	unservable := fmt.Errorf("%w: why", customresourcedefinition.ErrUnservable)
	const progress = "Terminating True InstanceDeletionInProgress: CustomResource deletion is in progress"
	for name, test := range map[string]struct {
		set  func(*stepper)
		test func(*stepper)
	}{
		"the report fails": {func(s *stepper) { s.down(faults.Update) }, func(s *stepper) {
			s.bad("down", "dogs", "serve", write)
			s.good("dogs", "serve", "list", "delete", "delete", "list", write, write)
		}},
		"the last write fails": {func(s *stepper) { s.api.Inject(faults.Fault{Verb: faults.Update, Err: errors.New("down"), Skip: 1}) }, func(s *stepper) {
			s.bad("down", "dogs", "serve", "list", "delete", "delete", "list", write, write)
			s.good("dogs", "serve", "list", "list", write)
			s.good("dogs", "withdraw")
		}},
		"listing fails, and telling it": {func(s *stepper) {
			s.listing = []error{errors.New("no")}
			s.api.Inject(faults.Fault{Verb: faults.Update, Err: errors.New("down"), Skip: 1})
		}, func(s *stepper) {
			s.bad("no\ndown", "dogs", "serve", "list", write, write)
			s.wantConditions("dogs", noConflicts, established, progress)
		}},
		"listing fails, which is told too late": {func(s *stepper) {
			s.listing = []error{errors.New("no")}
			s.lags = true
			s.api.Inject(faults.Fault{Verb: faults.Update, Err: apierrors.NewConflict(definitions.GroupResource(), "dogs", errors.New("changed")), Skip: 1})
		}, func(s *stepper) {
			s.bad("no", "dogs", "serve", "list", write, write, "get crd dogs", "queue dogs")
		}},
		"deleting fails": {func(s *stepper) { s.deleting = []error{errors.New("no")} }, func(s *stepper) {
			s.bad("no", "dogs", "serve", "list", "delete", "delete", write, write)
			s.wantConditions("dogs", noConflicts, established, "Terminating True InstanceDeletionFailed: could not issue all deletes: no")
		}},
		"checking fails": {func(s *stepper) { s.listing = []error{nil, errors.New("no")} }, func(s *stepper) {
			s.bad("no", "dogs", "serve", "list", "delete", "delete", "list", write, write)
			s.wantConditions("dogs", noConflicts, established, "Terminating True InstanceDeletionCheck: could not confirm zero CustomResources remaining: no")
		}},
		"unservable": {func(s *stepper) { s.serving = []error{unservable, unservable} }, func(s *stepper) {
			const why = "unable to find a custom resource client for dogs.example.com: cannot be served: why"
			s.bad(why, "dogs", "serve", write, write)
			s.wantConditions("dogs", noConflicts, established, "Terminating True InstanceDeletionFailed: could not list instances: "+why)
		}},
		"no list": {func(s *stepper) { s.odd = true }, func(s *stepper) {
			if err := s.step("dogs", "serve", "list", write, write); err == nil {
				s.Error("no error")
			}
		}},
		"not served for now": {func(s *stepper) { s.serving = []error{errors.New("later")} }, func(s *stepper) {
			s.bad("later", "dogs", "serve")
		}},
		"held": {func(s *stepper) { s.left = map[string]int{"held": 1} }, func(s *stepper) {
			s.good("dogs", "serve", "list", "delete", "list", write, "again 5s")
			s.wantConditions("dogs", noConflicts, established, progress)
			time.Sleep(time.Minute - time.Second)
			s.good("dogs", "serve", "list", "delete", "list", "again 5s")
			time.Sleep(time.Second)
			s.bad("context deadline exceeded", "dogs", "serve", "list", "delete", "list", write)
			s.good("dogs", "serve", "list", "delete", "list", write, "again 5s")
		}},
		"held by others": {func(s *stepper) { s.patch("dogs.example.com", `{"metadata":{"finalizers":["x.io/mine"]}}`) }, func(s *stepper) {
			s.good("dogs", "serve")
		}},
		"held by others, too": {func(s *stepper) { s.lags = true }, func(s *stepper) {
			s.good("dogs", "serve", "list", "delete", "delete", "list", write, write)
			s.good("dogs", "serve")
			s.wantConditions("dogs", noConflicts, established, "Terminating False InstanceDeletionCompleted: removed all instances")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			byHand(t, customresourcedefinition.Options{}, func(s *stepper) {
				crd := valid(dogs)
				if strings.HasPrefix(name, "held by") {
					crd.Finalizers = []string{"x.io/mine"}
				}
				s.post(crd)
				s.good("dogs", "serve", "serve", write)
				s.left = map[string]int{"b": 2, "a": 1}
				s.delete("dogs.example.com")
				test.set(s)
				test.test(s)
			})
		})
	}
}

// TestOverlaps: the objects of upstream's own kinds are stored where a definition of the same name has its own.
func TestOverlaps(t *testing.T) {
	for name, want := range map[string]string{
		"apiservices.apiregistration.k8s.io":               "OverlappingBuiltInResource",
		"customresourcedefinitions.apiextensions.k8s.io":   "OverlappingBuiltInResource",
		"customresourcedefinitions.apiregistration.k8s.io": "InstanceDeletionCompleted",
	} {
		byHand(t, customresourcedefinition.Options{}, func(s *stepper) {
			plural, group, _ := strings.Cut(name, ".")
			crd := valid(plural + " thing Thing ThingList")
			crd.Name, crd.Spec.Group = name, group
			crd.Annotations = map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "unapproved, a test"}
			crd.Finalizers = []string{"x.io/mine"}
			s.post(crd)
			key := controllers.Key{Name: name}
			for range 2 {
				if _, err := s.controller.Reconcile(s.Context(), key); err != nil {
					s.Error(err)
				}
				s.delete(name)
			}
			if got := conditions(s.get(name)); !strings.Contains(got, "Terminating False "+want) {
				s.Errorf("%s: conditions %s", name, got)
			}
		})
	}
}

// TestTurns: names are accepted one definition at a time, and who waits ends with its context.
func TestTurns(t *testing.T) {
	byHand(t, customresourcedefinition.Options{Settle: time.Hour}, func(s *stepper) {
		s.post(valid(dogs))
		s.post(valid("hounds hound Hound HoundList d"))
		s.api.Inject(faults.Fault{Verb: faults.Update, Delay: time.Minute})
		done := make(chan error)
		go func() {
			_, err := s.controller.Reconcile(s.Context(), controllers.Key{Name: "dogs.example.com"})
			done <- err
		}()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		if _, err := s.controller.Reconcile(ctx, controllers.Key{Name: "hounds.example.com"}); !errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("got %v", err)
		}
		if err := <-done; err != nil {
			s.Error(err)
		}
		s.good("hounds", "withdraw", "update crd/status hounds")
	})
}
