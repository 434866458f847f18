// Package clustertrustbundlepublisher is upstream's kube-apiserver-serving-clustertrustbundle-publisher-controller: it keeps
// one ClusterTrustBundle of the signer kubernetes.io/kube-apiserver-serving, with the certificate authority by which clients
// verify the API server, and deletes others of that signer.
//
// Reconcile returns failed writes, which are retried. A Controller starts no goroutines and is safe for concurrent use.
package clustertrustbundlepublisher

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
)

// SignerName is the signer of the API server's certificates.
const SignerName = "kubernetes.io/kube-apiserver-serving"

// Sources are what the controller reads.
type Sources struct {
	Bundles *informer.Informer[*certificatesv1.ClusterTrustBundle]
}

// Client is what the controller needs of the server.
type Client interface {
	client.Creator
	client.Updater
	client.Deleter
}

// Controller is the kube-apiserver-serving-clustertrustbundle-publisher-controller. Make one with New.
type Controller struct {
	in     Sources
	client Client
	bundle string
	name   string
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller. bundle is the certificate authority in PEM.
func New(in Sources, c Client, bundle []byte) *Controller {
	return &Controller{in: in, client: c, bundle: string(bundle), name: BundleName(bundle)}
}

// BundleName is the name of the ClusterTrustBundle with that content.
func BundleName(bundle []byte) string {
	sum := sha256.Sum256(bundle)
	return fmt.Sprintf("%s:%x", strings.ReplaceAll(SignerName, "/", ":"), sum[:12])
}

// Name is "kube-apiserver-serving-clustertrustbundle-publisher-controller".
func (*Controller) Name() string {
	return "kube-apiserver-serving-clustertrustbundle-publisher-controller"
}

// Watch enqueues the controller's only key, at the start and whenever a bundle of the signer changes.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	key := controllers.Key{Name: c.name}
	changed := func(b *certificatesv1.ClusterTrustBundle) {
		if b.Spec.SignerName == SignerName {
			q.Add(key)
		}
	}
	c.in.Bundles.AddHandler(informer.Handler[*certificatesv1.ClusterTrustBundle]{
		Added:   changed,
		Updated: func(_, b *certificatesv1.ClusterTrustBundle) { changed(b) },
		Deleted: changed,
	})
	q.Add(key)
	return []controllers.Synced{c.in.Bundles}
}

// Reconcile creates or restores the bundle, and deletes others.
func (c *Controller) Reconcile(ctx context.Context, _ controllers.Key) (controllers.Result, error) {
	if err := c.publish(ctx); err != nil {
		return controllers.Result{}, err
	}
	var failures []error
	for _, b := range c.in.Bundles.List("") {
		if b.Spec.SignerName != SignerName || b.Name == c.name {
			continue
		}
		if err := c.client.Delete(ctx, at(b.Name), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			failures = append(failures, fmt.Errorf("deleting %s: %w", b.Name, err))
		}
	}
	return controllers.Result{}, errors.Join(failures...)
}

func (c *Controller) publish(ctx context.Context) error {
	b, ok := c.in.Bundles.Get("", c.name)
	if !ok {
		_, err := c.client.Create(ctx, at(""), &certificatesv1.ClusterTrustBundle{
			ObjectMeta: metav1.ObjectMeta{Name: c.name},
			Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: SignerName, TrustBundle: c.bundle},
		}, metav1.CreateOptions{})
		return err
	}
	if b.Spec.TrustBundle == c.bundle {
		return nil
	}
	b = b.DeepCopy()
	b.Spec.TrustBundle = c.bundle
	_, err := c.client.Update(ctx, at(c.name), b, metav1.UpdateOptions{})
	return err
}

func at(name string) client.Target {
	return client.Target{Resource: certificatesv1.SchemeGroupVersion.WithResource("clustertrustbundles"), Name: name}
}
