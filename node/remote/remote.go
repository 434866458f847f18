package remote

import (
	"context"
	"fmt"
	"log/slog"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/authn/token"
	tokenreview "github.com/keelson-dev/keelson/authn/webhook"
	accessreview "github.com/keelson-dev/keelson/authz/webhook"
	"github.com/keelson-dev/keelson/client"
	clientrest "github.com/keelson-dev/keelson/client/rest"
	"github.com/keelson-dev/keelson/events/publish"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/wire"
	"github.com/keelson-dev/keelson/kubelet/objects"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/node"
)

// Options of New. The zero value is ready to use.
type Options struct {
	// Logger logs failing watches and events; nil discards.
	Logger *slog.Logger
}

// New makes the parts of the named node in the cluster of config, and the Runnable that keeps them up to date beside
// the node. The API server authenticates and authorizes the clients of the node's server. The scheme must know the Go
// types of the API; requests use protobuf unless the config says otherwise. New makes no requests.
func New(config *rest.Config, scheme *runtime.Scheme, name string, o Options) (node.Parts, lifecycle.Runnable, error) {
	r := &reader{config: rest.CopyConfig(config), scheme: scheme, log: o.Logger}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.config.ContentType == "" {
		r.config.ContentType = runtime.ContentTypeProtobuf
		r.config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	api, err := clientrest.New(r.config, scheme)
	if err != nil {
		return node.Parts{}, nil, err
	}
	tokens := review[*authenticationv1.TokenReview](api, authenticationv1.SchemeGroupVersion, "tokenreviews")
	access := review[*authorizationv1.SubjectAccessReview](api, authorizationv1.SchemeGroupVersion, "subjectaccessreviews")
	recorder := publish.New(api, publish.Options{Component: "kubelet", Host: name, Logger: r.log})
	p := node.Parts{
		Name: name, Client: api, Recorder: recorder,
		Watches:       objects.Watches{ConfigMap: single[*corev1.ConfigMap](r, "configmaps"), Secret: single[*corev1.Secret](r, "secrets")},
		Authenticator: token.New(tokenreview.New(tokenreview.ReviewerFunc(tokens), tokenreview.Options{})),
		Authorizer:    accessreview.New(accessreview.ReviewerFunc(access), accessreview.Options{}),
	}
	if p.Pods, err = watched[*corev1.Pod](r, "pods", "spec.nodeName="+name); err != nil {
		return node.Parts{}, nil, err
	}
	if p.Node, err = watched[*corev1.Node](r, "nodes", "metadata.name="+name); err != nil {
		return node.Parts{}, nil, err
	}
	if p.Services, err = watched[*corev1.Service](r, "services", ""); err != nil {
		return node.Parts{}, nil, err
	}
	return p, lifecycle.Group(p.Pods, p.Node, p.Services, recorder), nil
}

// reader is how a cluster is read.
type reader struct {
	config *rest.Config
	scheme *runtime.Scheme
	log    *slog.Logger
}

func watched[T informer.Object](r *reader, resource, selector string) (*informer.Informer[T], error) {
	source, err := wire.New[T](r.config, r.scheme, corev1.SchemeGroupVersion.WithResource(resource), wire.Options{FieldSelector: selector})
	if err != nil {
		return nil, err
	}
	return informer.New(source, informer.Options{Logger: r.log}), nil
}

// single makes sources of one object: a node may read the configmaps and secrets of its pods only by name.
func single[T informer.Object](r *reader, resource string) func(namespace, name string) (informer.Source[T], error) {
	return func(namespace, name string) (informer.Source[T], error) {
		return wire.New[T](r.config, r.scheme, corev1.SchemeGroupVersion.WithResource(resource), wire.Options{
			Namespace: namespace, FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(),
		})
	}
}

// review creates a review at the API server.
func review[T runtime.Object](api client.Creator, group schema.GroupVersion, resource string) func(context.Context, T) (T, error) {
	return func(ctx context.Context, question T) (answer T, err error) {
		obj, err := api.Create(ctx, client.Target{Resource: group.WithResource(resource)}, question, metav1.CreateOptions{})
		if err != nil {
			return answer, err
		}
		answer, ok := obj.(T)
		if !ok {
			return answer, fmt.Errorf("a %T for a %T", obj, question)
		}
		return answer, nil
	}
}
