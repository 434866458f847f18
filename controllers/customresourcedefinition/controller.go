package customresourcedefinition

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
)

// Errors of a Server; the controller tests for them with errors.Is.
var (
	// ErrUnservable means that the kind cannot be served as it is defined. The message, which follows the sentinel's,
	// is shown in the definition's status.
	ErrUnservable = errors.New("cannot be served")
	// ErrBuiltIn means that the server has a kind of that name which no definition defines, and goes on to serve that.
	ErrBuiltIn = errors.New("a built-in kind has that name")
)

// Server serves the kinds that definitions define. It is safe for concurrent use, though not called for one definition
// twice at once.
type Server interface {
	// Serve serves the kind that a definition defines, under its accepted names, or replaces it by what is defined by
	// now. When it returns, requests for the kind are answered. It is called repeatedly, and does nothing if nothing
	// has changed. Of a definition that is being deleted it serves the objects that exist and refuses to create
	// others. The definition is shared and must not be changed. It fails with ErrUnservable or ErrBuiltIn, for good,
	// or for another reason, and is then called again.
	Serve(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error
	// Withdraw stops serving a kind that Serve served; it is no error if there is none.
	Withdraw(ctx context.Context, resource schema.GroupResource) error
}

// Definitions is what the controller needs of the server to write the status of definitions.
type Definitions interface {
	client.Getter
	client.Updater
}

// Instances is what the controller needs to delete the objects of a kind: all of them, past authorization.
type Instances interface {
	client.Lister
	client.Deleter
}

// Options of a Controller. The zero value is ready to use.
type Options struct {
	// Settle is how long names must have been accepted before the definition is established, so that the other servers
	// of the cluster serve the kind by then. Upstream's servers wait 5 s if there are several; 0 does not wait.
	Settle time.Duration
}

// Controller is the controller of CustomResourceDefinitions. Make one with New. Its keys are the names of definitions.
type Controller struct {
	cache     *informer.Informer[*apiextensionsv1.CustomResourceDefinition]
	client    Definitions
	instances Instances
	server    Server
	options   Options
	queue     controllers.Queue

	// naming has one place, taken while names are accepted. It is no mutex, for which virtual time would not wait.
	naming chan struct{}

	mu sync.Mutex // guards the rest
	// newest are definitions that are newer than those in the cache.
	newest map[string]*apiextensionsv1.CustomResourceDefinition
	// judged are the generations whose schemas have been judged.
	judged map[types.UID]int64
	// emptying is since when the objects of a deleted definition are being waited for.
	emptying map[types.UID]time.Time
}

var _ controllers.Controller = (*Controller)(nil)

// New makes a controller.
func New(definitions *informer.Informer[*apiextensionsv1.CustomResourceDefinition], c Definitions, instances Instances, s Server, o Options) *Controller {
	return &Controller{
		naming: make(chan struct{}, 1), cache: definitions, client: c, instances: instances, server: s, options: o,
		newest: map[string]*apiextensionsv1.CustomResourceDefinition{}, judged: map[types.UID]int64{}, emptying: map[types.UID]time.Time{},
	}
}

// Name is "customresourcedefinition-controller", which is not a name of upstream's, whose API server runs several.
func (*Controller) Name() string { return "customresourcedefinition-controller" }

// Watch enqueues definitions. What only the controller writes during a deletion is no reason to reconsider one.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	c.queue = q
	enqueue := func(crd *apiextensionsv1.CustomResourceDefinition) { q.Add(controllers.KeyOf(crd)) }
	c.cache.AddHandler(informer.Handler[*apiextensionsv1.CustomResourceDefinition]{
		Added: enqueue,
		Updated: func(old, crd *apiextensionsv1.CustomResourceDefinition) {
			if !alike(old, crd) {
				enqueue(crd)
			}
		},
		Deleted: enqueue,
	})
	return []controllers.Synced{c.cache}
}

// alike reports whether two states of a definition ask for the same.
func alike(a, b *apiextensionsv1.CustomResourceDefinition) bool {
	return a.UID == b.UID && a.Generation == b.Generation && a.DeletionTimestamp.Equal(b.DeletionTimestamp) &&
		equality.Semantic.DeepEqual(a.Finalizers, b.Finalizers) && equality.Semantic.DeepEqual(a.Annotations, b.Annotations) &&
		equality.Semantic.DeepEqual(a.Status.AcceptedNames, b.Status.AcceptedNames) &&
		equality.Semantic.DeepEqual(lasting(a), lasting(b))
}

// lasting returns the conditions that do not tell how a deletion proceeds.
func lasting(crd *apiextensionsv1.CustomResourceDefinition) []apiextensionsv1.CustomResourceDefinitionCondition {
	var out []apiextensionsv1.CustomResourceDefinitionCondition
	for _, c := range crd.Status.Conditions {
		if c.Type != apiextensionsv1.Terminating {
			out = append(out, c)
		}
	}
	return out
}

// errOvertaken means that a definition was changed meanwhile. Its newest state is enqueued.
var errOvertaken = errors.New("the definition was changed meanwhile")

// Reconcile processes one definition.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	crd := c.current(key.Name)
	if crd == nil {
		gr := schema.ParseGroupResource(key.Name)
		err := c.server.Withdraw(ctx, gr)
		c.reconsider(gr.Group, key.Name) // it has freed its names
		return controllers.Result{}, err
	}
	again, err := c.process(ctx, crd)
	if errors.Is(err, errOvertaken) || apierrors.IsNotFound(err) {
		err = nil
	}
	return controllers.Result{RequeueAfter: again}, err
}

