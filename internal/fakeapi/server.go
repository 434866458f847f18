package fakeapi

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/informer"
)

// Pods is the resource of pods, which most tests need.
//
//nolint:gochecknoglobals // a constant, for tests
var Pods = corev1.SchemeGroupVersion.WithResource("pods")

// The verbs of an Action.
const (
	Create = "create"
	Update = "update"
	Patch  = "patch"
	Delete = "delete"
	Get    = "get"
	List   = "list"
)

// Action is one request. Object is what a create or update sent (do not change it), Patch the
// body of a patch.
type Action struct {
	Verb   string
	Target client.Target
	Object runtime.Object
	Patch  []byte
}

// String is "verb resource[/subresource] namespace/name".
func (a Action) String() string {
	resource := a.Target.Resource.Resource
	if a.Target.Subresource != "" {
		resource += "/" + a.Target.Subresource
	}
	name := a.Target.Name
	if name == "" && a.Object != nil {
		if accessor, err := meta.Accessor(a.Object); err == nil {
			name = accessor.GetName() + accessor.GetGenerateName()
		}
	}
	if a.Target.Namespace != "" {
		name = a.Target.Namespace + "/" + name
	}
	return a.Verb + " " + resource + " " + name
}

// Options of a Server; the zero value works.
type Options struct {
	// Scheme knows the kinds; nil is client-go's.
	Scheme *runtime.Scheme
	// Before, when set, sees every request before it is carried out; an error it returns is the
	// answer. It may call the Server, which then is another actor getting in first.
	Before func(Action) error
	// Name makes the suffix of a generated name from the number of names generated so far
	// (from 1). Nil is that number in five digits.
	Name func(n int) string
}

// Server keeps the objects. It implements client.Client.
type Server struct {
	options Options
	scheme  *runtime.Scheme

	mu       sync.Mutex
	kinds    map[schema.GroupVersionResource]schema.GroupVersionKind
	objects  map[schema.GroupVersionResource]map[string]*record
	events   map[schema.GroupVersionResource][]change
	changed  chan struct{} // closed and replaced with every change
	revision int64
	names    int
	uids     int
	actions  []Action
}

var _ client.Client = (*Server)(nil)

// record is an object as handed to every Source, and a copy that shows whether one changed it.
type record struct {
	shared   informer.Object
	pristine runtime.Object
}

type change struct {
	kind    informer.EventType
	object  informer.Object
	version int64
}

// New returns an empty Server.
func New(o Options) *Server {
	s := &Server{
		options: o,
		scheme:  o.Scheme,
		kinds:   map[schema.GroupVersionResource]schema.GroupVersionKind{},
		objects: map[schema.GroupVersionResource]map[string]*record{},
		events:  map[schema.GroupVersionResource][]change{},
		changed: make(chan struct{}),
	}
	if s.scheme == nil {
		s.scheme = scheme.Scheme
	}
	if s.options.Name == nil {
		s.options.Name = func(n int) string { return fmt.Sprintf("%05d", n) }
	}
	return s
}

// Actions returns the writes so far, including those that failed, in order. Reads are left out.
func (s *Server) Actions() []Action {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.actions)
}

// Reset forgets the actions so far, not the objects.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.actions = nil
}

// Mutated names the stored objects that a reader changed although they are shared.
func (s *Server) Mutated() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var bad []string
	for resource, objects := range s.objects {
		for key, r := range objects {
			if !reflect.DeepEqual(r.shared, r.pristine) {
				bad = append(bad, resource.Resource+" "+key)
			}
		}
	}
	slices.Sort(bad)
	return bad
}

// begin notes the action and lets Before have its say, outside the lock.
func (s *Server) begin(a Action) error {
	if a.Verb != Get && a.Verb != List {
		s.mu.Lock()
		s.actions = append(s.actions, a)
		s.mu.Unlock()
	}
	if s.options.Before != nil {
		return s.options.Before(a)
	}
	return nil
}

// kind finds the kind of a resource in the scheme; the caller holds the lock.
func (s *Server) kind(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	if gvk, ok := s.kinds[resource]; ok {
		return gvk, nil
	}
	for name := range s.scheme.KnownTypes(resource.GroupVersion()) {
		gvk := resource.GroupVersion().WithKind(name)
		if plural, _ := meta.UnsafeGuessKindToResource(gvk); plural == resource && !strings.HasSuffix(name, "List") {
			s.kinds[resource] = gvk
			return gvk, nil
		}
	}
	return schema.GroupVersionKind{}, &meta.NoResourceMatchError{PartialResource: resource}
}

func objectKey(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// stored returns the object of a target; the caller holds the lock.
func (s *Server) stored(t client.Target) (informer.Object, error) {
	if r, ok := s.objects[t.Resource][objectKey(t.Namespace, t.Name)]; ok {
		return r.shared, nil
	}
	return nil, apierrors.NewNotFound(t.Resource.GroupResource(), t.Name)
}

// put stores obj under a new resource version and tells the watchers; the caller holds the lock
// and passes an object of its own.
func (s *Server) put(resource schema.GroupVersionResource, obj informer.Object, kind informer.EventType) {
	s.revision++
	obj.SetResourceVersion(strconv.FormatInt(s.revision, 10))
	if s.objects[resource] == nil {
		s.objects[resource] = map[string]*record{}
	}
	s.objects[resource][objectKey(obj.GetNamespace(), obj.GetName())] = &record{shared: obj, pristine: obj.DeepCopyObject()}
	s.announce(resource, change{kind, obj, s.revision})
}

// drop removes obj, whose last state is what the watchers see; the caller holds the lock and
// passes an object of its own.
func (s *Server) drop(resource schema.GroupVersionResource, obj informer.Object) {
	s.revision++
	obj.SetResourceVersion(strconv.FormatInt(s.revision, 10))
	delete(s.objects[resource], objectKey(obj.GetNamespace(), obj.GetName()))
	s.announce(resource, change{informer.Deleted, obj, s.revision})
}

func (s *Server) announce(resource schema.GroupVersionResource, c change) {
	s.events[resource] = append(s.events[resource], c)
	close(s.changed)
	s.changed = make(chan struct{})
}

func copyOf(obj informer.Object) informer.Object {
	return obj.DeepCopyObject().(informer.Object)
}
