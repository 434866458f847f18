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
	Kind       string   // "Pod"
	Plural     string   // "pods", the resource in URLs
	Singular   string   // "pod"
	Short      []string // such as "po", for kubectl
	Categories []string // such as "all", for kubectl
	// List is the kind of lists; empty means Kind with "List".
	List string
}

// ListKind returns the kind of lists, such as "PodList".
func (n Names) ListKind() string {
	if n.List != "" {
		return n.List
	}
	return n.Kind + "List"
}

// Kind describes one resource: its names, its Go types and the rules for its writes. It is data without state;
// make one with Definition.Kind, Review.Kind or Computed.Kind.
type Kind struct {
	Names
	GroupVersion schema.GroupVersion
	Namespaced   bool // whether its objects live in namespaces
	// Prefix is the kind's place below /registry/ in storage; upstream's kinds keep upstream's prefix.
	Prefix  string
	New     func() Object
	NewList func() runtime.Object
	Rules   Rules[Object]
	// DecodeStored decodes a stored object of any version; nil decodes by the Go types of the kind, Also and Older.
	DecodeStored func(data []byte) (Object, error)
	Untyped
	// Fields returns the selectable fields beyond metadata.name and metadata.namespace.
	Fields func(Object) fields.Set
	// FieldLabel translates a field selector's label to one of Fields, or returns false if it is not selectable. nil means
	// that all Fields are, under their own labels.
	FieldLabel func(label string) (string, bool)
	Sub        Subresources[Object]
	// Unserved keeps the kind's own group-version from being served: its objects are stored in it.
	Unserved bool
	// Also lists further group-versions that serve the same stored objects.
	Also []Version
	// Older lists group-versions in which earlier servers stored objects. Those of Also need not be among them.
	Older []Older
	// TTL is how long an object lives after its last write; 0 means forever.
	TTL time.Duration
	// Warning, if not empty, accompanies every answer: the kind is deprecated.
	Warning string
	// Columns describe how objects are shown in tables.
	Columns Columns[Object]
	// Answer makes this a kind that is not stored: Answer handles a create, the kind's only verb.
	Answer func(ctx context.Context, a Access, namespace string, obj runtime.Object) (runtime.Object, error)
	// NewRequest makes the object that Answer takes.
	NewRequest func() runtime.Object
	// Read makes this a kind whose objects are computed at each read: get and list are its only verbs.
	Read Reader
}

// Untyped is what the Go type of objects does not tell, if they have a schema of their own, as those of custom kinds. It is of
// one version.
type Untyped struct {
	// Decode decodes JSON, which names its type, into an object that New made, and sets defaults. strict are what a
	// lenient decoding ignores: unknown and duplicate fields. nil decodes by the Go type.
	Decode func(data []byte, into Object) (strict []error, err error)
	// Schema returns the OpenAPI v3 schema of objects as decoded JSON, with the extensions of definitions of custom kinds.
	// The caller must not change it. nil means that the Go type tells.
	Schema func() map[string]any
	// ValidateUpdate, if set, is called instead of that of the rules, or of a view if the name of one is given, with a
	// context for Warn.
	ValidateUpdate func(ctx context.Context, view string, obj, old Object) field.ErrorList
}

// Reader computes the objects of a kind that is not stored. The caller may share the objects that it returns;
// they do not change any more. It is safe for concurrent use.
type Reader interface {
	// Get returns one object, or nil if there is none.
	Get(ctx context.Context, namespace, name string) (Object, error)
	// List returns the objects of a namespace, or of all namespaces with "", ordered by namespace and name.
	List(ctx context.Context, namespace string) ([]Object, error)
}

// Stored reports whether objects of the kind are stored rather than answered or computed.
func (k Kind) Stored() bool { return k.Answer == nil && k.Read == nil }

// Definition is the typed form in which a kind is declared.
type Definition[T Object] struct {
	Names
	GroupVersion schema.GroupVersion
	Namespaced   bool                  // whether its objects live in namespaces
	Prefix       string                // defaults to the plural
	New          func() T              // an empty object
	NewList      func() runtime.Object // an empty list
	Rules        Rules[T]
	Fields       func(T) fields.Set // as Kind.Fields
	Sub          Subresources[T]    // beside the object itself
	Also         []Version          // as Kind.Also
	Older        []Older
	TTL          time.Duration // as Kind.TTL
	Warning      string        // as Kind.Warning
	Columns      Columns[T]
}