// process takes a definition through the steps that are due, and returns when to do so again.
func (c *Controller) process(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) (time.Duration, error) {
	crd, err := c.judge(ctx, crd)
	if err != nil {
		return 0, err
	}
	serving := c.serve(ctx, crd)
	if !refused(serving) && serving != nil {
		return 0, serving
	}
	if crd.DeletionTimestamp != nil {
		return c.finalize(ctx, crd, serving)
	}
	condition := establishment(crd, serving)
	if condition == nil {
		return 0, nil
	}
	if condition.Status == apiextensionsv1.ConditionTrue {
		accepted := apihelpers.FindCRDCondition(crd, apiextensionsv1.NamesAccepted).LastTransitionTime
		if wait := time.Until(accepted.Add(c.options.Settle)); wait > 0 {
			return wait, nil
		}
	}
	next := writable(crd)
	setCondition(next, *condition)
	_, err = c.write(ctx, crd, next)
	return 0, err
}

// refused reports whether an error of serve is a property of the definition.
func refused(err error) bool { return errors.Is(err, ErrUnservable) || errors.Is(err, ErrBuiltIn) }

// judge writes what a definition's names, schemas and group make of its status, and returns the current state. Where no other
// server has to learn of the names first, the definition is served and established by the same write.
func (c *Controller) judge(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, error) {
	select {
	case c.naming <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-c.naming }()
	next := writable(crd)
	approve(next)
	renamed := acceptNames(next, c.group(crd.Spec.Group))
	if c.unjudged(crd) {
		judgeSchemas(next)
	}
	if c.options.Settle == 0 && crd.DeletionTimestamp == nil {
		if err := c.serve(ctx, next); err == nil || refused(err) {
			if condition := establishment(next, err); condition != nil {
				setCondition(next, *condition)
			}
		}
	}
	out, err := c.write(ctx, crd, next)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.judged[crd.UID] = crd.Generation
	c.mu.Unlock()
	if renamed {
		c.reconsider(crd.Spec.Group, crd.Name) // it may have freed names
	}
	return out, nil
}

// unjudged reports whether the schemas of this generation have not been judged.
func (c *Controller) unjudged(crd *apiextensionsv1.CustomResourceDefinition) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.judged[crd.UID] < crd.Generation
}

// serve has a definition served that should be, and withdraws others.
func (c *Controller) serve(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	if Servable(crd) {
		return c.server.Serve(ctx, crd)
	}
	return c.server.Withdraw(ctx, schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural})
}

// reconsider enqueues the other definitions of a group that wait for names.
func (c *Controller) reconsider(group, except string) {
	for _, crd := range c.cache.List("") {
		if crd.Spec.Group == group && crd.Name != except && !equality.Semantic.DeepEqual(crd.Spec.Names, crd.Status.AcceptedNames) {
			c.queue.Add(controllers.KeyOf(crd))
		}
	}
}

// group returns the definitions of a group.
func (c *Controller) group(name string) []*apiextensionsv1.CustomResourceDefinition {
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, crd := range c.cache.List("") {
		if crd.Spec.Group == name {
			if crd = c.current(crd.Name); crd != nil {
				all = append(all, crd)
			}
		}
	}
	return all
}

// current returns the newest known state of a definition, or nil: the cache's, or what this controller has written or
// read since.
func (c *Controller) current(name string) *apiextensionsv1.CustomResourceDefinition {
	cached, ok := c.cache.Get("", name)
	c.mu.Lock()
	defer c.mu.Unlock()
	newest := c.newest[name]
	if ok && newest != nil && version(newest) > version(cached) {
		return newest
	}
	delete(c.newest, name)
	return cached
}

// writable returns a copy that shares the spec, which the controller does not change.
func writable(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		TypeMeta: crd.TypeMeta, ObjectMeta: *crd.ObjectMeta.DeepCopy(), Spec: crd.Spec, Status: *crd.Status.DeepCopy(),
	}
}

func version(crd *apiextensionsv1.CustomResourceDefinition) uint64 {
	v, _ := strconv.ParseUint(crd.ResourceVersion, 10, 64) // what is not a number counts as oldest
	return v
}

// write writes the status and the metadata of a definition, unless that changes nothing, and returns the stored state. It
// fails with errOvertaken if the definition has changed.
func (c *Controller) write(ctx context.Context, crd, next *apiextensionsv1.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, error) {
	if equality.Semantic.DeepEqual(crd, next) {
		return crd, nil
	}
	at := client.Target{Resource: apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"), Name: crd.Name}
	status := at
	status.Subresource = "status"
	stored, err := client.As[*apiextensionsv1.CustomResourceDefinition](c.client.Update(ctx, status, next, metav1.UpdateOptions{}))
	overtaken := apierrors.IsConflict(err)
	if overtaken {
		stored, err = client.As[*apiextensionsv1.CustomResourceDefinition](c.client.Get(ctx, at))
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !overtaken {
		stored.Spec = crd.Spec // a status does not change it, and schemas are large
	}
	if stored.DeletionTimestamp == nil || len(stored.Finalizers) > 0 { // or else it is gone
		c.newest[crd.Name] = stored
	}
	if overtaken {
		c.queue.Add(controllers.KeyOf(crd))
		return nil, errOvertaken
	}
	return stored, nil
}
