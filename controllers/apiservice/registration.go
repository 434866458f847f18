package apiservice

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
)

// ManagedLabel marks APIServices that Registration manages: OnStart once, when the server starts, and Continuously.
const (
	ManagedLabel = "kube-aggregator.kubernetes.io/automanaged"
	OnStart      = "onstart"
	Continuously = "true"
)

// RegistrationClient is what Registration needs of the server.
type RegistrationClient interface {
	client.Creator
	client.Updater
	client.Deleter
}

// Registration keeps an APIService for each version of a group that the API server itself serves. Those of upstream's groups
// are restored at each start and then left to users; those of custom kinds follow which there are. Make one with
// NewRegistration. Its keys are the names of APIServices.
type Registration struct {
	in     *informer.Informer[*apiregistrationv1.APIService]
	client RegistrationClient
	served func() []schema.GroupVersion

	mu     sync.Mutex // guards the rest
	queue  controllers.Queue
	began  bool
	first  map[string]bool                // those that existed at the start
	synced map[string]bool                // those that were as wanted once
	known  map[string]schema.GroupVersion // those that are served, as of the last change
}

var _ controllers.Controller = (*Registration)(nil)

// NewRegistration makes the controller. served returns the versions that the server serves now; call Changed when they are
// others.
func NewRegistration(in *informer.Informer[*apiregistrationv1.APIService], c RegistrationClient, served func() []schema.GroupVersion) *Registration {
	return &Registration{in: in, client: c, served: served, first: map[string]bool{}, synced: map[string]bool{}}
}

// Name is upstream's name of the queue, "autoregister".
func (*Registration) Name() string { return "autoregister" }

// Watch enqueues APIServices, and those that are wanted.
func (c *Registration) Watch(q controllers.Queue) []controllers.Synced {
	enqueue := func(s *apiregistrationv1.APIService) { q.Add(controllers.KeyOf(s)) }
	c.in.AddHandler(informer.Handler[*apiregistrationv1.APIService]{
		Added: enqueue, Updated: func(_, s *apiregistrationv1.APIService) { enqueue(s) }, Deleted: enqueue,
	})
	c.mu.Lock()
	c.queue = q
	c.mu.Unlock()
	c.Changed()
	return []controllers.Synced{c.in}
}

// Changed says that the server may serve other versions than before.
func (c *Registration) Changed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue == nil {
		return // Watch asks again
	}
	now := map[string]schema.GroupVersion{}
	for _, gv := range c.served() {
		if gv.Group != apiregistrationv1.GroupName { // that group is the aggregator's own
			now[gv.Version+"."+gv.Group] = gv
		}
	}
	before := c.known
	c.known = now
	for name := range now {
		if _, ok := before[name]; !ok {
			c.queue.Add(controllers.Key{Name: name})
		}
	}
	for name := range before {
		if _, ok := now[name]; !ok {
			c.queue.Add(controllers.Key{Name: name})
		}
	}
}

// wanted returns the APIService of that name that there should be, or nil.
func (c *Registration) wanted(name string) *apiregistrationv1.APIService {
	c.mu.Lock()
	gv, ok := c.known[name]
	c.mu.Unlock()
	if !ok {
		return nil
	}
	p, builtin := priorityOf(gv)
	managed := Continuously
	if builtin {
		managed = OnStart
	}
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{ManagedLabel: managed}},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: p.group, VersionPriority: p.version,
		},
	}
}

// Reconcile brings one APIService into the wanted state, if it is managed.
func (c *Registration) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	want := c.wanted(key.Name)
	have, exists := c.in.Get("", key.Name)
	if !exists {
		have = nil
	}
	err := c.apply(ctx, want, have, c.remember(key.Name))
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		err = nil // the change that was not known yet enqueues it again
	}
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.synced[key.Name] = true; want == nil && have == nil {
			delete(c.synced, key.Name)
		}
	}
	return controllers.Result{}, err
}

// past is what was known of an APIService before.
type past struct {
	synced bool // it was as wanted once
	first  bool // it existed when the server started
}

func (c *Registration) remember(name string) past {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.began {
		c.began = true
		for _, s := range c.in.List("") {
			c.first[s.Name] = true
		}
	}
	return past{c.synced[name], c.first[name]}
}

// apply does what upstream's autoregister controller does in each case.
func (c *Registration) apply(ctx context.Context, want, have *apiregistrationv1.APIService, was past) error {
	at := client.Target{Resource: resource()}
	switch {
	case have == nil && want == nil, want != nil && want.Labels[ManagedLabel] == OnStart && was.synced:
		return nil
	case have == nil:
		_, err := c.client.Create(ctx, at, want, metav1.CreateOptions{})
		return err
	}
	at.Name = have.Name
	managed := have.Labels[ManagedLabel]
	switch {
	case managed != OnStart && managed != Continuously, managed == OnStart && (!was.first || was.synced):
		return nil
	case want == nil:
		return c.client.Delete(ctx, at, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(have.UID))})
	case equality.Semantic.DeepEqual(have.Spec, want.Spec):
		return nil
	}
	next := have.DeepCopy()
	next.Spec = want.Spec
	_, err := c.client.Update(ctx, at, next, metav1.UpdateOptions{})
	return err
}
