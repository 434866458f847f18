// Package rootca is upstream's root-ca-certificate-publisher-controller: it keeps a ConfigMap kube-root-ca.crt in every
// active namespace, with the certificate authority by which pods verify the API server, and restores it when it is
// changed.
//
// Reconcile returns failed writes, which are retried. A Controller starts no goroutines and is safe for concurrent use
// by the workers of a Loop.
package rootca

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
)

// Upstream's name of the ConfigMap, and the annotation that describes it.
const (
	ConfigMapName         = "kube-root-ca.crt"
	DescriptionAnnotation = "kubernetes.io/description"
	Description           = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. " +
		"No other usage is guaranteed across distributions of Kubernetes clusters."
)

// Sources are what the controller reads.
type Sources struct {
	Namespaces *informer.Informer[*corev1.Namespace]
	ConfigMaps *informer.Informer[*corev1.ConfigMap]
}

// Client is what the controller needs of the server.
type Client interface {
	client.Creator
	client.Updater
}

// Controller is the root-ca-certificate-publisher-controller. Make one with New.
type Controller struct {
	in     Sources
	client Client
	data   map[string]string
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller. bundle is the certificate authority in PEM.
func New(in Sources, c Client, bundle []byte) *Controller {
	return &Controller{in: in, client: c, data: map[string]string{"ca.crt": string(bundle)}}
}

// Name is "root-ca-certificate-publisher-controller".
func (*Controller) Name() string { return "root-ca-certificate-publisher-controller" }

// Watch enqueues new and changed namespaces, and those whose ConfigMap changes.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	published := func(cm *corev1.ConfigMap) {
		if cm.Name == ConfigMapName {
			q.Add(controllers.Key{Name: cm.Namespace})
		}
	}
	c.in.ConfigMaps.AddHandler(informer.Handler[*corev1.ConfigMap]{
		Updated: func(_, cm *corev1.ConfigMap) { published(cm) },
		Deleted: published,
	})
	c.in.Namespaces.AddHandler(informer.Handler[*corev1.Namespace]{
		Added: func(ns *corev1.Namespace) { q.Add(controllers.Key{Name: ns.Name}) },
		Updated: func(_, ns *corev1.Namespace) {
			if ns.Status.Phase == corev1.NamespaceActive {
				q.Add(controllers.Key{Name: ns.Name})
			}
		},
	})
	return []controllers.Synced{c.in.Namespaces, c.in.ConfigMaps}
}

// Reconcile creates or restores the ConfigMap.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace: key.Name}
	cm, ok := c.in.ConfigMaps.Get(key.Name, ConfigMapName)
	if !ok {
		_, err := c.client.Create(ctx, at, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: key.Name, Name: ConfigMapName, Annotations: map[string]string{DescriptionAnnotation: Description},
			},
			Data: maps.Clone(c.data),
		}, metav1.CreateOptions{})
		if apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			err = nil // not needed there
		}
		return controllers.Result{}, err
	}
	if maps.Equal(cm.Data, c.data) && cm.Annotations[DescriptionAnnotation] != "" {
		return controllers.Result{}, nil
	}
	cm = cm.DeepCopy()
	cm.Data = maps.Clone(c.data)
	metav1.SetMetaDataAnnotation(&cm.ObjectMeta, DescriptionAnnotation, Description)
	at.Name = ConfigMapName
	_, err := c.client.Update(ctx, at, cm, metav1.UpdateOptions{})
	return controllers.Result{}, err
}