// Rules govern the writes of a kind; every field is optional. The registry itself fills and validates
// metadata (name, labels, owner references, finalizers, immutable fields); rules cover the rest. The functions
// must not keep or share their arguments.
type Rules[T Object] struct {
	// Default fills unset fields with upstream's versioned defaults. It runs after every decoding, before
	// admission.
	Default func(obj T)
	Reading[T]
	// PrepareCreate drops what a client may not set and sets what the server sets (an empty
	// status, generation 1). It runs after mutating admission.
	PrepareCreate func(ctx context.Context, obj T)
	// PrepareUpdate restores what this endpoint may not change (the status) and raises the generation when the
	// spec differs. Parts implements this for PrepareCreate and PrepareUpdate.
	PrepareUpdate func(ctx context.Context, obj, old T)
	// Validate validates a whole new object except its metadata.
	Validate func(obj T) field.ErrorList
	// ValidateUpdate validates an update, including everything of Validate that applies to it.
	ValidateUpdate func(obj, old T) field.ErrorList
	// ValidateName validates metadata.name (or generateName, when prefix is set); nil requires a DNS subdomain.
	ValidateName func(name string, prefix bool) []string
	// Guard refuses a write for a reason other than its content, such as RBAC escalation. old is the zero T in
	// a create. Its error is returned to the client unchanged.
	Guard func(ctx context.Context, obj, old T) error
	Effects[T]
	// Store brings an object into the form that is stored; it is the last step before a write, also of a dry run.
	Store func(obj T)
	// Share lets a state that has been stored use memory of the one before it, for large parts that seldom change: it may
	// replace parts of obj, which no reader has yet, by equal ones of old, which is shared. It may be nil and must be fast.
	Share func(obj, old T)
	// CreateOnUpdate lets PUT create an object that does not exist.
	CreateOnUpdate bool
	// AnyFinalizer allows finalizers without a domain before the slash. All but three of upstream's kinds
	// refuse them; kinds outside Kubernetes' own API groups always allow them.
	AnyFinalizer bool
	// ConditionalUpdate refuses updates that carry no resourceVersion.
	ConditionalUpdate bool
	Deletion          Deletion[T]
}

// Reading holds the rules for what is read of a kind; every field is optional.
type Reading[T Object] struct {
	// Restore fills fields that objects lack because they were stored before the field existed. It runs after
	// Default, whenever a stored object is decoded, and not on objects that clients send.
	Restore func(obj T)
	// Decorate adds to an object what it shows beyond what is stored: in the answers to reads and writes, in watches and
	// in informers. obj is a copy, in its stored version, before it is converted to the one that is asked for. The result
	// must follow from the object alone: it may be kept as long as that state of the object. Selectors and the changes
	// that make updates see objects as they are stored. A client that sends back what it read sends the decoration, too:
	// PrepareCreate and PrepareUpdate, or Store, remove what must not be stored.
	Decorate func(obj T)
}

// Effects hold what writes of a kind do beside the object's own record; every field is optional.
type Effects[T Object] struct {
	// Reserve takes what the object needs exclusively beside its own record, such as an address, and returns
	// what to do once the outcome of the write is known, or nil. It runs in creates, updates and removals, not
	// in updates of views: after PrepareCreate and PrepareUpdate, before validation. If it fails, it gives back
	// what it took; its error is returned to the client unchanged. Two servers must not be able to take the
	// same thing at once: it may be an object with a unique name, say.
	Reserve func(ctx context.Context, r Reservation[T]) (Settle, error)
	// After is called after every change that this server has stored, by any endpoint, before the client is answered.
	// obj is what was stored, old what it replaced; obj is the zero T in a removal, old in a create. Both are shared and
	// must not be changed. ctx outlives the client's request, but for 10 s at most, and the client waits for that long.
	// Dry runs, refused writes and updates without effect are left out, and so are writes whose outcome was not known when
	// the client left: what must miss no change, or a crash, watches the objects instead. It is safe for concurrent use.
	After func(ctx context.Context, obj, old T)
}

