package direct_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz/alwaysallow"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/authorization"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/direct"
)

// issuer makes tokens of what they claim.
type issuer struct{}

func (issuer) Issue(_ context.Context, c authn.Claims) (string, error) {
	return c.Expires.Sub(c.IssuedAt).String(), nil
}

// well are components that are all well, worked out when they are read.
type well struct{}

func (well) Get(_ context.Context, _, name string) (registry.Object, error) {
	if name != "one" {
		return nil, nil
	}
	return &corev1.ComponentStatus{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}

func (w well) List(ctx context.Context, namespace string) ([]registry.Object, error) {
	one, err := w.Get(ctx, namespace, "one")
	return []registry.Object{one}, err
}

// sorts are kinds of each sort: stored, in two versions too, worked out, and answered.
func sorts() []registry.Kind {
	all := core.Kinds(core.Options{Tokens: core.Tokens{Issuer: issuer{}}})
	all = append(all, kinds()[len(core.Kinds(core.Options{})):]...)
	all = append(all, authorization.Kinds(alwaysallow.New(), nil)...)
	for i := range all {
		switch all[i].Plural {
		case "componentstatuses":
			all[i].Read = well{}
		case "configmaps":
			all[i].Sub.Actions = map[string]registry.Action{"say": {
				GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Secret"),
				New:              func() runtime.Object { return &corev1.Secret{} },
				Default: func(body runtime.Object) {
					if asked := body.(*corev1.Secret); asked.Type == "" {
						asked.Type = corev1.SecretTypeOpaque
					}
				},
				Run: say,
			}}
		}
	}
	return all
}

// say answers a secret with what its type asks for.
func say(_ context.Context, _ registry.Access, at registry.ObjectKey, body runtime.Object, dryRun bool) (runtime.Object, error) {
	switch asked := body.(*corev1.Secret); {
	case asked.Type == "status":
		return &metav1.Status{Status: metav1.StatusSuccess, Message: at.Namespace + "/" + at.Name}, nil
	case asked.Type == "code":
		return &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusAccepted}, nil
	case asked.Type == "error":
		return nil, &registry.Error{Err: registry.ErrForbidden, Resource: at.Resource, Name: at.Name, Message: "no"}
	case dryRun:
		return &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: meta1("dry")}, nil
	default:
		return asked, nil
	}
}

// at is a target of a resource of the core group, in the namespace "a" if there is one.
func at(plural, name, subresource string) client.Target {
	t := client.Target{Resource: resource(corev1.SchemeGroupVersion, plural), Namespace: "a", Name: name, Subresource: subresource}
	if plural == "namespaces" || plural == "nodes" || plural == "componentstatuses" {
		t.Namespace = ""
	}
	return t
}

func of(gv schema.GroupVersion, t client.Target) client.Target {
	t.Resource = resource(gv, t.Resource.Resource)
	return t
}

func in(namespace string, t client.Target) client.Target {
	t.Namespace = namespace
	return t
}

func get(t client.Target) call {
	return func(ctx context.Context, c client.Client) (runtime.Object, error) { return c.Get(ctx, t) }
}

func list(t client.Target, o metav1.ListOptions) call {
	return func(ctx context.Context, c client.Client) (runtime.Object, error) { return c.List(ctx, t, o) }
}

func create(t client.Target, obj runtime.Object) call {
	return func(ctx context.Context, c client.Client) (runtime.Object, error) {
		return c.Create(ctx, t, obj, metav1.CreateOptions{})
	}
}

func createDry(t client.Target, obj runtime.Object, dryRun string) call {
	return func(ctx context.Context, c client.Client) (runtime.Object, error) {
		return c.Create(ctx, t, obj, metav1.CreateOptions{DryRun: []string{dryRun}})
	}
}

func update(t client.Target, obj runtime.Object) call {
	return func(ctx context.Context, c client.Client) (runtime.Object, error) {
		return c.Update(ctx, t, obj, metav1.UpdateOptions{})
	}
}

func patch(t client.Target, form types.PatchType, data string) call {
	return func(ctx context.Context, c client.Client) (runtime.Object, error) {
		return c.Patch(ctx, t, client.Patch{Type: form, Data: []byte(data)}, metav1.PatchOptions{})
	}
}

func remove(t client.Target) call {
	return func(ctx context.Context, c client.Client) (runtime.Object, error) {
		return nil, c.Delete(ctx, t, metav1.DeleteOptions{})
	}
}

// requested is a request and the code that it is answered with, 0 for success.
type requested struct {
	what string
	code int32
	do   call
}

func meta1(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// known makes what the requests are about.
func known() []requested {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	var all []requested
	for _, name := range []string{"one", "two", "three"} {
		all = append(all, requested{"make a config map", 0, create(at("configmaps", "", ""), &corev1.ConfigMap{ObjectMeta: meta1(name)})})
	}
	return append(all,
		requested{"make a deployment", 0, create(of(appsv1.SchemeGroupVersion, at("deployments", "", "")),
			&appsv1.Deployment{ObjectMeta: meta1("one"), Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}})},
		requested{"make an account", 0, create(at("serviceaccounts", "", ""), &corev1.ServiceAccount{ObjectMeta: meta1("one")})},
		requested{"make a pod", 0, create(at("pods", "", ""), &corev1.Pod{ObjectMeta: meta1("one"), Spec: template.Spec})},
	)
}

