package registry

import (
	"context"
	"net/url"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/informer"
)

// Object is a decoded API object. Those the registry hands out are shared and immutable.
type Object = informer.Object

// Names are the names of a kind, as discovery shows them.
type Names struct {
	Kind       string // "Pod"
	Plural     string // "pods", the resource in URLs
	Singular   string // "pod"
	Short      []string
	Categories []string
}

// Kind describes one resource: its names, its Go types and the rules that a write must obey.
// It is data without state; make one with Definition.Kind or Review.Kind.
type Kind struct {
	Names
	GroupVersion schema.GroupVersion
	Namespaced   bool
	// Prefix is the kind's place below /registry/ in storage, upstream's for upstream's kinds.
	Prefix  string
	New     func() Object
	NewList func() runtime.Object
	Rules   Rules[Object]
	// Fields returns the selectable fields beyond metadata.name and metadata.namespace.
	Fields func(Object) fields.Set
	Sub    Subresources[Object]
	// Also lists further group-versions that serve the same stored objects.
	Also []Version
	// Older lists group-versions in which servers of the past stored objects. Those of Also need not
	// be among them.
	Older []Older
	// TTL is how long an object lives after its last write; 0 is for ever.
	TTL time.Duration
	// Warning, if not empty, accompanies every answer: the kind is deprecated.
	Warning string
	// Columns are how objects look in tables.
	Columns Columns[Object]
	// Answer makes this a kind that is not stored: a create is answered by it, and create is
	// its only verb.
	Answer func(ctx context.Context, a Access, namespace string, obj runtime.Object) (runtime.Object, error)
	// NewRequest makes the object that Answer takes.
	NewRequest func() runtime.Object
	// Read makes this a kind that is not stored but worked out when it is read: get and list are its
	// only verbs.
	Read Reader
}

// Reader works out the objects of a kind that is not stored. What it returns is the caller's to
// share and is not changed any more. It is safe for concurrent use.
type Reader interface {
	// Get returns one object, or nil when there is none.
	Get(ctx context.Context, namespace, name string) (Object, error)
	// List returns the objects of a namespace, or with "" of all, in the order of namespaces and
	// names.
	List(ctx context.Context, namespace string) ([]Object, error)
}

// Stored tells whether objects of the kind are stored; others are answered or worked out.
func (k Kind) Stored() bool { return k.Answer == nil && k.Read == nil }

// Definition is the typed form in which a kind is written down.
type Definition[T Object] struct {
	Names
	GroupVersion schema.GroupVersion
	Namespaced   bool
	Prefix       string // empty: the plural
	New          func() T
	NewList      func() runtime.Object
	Rules        Rules[T]
	Fields       func(T) fields.Set
	Sub          Subresources[T]
	Also         []Version
	Older        []Older
	TTL          time.Duration
	Warning      string
	Columns      Columns[T]
}

// Rules are what a write of a kind must obey; every field is optional. The registry itself
// fills and validates metadata (name, labels, owner references, finalizers, immutable fields),
// so rules only see to the rest. Functions must not keep or share what they are given.
type Rules[T Object] struct {
	// Default fills unset fields as upstream's versioned defaults do. It runs after every
	// decoding, before admission.
	Default func(obj T)
	// Restore fills what objects lack that were stored before a field was there. It runs after
	// every decoding of what is stored, behind Default, and not on what clients send.
	Restore func(obj T)
	// PrepareCreate drops what a client may not set and sets what the server sets (an empty
	// status, generation 1). It runs after mutating admission.
	PrepareCreate func(ctx context.Context, obj T)
	// PrepareUpdate restores what this endpoint may not change (the status) and raises the
	// generation when the spec differs.
	PrepareUpdate func(ctx context.Context, obj, old T)
	// Validate judges a whole new object but for its metadata.
	Validate func(obj T) field.ErrorList
	// ValidateUpdate judges an update, including everything of Validate that applies to it.
	ValidateUpdate func(obj, old T) field.ErrorList
	// ValidateName judges metadata.name (or generateName, when prefix is set); unset means a
	// DNS subdomain.
	ValidateName func(name string, prefix bool) []string
	// Guard refuses a write for a reason other than its content, such as RBAC escalation. old
	// is the zero T in a create. Its error is returned to the client as it is.
	Guard func(ctx context.Context, obj, old T) error
	// Reserve takes what the object needs beside its own record and nobody else may have, such
	// as an address, and returns what to do once the outcome of the write is known, or nil. It
	// runs in creates, updates and removals, not in those of views: after PrepareCreate and
	// PrepareUpdate, before validation. It gives back what it took when it fails; its error is
	// returned to the client as it is. What it takes must be such that two servers cannot take
	// it at once, an object whose name is unique, say.
	Reserve func(ctx context.Context, r Reservation[T]) (Settle, error)
	// CreateOnUpdate lets PUT create an object that is not there.
	CreateOnUpdate bool
	// AnyFinalizer allows finalizers without a domain before the slash. Upstream's kinds refuse
	// those but for three kinds; kinds outside of Kubernetes' own API groups always allow them.
	AnyFinalizer bool
	// ConditionalUpdate refuses updates that carry no resourceVersion.
	ConditionalUpdate bool
	Deletion          Deletion[T]
}

// Deletion are the rules of a kind's removal beyond those of finalizers, which the registry
// itself follows; every field is optional.
type Deletion[T Object] struct {
	// Grace returns how many seconds a delete leaves the object; asked is the client's wish or
	// nil. Unset, or 0, means at once.
	Grace func(obj T, asked *int64) int64
	// Begin changes the object when its deletion begins (a namespace's phase, say).
	Begin func(obj T)
	// ReturnsObject answers a delete with the object instead of a Status, as upstream does for
	// some kinds.
	ReturnsObject bool
	// Guard refuses a delete of what must stay, such as what every cluster has. It is asked first,
	// of the name alone: whether there is such an object or not. Its error is returned to the
	// client as it is.
	Guard func(name string) error
	// Singly refuses to delete a collection of the kind.
	Singly bool
	// Held keeps an object whose deletion began and whose finalizers are gone.
	Held func(obj T) bool
}

