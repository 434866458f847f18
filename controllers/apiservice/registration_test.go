package apiservice_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/apiservice"
	"github.com/keelson-dev/keelson/controllers/internal/trial"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

// queued are the names that were queued.
type queued []string

func (q *queued) Add(k controllers.Key)                       { *q = append(*q, k.Name) }
func (q *queued) AddAfter(k controllers.Key, _ time.Duration) { q.Add(k) }

// TestChanged: a change of what is served concerns what has come and gone, and not the thousand other versions.
func TestChanged(t *testing.T) {
	served := []schema.GroupVersion{{Version: "v1"}, {Group: "a.example.com", Version: "v1"}, {Group: apiregistrationv1.GroupName, Version: "v1"}}
	cache := informer.New(memory.New[*apiregistrationv1.APIService](), informer.Options{})
	c := apiservice.NewRegistration(cache, nil, func() []schema.GroupVersion { return served })
	var q queued
	expect := func(want ...string) {
		t.Helper()
		slices.Sort(q)
		if !slices.Equal(q, want) {
			t.Errorf("queued %q, want %q", q, want)
		}
		q = nil
	}
	c.Changed()
	expect()
	c.Watch(&q)
	expect("v1.", "v1.a.example.com")
	c.Changed()
	expect()
	served = append(served[:1:1], schema.GroupVersion{Group: "b.example.com", Version: "v1"})
	c.Changed()
	expect("v1.a.example.com", "v1.b.example.com")
	c.Changed()
	expect()
}

// serves is a server that serves a version or not.
type serves struct {
	gv schema.GroupVersion
	no bool
}

func (s *serves) versions() []schema.GroupVersion {
	if s.no {
		return nil
	}
	return []schema.GroupVersion{s.gv}
}

// register returns a Registration for the server that has been told what that serves.
func (w *world) register(s *serves) *apiservice.Registration {
	c := apiservice.NewRegistration(w.in.APIServices, w.api, s.versions)
	c.Watch(&trial.Queue{})
	return c
}

// registers reconciles an APIService, and compares it: its label and priorities, or "none".
func (w *world) registers(c controllers.Controller, gv schema.GroupVersion, when, want string) {
	w.Helper()
	name := gv.Version + "." + gv.Group
	if again, err := w.reconcile(c, name); again != 0 || err != nil {
		w.Errorf("%s: again after %v, %v", when, again, err)
	}
	got := "none"
	if s := w.get(name); s != nil {
		got = fmt.Sprintf("%s %d %d", s.Labels[apiservice.ManagedLabel], s.Spec.GroupPriorityMinimum, s.Spec.VersionPriority)
	}
	if got != want {
		w.Errorf("%s: %s, want %s", when, got, want)
	}
}

// TestPriorities: upstream's groups have places, their versions too; all others come last.
func TestPriorities(t *testing.T) {
	inBubble(t, func(w *world) {
		for want, of := range map[string][]string{
			"onstart 18000 1":  {"/v1"},
			"onstart 17800 15": {"apps/v1"}, "onstart 17750 15": {"events.k8s.io/v1"}, "onstart 17700 15": {"authentication.k8s.io/v1"},
			"onstart 17600 15": {"authorization.k8s.io/v1"}, "onstart 17500 15": {"autoscaling/v1"}, "onstart 17500 30": {"autoscaling/v2"},
			"onstart 17400 15": {"batch/v1"}, "onstart 17300 15": {"certificates.k8s.io/v1"}, "onstart 17300 9": {"certificates.k8s.io/v1beta1"},
			"onstart 17300 1": {"certificates.k8s.io/v1alpha1"}, "onstart 17200 15": {"networking.k8s.io/v1"}, "onstart 17100 15": {"policy/v1"},
			"onstart 17000 15": {"rbac.authorization.k8s.io/v1"}, "onstart 16800 15": {"storage.k8s.io/v1"},
			"onstart 16700 15": {"apiextensions.k8s.io/v1", "admissionregistration.k8s.io/v1"}, "onstart 16600 15": {"scheduling.k8s.io/v1"},
			"onstart 16500 15": {"coordination.k8s.io/v1"}, "onstart 16300 15": {"node.k8s.io/v1"}, "onstart 16200 15": {"discovery.k8s.io/v1"},
			"onstart 16200 21": {"resource.k8s.io/v1"}, "onstart 16200 9": {"resource.k8s.io/v1beta2"}, "onstart 16100 21": {"flowcontrol.apiserver.k8s.io/v1"},
			"onstart 16000 1": {"internal.apiserver.k8s.io/v1alpha1"}, "onstart 15800 15": {"storagemigration.k8s.io/v1"}, "onstart 15800 9": {"storagemigration.k8s.io/v1beta1"},
			"true 1000 100": {"example.com/v1", "example.com/v1beta1"},
		} {
			for _, text := range of {
				group, version, _ := strings.Cut(text, "/")
				gv := schema.GroupVersion{Group: group, Version: version}
				w.registers(w.register(&serves{gv: gv}), gv, text, want)
			}
		}
	})
}

var (
	builtin = schema.GroupVersion{Group: "apps", Version: "v1"}
	custom  = schema.GroupVersion{Group: "example.com", Version: "v1"}
)