// objects are requests about objects that are stored.
func objects() []requested {
	yesterday := metav1.NewTime(time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC))
	configs, pods := at("configmaps", "", ""), at("pods", "", "")
	return []requested{
		{"a page", 0, list(configs, metav1.ListOptions{Limit: 1})},
		{"a watch", 0, list(configs, metav1.ListOptions{AllowWatchBookmarks: true})},
		{"what no client can set", 0, create(configs, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: "free", UID: "mine", CreationTimestamp: yesterday, DeletionTimestamp: &yesterday, DeletionGracePeriodSeconds: new(int64(5)), Finalizers: []string{"example.com/keep"},
		}})},
		{"a body that says what it is", 0, create(configs, &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: meta1("typed")})},
		{"a name that counts for nothing", 0, create(at("configmaps", "other", ""), &corev1.ConfigMap{ObjectMeta: meta1("named")})},
		{"a create in all namespaces", 405, create(in("", configs), &corev1.ConfigMap{ObjectMeta: meta1("one")})},
		{"no node with a namespace", 404, create(in("a", at("nodes", "", "")), &corev1.Node{ObjectMeta: meta1("one")})},
		{"a patch of the namespace", 400, patch(at("configmaps", "one", ""), types.MergePatchType, `{"metadata":{"namespace":"b"}}`)},
		{"a patch of the scale's namespace", 400, patch(of(appsv1.SchemeGroupVersion, at("deployments", "one", "scale")), types.MergePatchType, `{"metadata":{"namespace":"b"}}`)},
		{"a patch of the scale's name", 400, patch(of(appsv1.SchemeGroupVersion, at("deployments", "one", "scale")), types.MergePatchType, `{"metadata":{"name":"two"}}`)},
		{"a patch of the scale", 0, patch(of(appsv1.SchemeGroupVersion, at("deployments", "one", "scale")), types.MergePatchType, `{"spec":{"replicas":3}}`)},
		{"a delete of a subresource that is there", 405, remove(at("pods", "one", "status"))},
		{"a delete of one that is not", 404, remove(at("pods", "one", "nothing"))},
		{"a delete in no namespace", 404, remove(in("", at("configmaps", "one", "")))},
		{"a delete of all in all namespaces", 405, remove(in("", configs))},
		{"a delete of all namespaces", 405, remove(at("namespaces", "", ""))},
		{"a delete of all", 0, remove(configs)},
		{"what is left", 0, list(configs, metav1.ListOptions{})},
		{"the pods", 0, list(pods, metav1.ListOptions{FieldSelector: "spec.nodeName="})},
	}
}

// versions are requests about objects in another version than the stored one.
func versions() []requested {
	events := of(eventsv1.SchemeGroupVersion, at("events", "", ""))
	one, stored := events, at("events", "one", "")
	one.Name = "one"
	event := &eventsv1.Event{
		ObjectMeta: meta1("one"), EventTime: metav1.NewMicroTime(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), ReportingController: "example.com/c", ReportingInstance: "c-1",
		Action: "Acting", Reason: "Because", Type: "Normal", Note: "well", Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: "a", Name: "p"},
	}
	late := event.DeepCopy()
	late.Name = "late"
	return []requested{
		{"a create", 0, create(events, event)},
		{"a create that breaks the version's rules", 422, create(events, &eventsv1.Event{ObjectMeta: meta1("two")})},
		{"a get", 0, get(one)},
		{"a get as stored", 0, get(stored)},
		{"a list", 0, list(events, metav1.ListOptions{FieldSelector: "regarding.name=p"})},
		{"a list by a field of the stored version", 400, list(events, metav1.ListOptions{FieldSelector: "involvedObject.name=p"})},
		{"a merge patch", 0, patch(one, types.MergePatchType, `{"metadata":{"labels":{"a":"b"}}}`)},
		{"a patch that says what it is", 0, patch(one, types.MergePatchType, `{"kind":"Event","apiVersion":"events.k8s.io/v1"}`)},
		{"a strategic patch", 0, patch(one, types.StrategicMergePatchType, `{"metadata":{"labels":{"c":"d"}}}`)},
		{"a patch that breaks the version's rules", 422, patch(one, types.MergePatchType, `{"note":"bad"}`)},
		{"a patch of what is not there", 404, patch(of(eventsv1.SchemeGroupVersion, at("events", "none", "")), types.MergePatchType, `{}`)},
		{"an update that creates", 0, update(of(eventsv1.SchemeGroupVersion, at("events", "late", "")), late)},
		{"a get of the created", 0, get(at("events", "late", ""))},
		{"a delete", 0, remove(one)},
	}
}

