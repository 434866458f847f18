// Package bootstrapsigner is upstream's bootstrap-signer-controller: it signs what nodes learn of a cluster before they trust
// it.
//
// The ConfigMap cluster-info in kube-public holds a kubeconfig that everybody can read. For every bootstrap token that is for
// signing the controller adds a signature (a detached JWS, by HMAC) by which who has the token can tell that the kubeconfig is
// genuine; those of tokens that are gone or have expired it removes.
//
// Reconcile returns failed writes, which are retried; conflicts are resolved when the newer state is in the cache. A
// Controller starts no goroutines and is safe for concurrent use.
package bootstrapsigner

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/bootstraptoken"
)

// The ConfigMap, and its keys.
const (
	Namespace     = metav1.NamespacePublic
	ConfigMapName = "cluster-info"
	KubeConfigKey = "kubeconfig"
	// SignaturePrefix and a token's ID are the key of its signature.
	SignaturePrefix = "jws-kubeconfig-"
)

// Sources are what the controller reads.
type Sources struct {
	ConfigMaps *informer.Informer[*corev1.ConfigMap]
	Secrets    *informer.Informer[*corev1.Secret]
}

// Controller is the bootstrap-signer-controller. Make one with New.
type Controller struct {
	in     Sources
	client client.Updater
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller. c updates the ConfigMap.
func New(in Sources, c client.Updater) *Controller { return &Controller{in: in, client: c} }

// Name is "bootstrap-signer-controller".
func (*Controller) Name() string { return "bootstrap-signer-controller" }

// Watch enqueues the ConfigMap when it or a token changes.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	key := controllers.Key{Namespace: Namespace, Name: ConfigMapName}
	info := func(cm *corev1.ConfigMap) {
		if controllers.KeyOf(cm) == key {
			q.Add(key)
		}
	}
	token := func(s *corev1.Secret) {
		if bootstraptoken.Is(s) {
			q.Add(key)
		}
	}
	c.in.ConfigMaps.AddHandler(informer.Handler[*corev1.ConfigMap]{
		Added: info, Updated: func(_, cm *corev1.ConfigMap) { info(cm) },
	})
	c.in.Secrets.AddHandler(informer.Handler[*corev1.Secret]{
		Added: token, Updated: func(_, s *corev1.Secret) { token(s) }, Deleted: token,
	})
	return []controllers.Synced{c.in.ConfigMaps, c.in.Secrets}
}

// Reconcile writes the signatures of all tokens into the ConfigMap, if there is one.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	cm, ok := c.in.ConfigMaps.Get(key.Namespace, key.Name)
	if !ok {
		return controllers.Result{}, nil
	}
	content, ok := cm.Data[KubeConfigKey]
	if !ok {
		return controllers.Result{}, nil
	}
	data := maps.Clone(cm.Data)
	maps.DeleteFunc(data, func(key, _ string) bool { return strings.HasPrefix(key, SignaturePrefix) })
	now := time.Now()
	for _, s := range c.in.Secrets.List("kube-system") {
		if !bootstraptoken.Is(s) {
			continue
		}
		if id, secret, ok := bootstraptoken.Read(s, bootstraptoken.Signing, now); ok {
			data[SignaturePrefix+id] = Sign(content, id, secret)
		}
	}
	if maps.Equal(data, cm.Data) {
		return controllers.Result{}, nil
	}
	cm = cm.DeepCopy()
	cm.Data = data
	at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace: cm.Namespace, Name: cm.Name}
	_, err := c.client.Update(ctx, at, cm, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		err = nil // the newer state comes
	}
	return controllers.Result{}, err
}

// Sign returns the signature of some content by a token: a JWS in compact form without the content.
func Sign(content, id, secret string) string {
	header, err := json.Marshal(struct {
		Algorithm string `json:"alg"`
		Key       string `json:"kid"`
	}{"HS256", id})
	if err != nil {
		return "" // strings are always encoded
	}
	encode := base64.RawURLEncoding.EncodeToString
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(encode(header) + "." + encode([]byte(content))))
	return encode(header) + ".." + encode(mac.Sum(nil))
}
