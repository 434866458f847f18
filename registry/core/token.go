package core

import (
	"context"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/registry"
)

const (
	defaultTokenSeconds = 60 * 60
	// extendableSeconds is the lifetime that the service account admission plugin requests for a pod's volume:
	// the odd number distinguishes it from one that a user chose.
	extendableSeconds = 60*60 + 7
	extendedSeconds   = 365 * 24 * 60 * 60
)

func tokenRequestGVK() schema.GroupVersionKind {
	return authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")
}

// tokenActions returns the subresource that issues tokens for a service account, if there is an issuer.
func tokenActions(t Tokens) map[string]registry.Action {
	if t.Issuer == nil {
		return nil
	}
	return map[string]registry.Action{"token": {
		GroupVersionKind: tokenRequestGVK(),
		New:              func() runtime.Object { return &authenticationv1.TokenRequest{} },
		Default: func(obj runtime.Object) {
			if request := obj.(*authenticationv1.TokenRequest); request.Spec.ExpirationSeconds == nil {
				request.Spec.ExpirationSeconds = new(int64(defaultTokenSeconds))
			}
		},
		// Nothing is stored, so a dry run is like any other request, as upstream.
		Run: func(ctx context.Context, a registry.Access, at registry.ObjectKey, body runtime.Object, _ bool) (runtime.Object, error) {
			run := requesting{Tokens: t, Access: a, at: at, request: body.(*authenticationv1.TokenRequest), now: time.Now()}
			return run.answer(ctx)
		},
	}}
}

// requesting is one request for a token in progress.
type requesting struct {
	Tokens
	registry.Access
	at      registry.ObjectKey // of the service account
	request *authenticationv1.TokenRequest
	now     time.Time
	claims  authn.Claims
}

func (r *requesting) answer(ctx context.Context) (runtime.Object, error) {
	if err := r.complete(ctx); err != nil {
		return nil, err
	}
	if errs := validateTokenRequest(r.request); len(errs) > 0 {
		return nil, r.invalid("", errs)
	}
	if ref := r.request.Spec.BoundObjectRef; ref != nil {
		if err := r.bind(ctx, ref); err != nil {
			return nil, err
		}
	}
	asked := r.expire(ctx)
	token, err := r.Issuer.Issue(ctx, r.claims)
	if err != nil {
		return nil, fmt.Errorf("failed to generate token: %w", err)
	}
	if r.Annotate != nil {
		r.Annotate(ctx, "authentication.kubernetes.io/issued-credential-id", "JTI="+r.claims.ID)
	}
	r.request.Status = authenticationv1.TokenRequestStatus{
		Token: token, ExpirationTimestamp: metav1.NewTime(r.now.Add(seconds(asked))),
	}
	return r.request, nil
}

// complete finds the account and fills in omitted fields.
func (r *requesting) complete(ctx context.Context) error {
	q := r.request
	meta := field.NewPath("metadata")
	if q.Name != "" && q.Name != r.at.Name {
		return r.invalid(r.at.Name, field.ErrorList{field.Invalid(meta.Child("name"), q.Name, "must match the service account name if specified")})
	}
	if q.Namespace != "" && q.Namespace != r.at.Namespace {
		return r.invalid(r.at.Name, field.ErrorList{field.Invalid(meta.Child("namespace"), q.Namespace, "must match the service account namespace if specified")})
	}
	obj, err := r.Get(ctx, r.at)
	if err != nil {
		return err
	}
	if uid := obj.GetUID(); q.UID != "" && q.UID != uid {
		of := registry.ObjectKey{Resource: schema.GroupResource{Group: tokenRequestGVK().Group, Resource: tokenRequestGVK().Kind}, Name: r.at.Name}
		return registry.Errorf(registry.ErrConflict, of, "the UID in the token request (%s) does not match the UID of the service account (%s)", q.UID, uid)
	}
	q.Name, q.Namespace, q.UID = r.at.Name, r.at.Namespace, obj.GetUID()
	if len(q.Spec.Audiences) == 0 {
		q.Spec.Audiences = slices.Clone(r.Audiences)
	}
	if q.Spec.ExpirationSeconds == nil {
		q.Spec.ExpirationSeconds = new(int64(defaultTokenSeconds))
	}
	q.CreationTimestamp = metav1.NewTime(r.now)
	r.claims = authn.Claims{
		ID: string(uuid.NewUUID()), Namespace: r.at.Namespace, ServiceAccount: refTo(obj),
		Audiences: q.Spec.Audiences, IssuedAt: r.now,
	}
	return nil
}