// unstored are requests about kinds that are worked out or answered.
func unstored() []requested {
	component, components := at("componentstatuses", "one", ""), at("componentstatuses", "", "")
	status := &corev1.ComponentStatus{ObjectMeta: meta1("one")}
	review := in("", of(authorizationv1.SchemeGroupVersion, at("subjectaccessreviews", "", "")))
	local := of(authorizationv1.SchemeGroupVersion, at("localsubjectaccessreviews", "", ""))
	named := review
	named.Name = "one"
	asked := authorizationv1.SubjectAccessReviewSpec{User: "u", ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "a", Verb: "get", Resource: "pods"}}
	strange := &authorizationv1.SubjectAccessReview{TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"}, Spec: asked}
	filled := &authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{UID: "mine"}, Spec: asked}
	return []requested{
		{"a get of what is worked out", 0, get(component)},
		{"a get of what is not", 404, get(at("componentstatuses", "two", ""))},
		{"a list of it", 0, list(components, metav1.ListOptions{})},
		{"a create of it", 405, create(components, status)},
		{"an update of it", 405, update(component, status)},
		{"a patch of it", 405, patch(component, types.MergePatchType, `{}`)},
		{"a delete of it", 405, remove(component)},
		{"a delete of all of it", 405, remove(components)},
		{"a review", 0, create(review, &authorizationv1.SubjectAccessReview{Spec: asked})},
		{"a review that says what it is", 0, create(review, strange)},
		{"a review that is refused", 422, create(review, &authorizationv1.SubjectAccessReview{})},
		{"a review in a namespace", 0, create(local, &authorizationv1.LocalSubjectAccessReview{Spec: asked})},
		{"a review with what no client can set", 0, create(local, filled)},
		{"a review of another namespace", 400, create(local, &authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: "b"}, Spec: asked})},
		{"a review in no namespace", 404, create(in("", local), &authorizationv1.LocalSubjectAccessReview{Spec: asked})},
		{"a review that is no good dry run", 422, createDry(review, &authorizationv1.SubjectAccessReview{Spec: asked}, "Some")},
		{"a get of a review", 404, get(named)},
		{"an update of a review", 404, update(named, strange)},
		{"a list of reviews", 405, list(review, metav1.ListOptions{})},
		{"a delete of a review", 404, remove(named)},
		{"a delete of reviews", 405, remove(review)},
		{"a delete of reviews in a namespace", 405, remove(local)},
		{"a delete of such reviews in all", 404, remove(in("", local))},
		{"a list of reviews in a namespace", 405, list(local, metav1.ListOptions{})},
		{"a list of such reviews in all", 404, list(in("", local), metav1.ListOptions{})},
		{"a subresource of a review", 404, create(of(authorizationv1.SchemeGroupVersion, at("localsubjectaccessreviews", "one", "status")), filled)},
		{"a delete of a subresource of a review", 404, remove(of(authorizationv1.SchemeGroupVersion, at("localsubjectaccessreviews", "one", "status")))},
	}
}

// acts are requests to subresources that act.
func acts() []requested {
	account, say := at("serviceaccounts", "one", "token"), at("configmaps", "one", "say")
	return []requested{
		{"a token", 0, create(account, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"x"}}})},
		{"a token of nobody", 404, create(at("serviceaccounts", "two", "token"), &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"x"}}})},
		{"another namespace", 400, create(account, &authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "b"}})},
		{"no namespace", 404, create(in("", account), &authenticationv1.TokenRequest{})},
		{"bad options", 422, createDry(say, &corev1.Secret{}, "Some")},
		{"an object", 0, create(say, &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: meta1("x")})},
		{"another object", 0, createDry(say, &corev1.Secret{}, "All")},
		{"a status", 0, create(say, &corev1.Secret{Type: "status"})},
		{"a refusal", 403, create(say, &corev1.Secret{Type: "error"})},
		{"no such subresource", 404, create(at("configmaps", "one", "sing"), &corev1.Secret{})},
		{"one that does not act", 405, create(at("pods", "one", "status"), &corev1.Pod{ObjectMeta: meta1("one")})},
	}
}

// TestRequests: requests of each sort are answered as over the wire.
func TestRequests(t *testing.T) {
	for of, requests := range map[string][]requested{"objects": objects(), "versions": versions(), "unstored": unstored(), "acts": acts()} {
		t.Run(of, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := direct.New(run(t, sorts()), direct.Options{}), overWire(t, run(t, sorts()))
				for _, r := range slices.Concat(known(), requests) {
					got, gotErr := r.do(t.Context(), near)
					want, wantErr := r.do(t.Context(), far)
					if code := codeOf(gotErr); code != r.code {
						t.Errorf("%s: code %d: %v", r.what, code, gotErr)
					}
					if a, b := saidError(gotErr), saidError(wantErr); a != b {
						t.Errorf("%s: directly\n %s\nover the wire\n %s", r.what, a, b)
					}
					if a, b := said(t, got), said(t, want); a != b {
						t.Errorf("%s: directly\n %s\nover the wire\n %s", r.what, a, b)
					}
				}
			})
		})
	}
}

func codeOf(err error) int32 {
	if err == nil {
		return 0
	}
	if s, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return s.ErrStatus.Code
	}
	return -1
}
