package node

import (
	"context"
	"errors"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// ErrNotListed: a node's permissions depend on the pods on it and cannot be listed.
var ErrNotListed = errors.New("node authorizer does not support user rule resolution")

// Getter reads one object by name, and returns false if it does not exist; cluster-scoped objects have no namespace. An
// informer implements it.
type Getter[T any] interface {
	Get(namespace, name string) (T, bool)
}

// Index finds objects by values computed from them. An informer implements it.
type Index[T any] interface {
	// AddIndex adds an index by the values that a function computes; it is called before any read.
	AddIndex(name string, values func(T) []string)
	// ByIndex returns the objects indexed under value.
	ByIndex(name, value string) []T
}

// Volumes reads volumes by name and by the secrets they need. An informer implements it.
type Volumes interface {
	Getter[*corev1.PersistentVolume]
	Index[*corev1.PersistentVolume]
}

// Sources are what an Authorizer reads. Pods is required; without one of the others, no node has access to objects of
// its kind.
type Sources struct {
	Pods                Index[*corev1.Pod]
	Volumes             Volumes
	Attachments         Getter[*storagev1.VolumeAttachment]
	ResourceSlices      Getter[*resourcev1.ResourceSlice]
	CertificateRequests Getter[*certificatesv1.PodCertificateRequest]
}

type (
	attachment = storagev1.VolumeAttachment
	slice      = resourcev1.ResourceSlice
	request    = certificatesv1.PodCertificateRequest
)

// Authorizer allows nodes what they need. It implements authz.Authorizer and authz.RuleResolver.
type Authorizer struct {
	in     Sources
	common authz.Authorizer
}

// New returns an Authorizer over in. It adds an index to pods and volumes, so call it before they run. What does not
// depend on the node, such as services and events, common decides for all nodes; the rules of upstream's role
// system:node are in authz/rbac/bootstrap.
func New(in Sources, common authz.Authorizer) *Authorizer {
	in.index()
	return &Authorizer{in: in, common: common}
}

// Name returns the name of the node that user is, and whether it is a node. The name may be empty.
func Name(user *authn.Identity) (name string, isNode bool) { return authn.Node(user) }

// RulesFor implements authz.RuleResolver: it fails with ErrNotListed for nodes and lists nothing
// for others.
func (z *Authorizer) RulesFor(_ context.Context, user *authn.Identity, _ string) (authz.Rules, error) {
	if _, isNode := Name(user); isNode {
		return authz.Rules{Incomplete: true}, ErrNotListed
	}
	return authz.Rules{}, nil
}

// Authorize implements authz.Authorizer.
func (z *Authorizer) Authorize(ctx context.Context, a authz.Attributes) (authz.Decision, error) {
	node, isNode := Name(a.User)
	if !isNode {
		return authz.Decision{}, nil
	}
	if node == "" {
		return authz.Decision{Reason: fmt.Sprintf("unknown node for user %q", a.User.Name)}, nil
	}
	reason, judged := z.judge(node, a)
	switch {
	case !judged:
		decision, err := z.common.Authorize(ctx, a)
		if decision.Verdict == authz.Allow {
			return authz.Decision{Verdict: authz.Allow}, nil
		}
		return authz.Decision{}, err
	case reason == allowed:
		return authz.Decision{Verdict: authz.Allow}, nil
	default:
		return authz.Decision{Reason: string(reason)}, nil
	}
}

// refusal is the reason why something is not allowed; it may be empty.
type refusal string

// allowed is not a refusal, and differs from every reason.
const allowed refusal = "\x00allowed"

// judge decides about resources whose access depends on the node.
func (z *Authorizer) judge(node string, a authz.Attributes) (reason refusal, judged bool) {
	if !a.ResourceRequest {
		return "", false
	}
	switch resource := a.Resource; a.Group {
	case "":
		return z.judgeCore(node, a)
	case "resource.k8s.io":
		switch resource {
		case "resourceclaims":
			return z.get(node, resourceClaim, a), true
		case "resourceslices":
			return z.resourceSlice(node, a), true
		}
	case "storage.k8s.io":
		switch resource {
		case "volumeattachments":
			return z.get(node, volumeAttachment, a), true
		case "csinodes":
			return csiNode(node, a), true
		}
	case "coordination.k8s.io":
		if resource == "leases" {
			return lease(node, a), true
		}
	case "certificates.k8s.io":
		if resource == "podcertificaterequests" {
			return z.certificateRequest(node, a), true
		}
	}
	return "", false
}

func (z *Authorizer) judgeCore(node string, a authz.Attributes) (reason refusal, judged bool) {
	switch a.Resource {
	case "secrets":
		return z.read(node, secret, a), true
	case "configmaps":
		return z.read(node, configMap, a), true
	case "persistentvolumeclaims":
		if a.Subresource == "status" {
			return z.updateStatus(node, claim, a), true
		}
		return z.get(node, claim, a), true
	case "persistentvolumes":
		return z.get(node, volume, a), true
	case "serviceaccounts":
		return z.serviceAccount(node, a), true
	case "nodes":
		return nodeObject(node, a), true
	case "pods":
		return z.pod(node, a), true
	}
	return "", false
}

// related allows access to a named object that is related to the node.
func (z *Authorizer) related(node string, k kind, a authz.Attributes) refusal {
	if a.Name == "" {
		return "No Object name found"
	}
	return z.known(node, k, a)
}

func (z *Authorizer) known(node string, k kind, a authz.Attributes) refusal {
	if z.in.related(object{k, a.Namespace, a.Name}, node) {
		return allowed
	}
	return refusal(fmt.Sprintf("no relationship found between node '%s' and this object", node))
}

// selectsNode reports whether a list selects only objects with the node in a field.
func selectsNode(a authz.Attributes, field, node string) bool {
	return slices.ContainsFunc(a.FieldSelector, func(r authz.Requirement) bool {
		return r.Key == field && r.Operator == "=" && len(r.Values) == 1 && r.Values[0] == node
	})
}