// TestBuiltin: upstream's are restored when the server starts, and are then left to users.
func TestBuiltin(t *testing.T) {
	const right = "onstart 17800 15"
	inBubble(t, func(w *world) {
		w.add(local(builtin, apiservice.OnStart))
		w.run()
		c := w.register(&serves{gv: builtin})
		w.registers(c, builtin, "others at the start", right)
		w.patch(at("v1.apps"), `{"spec":{"versionPriority":7}}`)
		w.registers(c, builtin, "changed later", "onstart 17800 7")
		w.delete(at("v1.apps"))
		w.registers(c, builtin, "deleted", "none")
		w.add(local(builtin, apiservice.OnStart))
		w.registers(c, builtin, "created again", "onstart 1 1")
	})
	inBubble(t, func(w *world) {
		w.run()
		server := &serves{gv: builtin}
		c := w.register(server)
		w.registers(c, builtin, "none at the start", right)
		w.delete(at("v1.apps"))
		server.no = true
		c.Changed()
		w.registers(c, builtin, "nor served", "none")
		server.no = false
		c.Changed()
		w.registers(c, builtin, "served again", right)
	})
	inBubble(t, func(w *world) {
		w.run()
		c := w.register(&serves{no: true})
		w.registers(c, custom, "the start", "none")
		w.add(local(builtin, apiservice.OnStart))
		w.registers(c, builtin, "one that nobody serves, after the start", "onstart 1 1")
	})
	inBubble(t, func(w *world) {
		w.add(local(builtin, apiservice.OnStart))
		w.run()
		w.registers(w.register(&serves{no: true}), builtin, "one that nobody serves, at the start", "none")
	})
}

// TestCustom: those of custom kinds are as they should be, always, unless a user takes the label away.
func TestCustom(t *testing.T) {
	const right = "true 1000 100"
	inBubble(t, func(w *world) {
		w.run()
		server := &serves{gv: custom}
		c := w.register(server)
		w.registers(c, custom, "served", right)
		w.api.Reset()
		w.registers(c, custom, "nothing to do", right)
		if n := len(w.api.Writes()); n != 0 {
			t.Errorf("%d writes of what is there", n)
		}
		w.patch(at("v1.example.com"), `{"spec":{"versionPriority":7}}`)
		w.registers(c, custom, "changed", right)
		w.delete(at("v1.example.com"))
		w.registers(c, custom, "deleted", right)
		w.patch(at("v1.example.com"), `{"metadata":{"labels":null},"spec":{"versionPriority":7}}`)
		w.registers(c, custom, "a user's", " 1000 7")
		server.no = true
		c.Changed()
		w.registers(c, custom, "a user's that is not served", " 1000 7")
		w.patch(at("v1.example.com"), `{"metadata":{"labels":{"kube-aggregator.kubernetes.io/automanaged":"true"}}}`)
		w.registers(c, custom, "not served", "none")
	})
}

// TestRegistrationFails: failures are tried again, but not if others were first: they enqueue it again.
func TestRegistrationFails(t *testing.T) {
	inBubble(t, func(w *world) {
		w.run()
		c := w.register(&serves{gv: builtin})
		w.api.Inject(faults.Fault{Verb: "create", Err: trial.ErrDown})
		if _, err := w.reconcile(c, "v1.apps"); !errors.Is(err, trial.ErrDown) {
			t.Error(err)
		}
		w.registers(c, builtin, "again", "onstart 17800 15")
	})
	group := at("").Resource.GroupResource()
	for _, first := range []error{
		apierrors.NewAlreadyExists(group, "v1.example.com"), apierrors.NewNotFound(group, "v1.example.com"), apierrors.NewConflict(group, "v1.example.com", errors.New("a")),
	} {
		inBubble(t, func(w *world) {
			w.run()
			c := w.register(&serves{gv: custom})
			w.api.Inject(faults.Fault{Verb: "create", Err: first})
			w.registers(c, custom, first.Error(), "none")
			w.registers(c, custom, "again", "true 1000 100")
		})
	}
}

// TestRegistrationFailsToChange: the same for what was changed, and for what is not served any more.
func TestRegistrationFailsToChange(t *testing.T) {
	inBubble(t, func(w *world) {
		w.run()
		server := &serves{gv: custom}
		c := w.register(server)
		w.registers(c, custom, "served", "true 1000 100")
		fails := func(verb string) {
			w.Helper()
			w.api.Inject(faults.Fault{Verb: verb, Err: trial.ErrDown})
			if _, err := w.reconcile(c, "v1.example.com"); !errors.Is(err, trial.ErrDown) {
				t.Errorf("%s: %v", verb, err)
			}
		}
		w.patch(at("v1.example.com"), `{"spec":{"versionPriority":7}}`)
		fails(faults.Update)
		w.registers(c, custom, "changed", "true 1000 100")
		server.no = true
		c.Changed()
		fails(faults.Delete)
		w.registers(c, custom, "not served", "none")
	})
}

// TestRegistrationWatches: an APIService is looked at when it comes, changes or goes.
func TestRegistrationWatches(t *testing.T) {
	inBubble(t, func(w *world) {
		c := apiservice.NewRegistration(w.in.APIServices, w.api, (&serves{no: true}).versions)
		if c.Name() != "autoregister" {
			t.Errorf("%s", c.Name())
		}
		w.watched(c)
	})
}

// watched checks that a controller looks at APIServices that come, change or go.
func (w *world) watched(c controllers.Controller) {
	w.Helper()
	var q trial.Queue
	if n := len(c.Watch(&q)); n != 1 {
		w.Errorf("%d caches", n)
	}
	w.run()
	for _, step := range []struct {
		what string
		act  func()
	}{
		{"comes", func() { w.add(local(custom, "")) }},
		{"changes", func() { w.patch(at("v1.example.com"), `{"metadata":{"labels":{"a":"b"}}}`) }},
		{"goes", func() { w.delete(at("v1.example.com")) }},
	} {
		step.act()
		if got := q.Take(); got != "v1.example.com" {
			w.Errorf("it %s: queued %q", step.what, got)
		}
	}
}
