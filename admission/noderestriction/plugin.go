package noderestriction

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// Name is the plugin's name.
const Name = "NodeRestriction"

// Getter reads one object by name, and returns false if it does not exist; cluster-scoped objects have no
// namespace. An informer is one.
type Getter[T any] interface {
	Get(namespace, name string) (T, bool)
}

// Sources are the objects that the plugin reads. A kind without a source has no objects: requests that depend
// on one are refused.
type Sources struct {
	Pods            Getter[*corev1.Pod]
	Nodes           Getter[*corev1.Node]
	ServiceAccounts Getter[*corev1.ServiceAccount]
	// Claims, Volumes and Drivers lead from a pod to the audiences of the tokens that its CSI drivers get.
	Claims  Getter[*corev1.PersistentVolumeClaim]
	Volumes Getter[*corev1.PersistentVolume]
	Drivers Getter[*storagev1.CSIDriver]
}

// Plugin is the admission plugin. Make one with New.
type Plugin struct {
	in    Sources
	authz authz.Authorizer
}

var _ admission.Mutator = (*Plugin)(nil)

// New returns the plugin. The authorizer, usually the API server's own, decides about audiences and signers
// that no pod on the node mounts: verb request-serviceaccounts-token-audience on the audience, and
// request-serviceaccounts-podcertificate-signer on the signer, each with the service account's name. nil allows
// none.
func New(in Sources, authorizer authz.Authorizer) *Plugin { return &Plugin{in: in, authz: authorizer} }

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update || op == admission.Delete
}

// Admit implements admission.Mutator. It changes nothing: like upstream's, it checks requests before they are
// validated, so that a refused node learns nothing from validation.
func (p *Plugin) Admit(ctx context.Context, r *admission.Request) error {
	node, isNode := authn.Node(r.User)
	switch {
	case !isNode:
		return nil
	case node == "":
		return admission.Forbidden(r, "could not determine node from user %q", r.User.Name)
	}
	q := request{Request: r, node: node}
	switch r.Resource.GroupResource() {
	case schema.GroupResource{Resource: "pods"}:
		return p.pod(q)
	case schema.GroupResource{Resource: "nodes"}:
		return nodeObject(q)
	case schema.GroupResource{Resource: "persistentvolumeclaims"}:
		return claim(q)
	case schema.GroupResource{Resource: "serviceaccounts"}:
		return p.token(ctx, q)
	case schema.GroupResource{Group: certificatesv1.GroupName, Resource: "podcertificaterequests"}:
		return p.podCertificate(ctx, q)
	case schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"}:
		return lease(q)
	case schema.GroupResource{Group: storagev1.GroupName, Resource: "csinodes"}:
		return csiNode(q)
	case schema.GroupResource{Group: resourcev1.GroupName, Resource: "resourceslices"}:
		return resourceSlice(q)
	case schema.GroupResource{Group: certificatesv1.GroupName, Resource: "certificatesigningrequests"}:
		return certificate(q)
	}
	return nil
}

// request is a request and the node that makes it.
type request struct {
	*admission.Request
	node string
}

func (q request) forbidden(format string, args ...any) error {
	return admission.Forbidden(q.Request, format, args...)
}

// unexpected refuses an operation that nodes never need.
func (q request) unexpected() error { return q.forbidden("unexpected operation %q", q.Operation) }

// as returns the request's object, or the refusal if it has another type.
func as[T any](q request, obj any) (T, error) {
	typed, ok := obj.(T)
	if !ok {
		return typed, q.forbidden("unexpected type %T", obj)
	}
	return typed, nil
}

// find reads an object; kind is its kind in the errors of upstream's caches.
func find[T any](from Getter[T], kind schema.GroupResource, namespace, name string) (T, error) {
	if from != nil {
		if obj, ok := from.Get(namespace, name); ok {
			return obj, nil
		}
	}
	var none T
	return none, admission.NotFound(kind, name)
}

func (p *Plugin) findPod(namespace, name string) (*corev1.Pod, error) {
	return find(p.in.Pods, schema.GroupResource{Resource: "pod"}, namespace, name)
}

func (p *Plugin) findNode(name string) (*corev1.Node, error) {
	return find(p.in.Nodes, schema.GroupResource{Resource: "node"}, "", name)
}

// allowed asks the authorizer for a permission that corresponds to no request of its own.
func (p *Plugin) allowed(ctx context.Context, q request, verb, resource, name string) (bool, error) {
	if p.authz == nil {
		return false, nil
	}
	decision, err := p.authz.Authorize(ctx, authz.Attributes{
		User: q.User, Verb: verb, Group: q.Resource.Group, Version: q.Resource.Version, Resource: resource,
		Namespace: q.Namespace, Name: name, ResourceRequest: true,
	})
	if decision.Verdict == authz.Allow {
		return true, nil // regardless of evaluation errors
	}
	return false, err
}