// Deletion holds the rules for deleting objects of a kind, beyond finalizers, which the registry itself
// follows; every field is optional.
type Deletion[T Object] struct {
	// Grace returns the grace period of a delete in seconds; asked is the period that the client asked for, or
	// nil. A nil Grace, or 0, deletes at once.
	Grace func(obj T, asked *int64) int64
	// Begin changes the object when its deletion begins (a namespace's phase, say).
	Begin func(obj T)
	// ReturnsObject answers a delete with the object instead of a Status, as upstream does for some kinds.
	ReturnsObject bool
	// Orphans lets a delete that does not ask for a propagation orphan the dependents, as upstream does for kinds that are
	// older than garbage collection.
	Orphans bool
	// OrphansWarning, if set, is what the client of such a delete is warned of.
	OrphansWarning string
	// Guard refuses to delete objects that every cluster must keep. It is called first, with the name alone,
	// whether the object exists or not. Its error is returned to the client unchanged.
	Guard func(name string) error
	// Singly refuses to delete collections of the kind.
	Singly bool
	// Held keeps an object whose deletion has begun even when no finalizers are left.
	Held func(obj T) bool
	// Ending reports whether all objects of the kind are being deleted for good: discovery then lists no verbs that write
	// them. It is safe for concurrent use.
	Ending func() bool
}

// Subresources are the subresources of a kind.
type Subresources[T Object] struct {
	// Views update one part of the object under rules of their own, such as "status".
	Views map[string]View[T]
	// Scale serves the scale subresource.
	Scale *Scale[T]
	// Actions act on an object when posted to, such as "binding" and "eviction".
	Actions map[string]Action
	// Connects lead to processes and ports behind an object, such as "log", "exec" and "proxy".
	Connects map[string]Connect
	// Resets are for the object itself what they are for a view; nil means the status, if there is a view of it.
	Resets []string
}

// View is a subresource with the object's own type.
type View[T Object] struct {
	// PrepareUpdate copies into obj everything of old that this view may not change.
	PrepareUpdate  func(ctx context.Context, obj, old T)
	ValidateUpdate func(obj, old T) field.ErrorList
	// Guard is as that of Rules, for updates of this view, but never gets the zero T.
	Guard func(ctx context.Context, obj, old T) error
	// Resets names what PrepareUpdate copies, such as "spec" and "metadata.labels", so that managed fields do
	// not make a client the owner of fields it did not change. nil means the spec for the view "status" and the
	// status for any other.
	Resets []string
}

// Scale reads and writes the replica count of a kind. Metadata is filled by the registry.
type Scale[T Object] struct {
	Spec   func(obj T) int32                             // the desired replicas
	Status func(obj T) (replicas int32, selector string) // the current replicas, and the selector of their pods
	Set    func(obj T, replicas int32)                   // changes the desired replicas
	// Readable, if set, says why an object has no Scale that can be read. One can be written to it even so.
	Readable func(obj T) error
	// Validated tells that the rules for the object validate its replicas, so that a Scale itself may have any.
	Validated bool
}

// Action is a subresource that acts when posted to.
type Action struct {
	GroupVersionKind schema.GroupVersionKind // of the body
	New              func() runtime.Object   // an empty body
	// Default, if set, fills unset fields of a decoded body, before admission.
	Default func(body runtime.Object)
	// Run acts on the named object and returns the response body. The body is in the object's namespace; Run
	// itself must check that its name matches.
	Run func(ctx context.Context, a Access, at ObjectKey, body runtime.Object, dryRun bool) (runtime.Object, error)
}

// Connect is a subresource that is served by the processes or ports behind the object. The server knows how to
// reach them; the registry does not.
type Connect struct {
	// GroupVersionKind is the type of the parameters, as discovery and admission know it.
	GroupVersionKind schema.GroupVersionKind
	// Methods are the HTTP methods that the subresource accepts.
	Methods []string
	// Below allows any path after the subresource's name.
	Below bool
	// Reads marks a subresource that reads the object, such as "log": discovery shows it under the object's own
	// kind, and admission does not see it.
	Reads bool
	// Parameters decodes the parameters from the query and the path below the subresource. An error is the
	// client's fault.
	Parameters func(query url.Values, path string) (runtime.Object, error)
	// Validate validates the parameters; nil accepts any.
	Validate func(parameters runtime.Object) field.ErrorList
}