// bind finds the object to which the token is bound.
func (r *requesting) bind(ctx context.Context, ref *authenticationv1.BoundObjectReference) error {
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	at := registry.ObjectKey{Namespace: r.at.Namespace, Name: ref.Name}
	switch {
	case gvk.Group == "" && gvk.Kind == "Pod":
		at.Resource = corev1.Resource("pods")
	case gvk.Group == "" && gvk.Kind == "Secret":
		at.Resource = corev1.Resource("secrets")
	case gvk.Group == "" && gvk.Kind == "Node":
		at.Resource, at.Namespace = corev1.Resource("nodes"), ""
	case boundToWebhook(ref):
		return r.badRequest("cannot bind token to object of type %s (feature gate APIServerWebhookAuthenticationToken is disabled)", gvk)
	default:
		return r.badRequest("cannot bind token to object of type %s", gvk)
	}
	obj, err := r.Get(ctx, at)
	if err != nil {
		return err
	}
	bound := refTo(obj)
	switch obj := obj.(type) {
	case *corev1.Pod:
		if obj.Spec.ServiceAccountName != r.at.Name {
			return r.badRequest("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", r.at.Name)
		}
		r.claims.Pod, r.claims.Node = &bound, r.nodeOf(ctx, obj)
	case *corev1.Secret:
		r.claims.Secret = &bound
	case *corev1.Node:
		r.claims.Node = &bound
	}
	if ref.UID != "" && ref.UID != obj.GetUID() {
		of := registry.ObjectKey{Resource: schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, Name: ref.Name}
		return registry.Errorf(registry.ErrConflict, of,
			"the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID)
	}
	return nil
}

// nodeOf returns a pod's node, without a UID if the node does not exist.
func (r *requesting) nodeOf(ctx context.Context, pod *corev1.Pod) *authn.Ref {
	name := pod.Spec.NodeName
	if name == "" {
		return nil
	}
	node, err := r.Get(ctx, registry.ObjectKey{Resource: corev1.Resource("nodes"), Name: name})
	if err != nil {
		return &authn.Ref{Name: name}
	}
	return new(refTo(node))
}

// expire sets when the token expires, and returns after how many seconds its holder should be warned.
func (r *requesting) expire(ctx context.Context) int64 {
	asked := *r.request.Spec.ExpirationSeconds
	if most := int64(r.MaxExpiration / time.Second); most > 0 && asked > most {
		registry.Warn(ctx, fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds", asked, most))
		asked = most
		r.request.Spec.ExpirationSeconds = &asked
	}
	life := asked
	if !r.Strict && r.claims.Pod != nil && asked == extendableSeconds && r.forServer() {
		r.claims.WarnAfter = r.now.Add(seconds(asked))
		life = extendedSeconds
	}
	r.claims.Expires = r.now.Add(seconds(life))
	return asked
}

// forServer reports whether the token is for the server only.
func (r *requesting) forServer() bool {
	for _, audience := range r.request.Spec.Audiences {
		if !slices.Contains(r.Audiences, audience) {
			return false
		}
	}
	return true
}

func (r *requesting) invalid(name string, errs field.ErrorList) error {
	return &registry.Error{
		Err: registry.ErrInvalid, Resource: schema.GroupResource{Group: tokenRequestGVK().Group}, Kind: tokenRequestGVK().Kind, Name: name, Fields: errs,
	}
}

func (r *requesting) badRequest(format string, args ...any) error {
	return registry.Errorf(registry.ErrBadRequest, r.at, format, args...)
}

func refTo(obj registry.Object) authn.Ref {
	return authn.Ref{Name: obj.GetName(), UID: string(obj.GetUID())}
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }
