package serviceaccounttoken

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
)

// Sources are what the controller reads.
type Sources struct {
	Accounts *informer.Informer[*corev1.ServiceAccount]
	Secrets  *informer.Informer[*corev1.Secret]
}

// Client is what the controller needs of the server, as the user system:kube-controller-manager.
type Client interface {
	client.Getter
	client.Updater
	client.Deleter
}

// Issue returns a token of an account for the secret of a name, in the namespace of the account.
type Issue func(account *corev1.ServiceAccount, secret string) (string, error)

// Options of a Controller; the zero value is valid.
type Options struct {
	// RootCA is the PEM with which clients verify the API server. If it is empty, secrets get none.
	RootCA []byte
}

// Controller is the serviceaccount-token-controller. Make one with New.
type Controller struct {
	in     Sources
	client Client
	issue  Issue
	rootCA []byte

	mu   sync.Mutex // guards gone
	gone map[controllers.Key]account
}

// account is what a secret says of its account.
type account struct {
	name string
	uid  types.UID // empty if it says only the name
}

var _ controllers.Controller = (*Controller)(nil)

// byAccount is the index of secrets by namespace and name of their account.
const byAccount = "service-account"

// New makes the controller. It adds an index to the informer of secrets, which must not run yet.
func New(in Sources, c Client, issue Issue, o Options) *Controller {
	in.Secrets.AddIndex(byAccount, func(s *corev1.Secret) []string {
		if s.Type != corev1.SecretTypeServiceAccountToken {
			return nil
		}
		return []string{s.Namespace + "/" + accountOf(s).name}
	})
	return &Controller{in: in, client: c, issue: issue, rootCA: o.RootCA, gone: map[controllers.Key]account{}}
}

func accountOf(s *corev1.Secret) account {
	return account{s.Annotations[corev1.ServiceAccountNameKey], types.UID(s.Annotations[corev1.ServiceAccountUIDKey])}
}

// Name is "serviceaccount-token-controller".
func (*Controller) Name() string { return "serviceaccount-token-controller" }

// Watch enqueues secrets with tokens when they change, or their account goes.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	changed := func(s *corev1.Secret) {
		if s.Type == corev1.SecretTypeServiceAccountToken {
			q.Add(controllers.KeyOf(s))
		}
	}
	c.in.Secrets.AddHandler(informer.Handler[*corev1.Secret]{
		Added: changed, Updated: func(_, now *corev1.Secret) { changed(now) },
		Deleted: func(s *corev1.Secret) {
			if s.Type == corev1.SecretTypeServiceAccountToken {
				c.mu.Lock()
				c.gone[controllers.KeyOf(s)] = accountOf(s)
				c.mu.Unlock()
				q.Add(controllers.KeyOf(s))
			}
		},
	})
	c.in.Accounts.AddHandler(informer.Handler[*corev1.ServiceAccount]{Deleted: func(a *corev1.ServiceAccount) {
		for _, s := range c.in.Secrets.ByIndex(byAccount, a.Namespace+"/"+a.Name) {
			if uid := accountOf(s).uid; uid == "" || uid == a.UID {
				q.Add(controllers.KeyOf(s))
			}
		}
	}})
	return []controllers.Synced{c.in.Accounts, c.in.Secrets}
}

// Reconcile fills a secret, or deletes it, or ends the references to it.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	secret, ok := c.in.Secrets.Get(key.Namespace, key.Name)
	if !ok || secret.Type != corev1.SecretTypeServiceAccountToken {
		return controllers.Result{}, c.dropReference(ctx, key)
	}
	of := accountOf(secret)
	if of.name == "" {
		return controllers.Result{}, nil
	}
	a, err := c.account(ctx, key.Namespace, of)
	switch {
	case err != nil:
		return controllers.Result{}, fmt.Errorf("account of secret %s: %w", key, err)
	case a == nil:
		if err = c.delete(ctx, secret); err != nil {
			return controllers.Result{}, fmt.Errorf("delete secret %s: %w", key, err)
		}
	default:
		if err = c.fill(ctx, a, secret); err != nil {
			return controllers.Result{}, fmt.Errorf("fill secret %s: %w", key, err)
		}
	}
	return controllers.Result{}, nil
}

func at(resource, namespace, name string) client.Target {
	return client.Target{Resource: corev1.SchemeGroupVersion.WithResource(resource), Namespace: namespace, Name: name}
}

// cached returns an account that the cache shows, or nil.
func (c *Controller) cached(namespace string, of account) *corev1.ServiceAccount {
	if a, ok := c.in.Accounts.Get(namespace, of.name); ok && (of.uid == "" || of.uid == a.UID) {
		return a
	}
	return nil
}

// account returns an account, or nil if it does not exist. The cache may not show it yet.
func (c *Controller) account(ctx context.Context, namespace string, of account) (*corev1.ServiceAccount, error) {
	if a := c.cached(namespace, of); a != nil {
		return a, nil
	}
	obj, err := c.client.Get(ctx, at("serviceaccounts", namespace, of.name))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	a, ok := obj.(*corev1.ServiceAccount)
	switch {
	case !ok:
		return nil, fmt.Errorf("the server answered with a %T", obj)
	case of.uid != "" && of.uid != a.UID:
		return nil, nil
	}
	return a, nil
}

func (c *Controller) delete(ctx context.Context, secret *corev1.Secret) error {
	err := c.client.Delete(ctx, at("secrets", secret.Namespace, secret.Name), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &secret.UID}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // another deleted it, or made another
	}
	return err
}

// lacks reports what a secret lacks.
func (c *Controller) lacks(s *corev1.Secret) (ca, namespace, token bool) {
	return len(c.rootCA) > 0 && !bytes.Equal(s.Data[corev1.ServiceAccountRootCAKey], c.rootCA),
		len(s.Data[corev1.ServiceAccountNamespaceKey]) == 0, len(s.Data[corev1.ServiceAccountTokenKey]) == 0
}

// fill writes to a secret what it lacks.
func (c *Controller) fill(ctx context.Context, a *corev1.ServiceAccount, cached *corev1.Secret) error {
	if ca, namespace, token := c.lacks(cached); !ca && !namespace && !token {
		return nil
	}
	obj, err := c.client.Get(ctx, at("secrets", cached.Namespace, cached.Name))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	live, ok := obj.(*corev1.Secret)
	if !ok {
		return fmt.Errorf("the server answered with a %T", obj)
	}
	if live.ResourceVersion != cached.ResourceVersion {
		return nil // its next state will come
	}
	secret := live.DeepCopy()
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	ca, namespace, token := c.lacks(secret)
	if ca {
		secret.Data[corev1.ServiceAccountRootCAKey] = c.rootCA
	}
	if namespace {
		secret.Data[corev1.ServiceAccountNamespaceKey] = []byte(secret.Namespace)
	}
	if token {
		issued, err := c.issue(a, secret.Name)
		if err != nil {
			return err
		}
		secret.Data[corev1.ServiceAccountTokenKey] = []byte(issued)
	}
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, corev1.ServiceAccountNameKey, a.Name)
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, corev1.ServiceAccountUIDKey, string(a.UID))
	if _, err = c.client.Update(ctx, at("secrets", secret.Namespace, secret.Name), secret, metav1.UpdateOptions{}); apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // its next state will come, if it has one
	}
	return err
}

// dropReference removes the name of a secret that is gone from its account.
func (c *Controller) dropReference(ctx context.Context, key controllers.Key) error {
	c.mu.Lock()
	of := c.gone[key] // of no account if it is not there
	c.mu.Unlock()
	if c.cached(key.Namespace, of) != nil {
		if err := c.removeFrom(ctx, key, of); err != nil {
			return fmt.Errorf("remove the reference to secret %s: %w", key, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.gone, key)
	return nil
}

func (c *Controller) removeFrom(ctx context.Context, key controllers.Key, of account) error {
	obj, err := c.client.Get(ctx, at("serviceaccounts", key.Namespace, of.name))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	live, ok := obj.(*corev1.ServiceAccount)
	if !ok {
		return fmt.Errorf("the server answered with a %T", obj)
	}
	refers := func(r corev1.ObjectReference) bool { return r.Name == key.Name }
	if of.uid != "" && of.uid != live.UID || !slices.ContainsFunc(live.Secrets, refers) {
		return nil
	}
	a := live.DeepCopy()
	a.Secrets = slices.DeleteFunc(a.Secrets, refers)
	if _, err = c.client.Update(ctx, at("serviceaccounts", key.Namespace, of.name), a, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