// Subresources of a kind.
type Subresources[T Object] struct {
	// Views update one part of the object under rules of their own, such as "status".
	Views map[string]View[T]
	// Scale serves the scale subresource.
	Scale *Scale[T]
	// Actions act on an object when posted to, such as "binding" and "eviction".
	Actions map[string]Action
	// Connects lead to what runs behind an object, such as "log", "exec" and "proxy".
	Connects map[string]Connect
}

// View is a subresource with the object's own type.
type View[T Object] struct {
	// PrepareUpdate copies into obj everything of old that this view may not change.
	PrepareUpdate  func(ctx context.Context, obj, old T)
	ValidateUpdate func(obj, old T) field.ErrorList
	// Resets names what PrepareUpdate copies, such as "spec" and "metadata.labels", so that
	// nobody becomes the owner of what they did not change. nil is the spec for the view "status"
	// and the status for any other.
	Resets []string
}

// Scale reads and writes the replica count of a kind. Metadata is filled by the registry.
type Scale[T Object] struct {
	Spec   func(obj T) int32
	Status func(obj T) (replicas int32, selector string)
	Set    func(obj T, replicas int32)
}

// Action is a subresource that acts when posted to.
type Action struct {
	GroupVersionKind schema.GroupVersionKind // of the body
	New              func() runtime.Object
	// Default, if set, fills unset fields of a decoded body, before admission.
	Default func(body runtime.Object)
	// Run acts on the named object and returns the answer's body. The body is in the object's
	// namespace; whether its name fits is Run's to judge.
	Run func(ctx context.Context, a Access, at ObjectKey, body runtime.Object, dryRun bool) (runtime.Object, error)
}

// Connect is a subresource that is answered by what runs behind the object: its processes, its
// ports. The server knows the way there, not the registry.
type Connect struct {
	// GroupVersionKind is of the parameters, by which discovery and admission know it.
	GroupVersionKind schema.GroupVersionKind
	// Methods are the HTTP methods that it takes.
	Methods []string
	// Below tells that any path may follow the subresource's name.
	Below bool
	// Reads tells that this reads the object, as "log" does: discovery shows it under the object's
	// own kind, and admission does not see it.
	Reads bool
	// Parameters reads them from a query, and from the path that follows. An error is the client's.
	Parameters func(query url.Values, path string) (runtime.Object, error)
	// Validate judges the parameters; unset, any are good.
	Validate func(parameters runtime.Object) field.ErrorList
}

// Version is a further group-version of a kind.
type Version struct {
	Names
	GroupVersion schema.GroupVersion
	New          func() Object
	NewList      func() runtime.Object
	// FromStored and ToStored convert without changing their argument.
	FromStored func(Object) Object
	ToStored   func(Object) Object
	// Validate and ValidateUpdate judge, in stored form, what came in by this version. Unset,
	// the kind's own rules do.
	Validate       func(obj Object) field.ErrorList
	ValidateUpdate func(obj, old Object) field.ErrorList
	// FieldLabel translates a field selector's label in this version to the kind's, false for
	// one that is not selectable. Unset, the labels are the kind's.
	FieldLabel func(label string) (string, bool)
}

// Older is a group-version in which objects may still be stored, though it is not served.
type Older struct {
	GroupVersion schema.GroupVersion
	New          func() runtime.Object
	// ToStored converts what was decoded into an object of the kind, which may share it.
	ToStored func(runtime.Object) Object
}

// ObjectKey names one object of a resource.
type ObjectKey struct {
	Resource  schema.GroupResource
	Namespace string
	Name      string
}

// Access is what actions and reviews may do to stored objects. It obeys the kind's rules but
// passes admission and authorization: the action itself is what was admitted.
//
//nolint:interfacebloat // actions are handed one value; most use two or three of its methods
type Access interface {
	// Create stores a new object, which it takes over, and returns what was stored, or ErrExists.
	Create(ctx context.Context, resource schema.GroupResource, obj Object) (Object, error)
	// Get returns the newest state, which is shared and must not be changed, or ErrNotFound.
	Get(ctx context.Context, key ObjectKey) (Object, error)
	// List returns the objects of a namespace, or with "" of all; they are shared like Get's.
	List(ctx context.Context, resource schema.GroupResource, namespace string) ([]Object, error)
	// Modify applies change to a private copy of the newest object and stores the result,
	// again from the start when another write came between. An error of change ends it.
	Modify(ctx context.Context, key ObjectKey, change func(obj Object) error, dryRun bool) (Object, error)
	// Delete deletes as a client would: gracefully, and held up by finalizers.
	Delete(ctx context.Context, key ObjectKey, options metav1.DeleteOptions) error
}

// NewScale makes the scale object of an object of a kind with a scale subresource.
func NewScale[T Object](s Scale[T], obj T) *autoscalingv1.Scale {
	status, selector := s.Status(obj)
	return &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{APIVersion: autoscalingv1.SchemeGroupVersion.String(), Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{
			Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
			ResourceVersion: obj.GetResourceVersion(), CreationTimestamp: obj.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: s.Spec(obj)},
		Status: autoscalingv1.ScaleStatus{Replicas: status, Selector: selector},
	}
}

// GroupResource is the kind's resource name with its group.
func (k Kind) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.GroupVersion.Group, Resource: k.Plural}
}