// Version is a further group-version of a kind.
type Version struct {
	Names
	GroupVersion schema.GroupVersion
	New          func() Object         // an empty object of the version
	NewList      func() runtime.Object // an empty list
	// FromStored and ToStored convert without changing their argument.
	FromStored func(ctx context.Context, obj Object) (Object, error)
	ToStored   func(ctx context.Context, obj Object) (Object, error)
	// AllFromStored is FromStored for several objects, where one call for all is cheaper than one for each; it may be nil.
	AllFromStored func(ctx context.Context, objs []Object) ([]Object, error)
	Untyped
	// FieldLabel is as Kind's, for labels in this version; nil means that the labels are the kind's.
	FieldLabel func(label string) (string, bool)
	// Rules and Sub apply, in stored form, to what is sent in this version, except for the rules of deletion; nil means the
	// kind's.
	Rules *Rules[Object]
	Sub   *Subresources[Object]
	// Columns show objects of this version; nil means the kind's, which show stored objects.
	Columns *Columns[Object]
	// Warning is as Kind's, which is about the stored version only.
	Warning string
}

// Served returns the kind in each group-version that is served, its own first.
func (k Kind) Served() []Kind {
	var all []Kind
	if !k.Unserved {
		all = append(all, k)
	}
	for i := range k.Also {
		all = append(all, k.in(&k.Also[i]))
	}
	return all
}

// in returns the kind as a version serves it. Its rules and subresources are about stored objects.
func (k Kind) in(v *Version) Kind {
	k.Names, k.GroupVersion, k.New, k.NewList = v.Names, v.GroupVersion, v.New, v.NewList
	k.Untyped = v.Untyped
	if v.FieldLabel != nil {
		k.FieldLabel = v.FieldLabel
	}
	if v.Rules != nil {
		deletion := k.Rules.Deletion
		k.Rules = *v.Rules
		k.Rules.Deletion = deletion
	}
	if v.Sub != nil {
		k.Sub = *v.Sub
	}
	if v.Columns != nil {
		k.Columns = *v.Columns
	}
	k.Warning = v.Warning
	return k
}

// Older is a group-version in which objects may still be stored, though it is no longer served.
type Older struct {
	// Written has objects stored in this version and not in the kind's own, which the minor version before does not know.
	// Their encodings must be the same but for the version.
	Written      bool
	GroupVersion schema.GroupVersion
	New          func() runtime.Object // an empty object of the version
	// ToStored converts a decoded object into an object of the kind, which may share its memory.
	ToStored func(runtime.Object) Object
}

// ObjectKey identifies an object of a resource.
type ObjectKey struct {
	Resource  schema.GroupResource
	Namespace string
	Name      string
}

// Access gives actions and reviews access to stored objects. It obeys the kind's rules but bypasses admission
// and authorization, which the action itself has passed. It reaches pending objects, too.
//
//nolint:interfacebloat // actions are handed one value; most use two or three of its methods
type Access interface {
	// Create stores a new object, which it takes over, and returns the stored object, or ErrExists.
	Create(ctx context.Context, resource schema.GroupResource, obj Object) (Object, error)
	// Get returns the newest state, which is shared and must not be changed, or ErrNotFound.
	Get(ctx context.Context, key ObjectKey) (Object, error)
	// List returns the objects of a namespace, or of all namespaces with ""; they are shared, like Get's.
	List(ctx context.Context, resource schema.GroupResource, namespace string) ([]Object, error)
	// Modify applies change to a private copy of the newest object and stores the result. If another write
	// intervenes, it starts again; it stops if change returns an error.
	Modify(ctx context.Context, key ObjectKey, change func(obj Object) error, dryRun bool) (Object, error)
	// Delete deletes as a client would: gracefully, and subject to finalizers.
	Delete(ctx context.Context, key ObjectKey, options metav1.DeleteOptions) error
}

// NewScale returns the Scale of an object whose kind has the scale subresource.
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

// StoredAs returns the type in which objects are stored.
func (k Kind) StoredAs() schema.GroupVersionKind {
	for _, older := range k.Older {
		if older.Written {
			return older.GroupVersion.WithKind(k.Names.Kind)
		}
	}
	return k.GroupVersion.WithKind(k.Names.Kind)
}

// GroupResource returns the kind's resource name with its group.
func (k Kind) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.GroupVersion.Group, Resource: k.Plural}
}
