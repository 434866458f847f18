package legacyserviceaccounttokencleaner

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
)

// The ConfigMap that says since when the use of tokens is tracked, and its key.
const (
	tracking    = "kube-apiserver-legacy-service-account-token-tracking"
	trackingKey = "since"
)

// Sources are what the controller reads.
type Sources struct {
	Accounts *informer.Informer[*corev1.ServiceAccount]
	Secrets  *informer.Informer[*corev1.Secret]
	Pods     *informer.Informer[*corev1.Pod]
}

// Client is what the controller needs of the server, as the service account legacy-service-account-token-cleaner: to read the
// ConfigMap, to label secrets and to delete them.
type Client interface {
	client.Getter
	client.Patcher
	client.Deleter
}

// Options of a Controller. The zero value behaves as upstream.
type Options struct {
	// Period is how long a token must be unused, before it is marked and again before it is deleted; 0 is a year.
	Period time.Duration
	// Interval is the time between two rounds; 0 is a day.
	Interval time.Duration
	// Logger logs what fails; nil discards.
	Logger *slog.Logger
}

// Controller is the legacy-serviceaccount-token-cleaner-controller. Make one with New.
type Controller struct {
	in      Sources
	client  Client
	options Options
	log     *slog.Logger
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller.
func New(in Sources, c Client, o Options) *Controller {
	o.Period = cmp.Or(o.Period, 365*24*time.Hour)
	o.Interval = cmp.Or(o.Interval, 24*time.Hour)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Controller{in: in, client: c, options: o, log: o.Logger}
}

// Name is "legacy-serviceaccount-token-cleaner-controller".
func (*Controller) Name() string { return "legacy-serviceaccount-token-cleaner-controller" }

// Watch enqueues the controller's only key; each round schedules the next.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	q.Add(controllers.Key{Name: "(round)"})
	return []controllers.Synced{c.in.Accounts, c.in.Secrets, c.in.Pods}
}

// Reconcile runs one round.
func (c *Controller) Reconcile(ctx context.Context, _ controllers.Key) (controllers.Result, error) {
	next := controllers.Result{RequeueAfter: c.options.Interval}
	now := time.Now().UTC()
	since, err := c.trackedSince(ctx)
	if err != nil {
		c.log.Warn("cannot tell since when the use of tokens is tracked", "error", err)
		return next, nil
	}
	if now.Before(since.Add(c.options.Period)) {
		return next, nil
	}
	w := world{before: now.Add(-c.options.Period), account: c.in.Accounts.Get, mounted: c.mounted}
	for _, secret := range c.in.Secrets.List("") {
		var err error
		switch w.judge(secret) {
		case mark:
			err = c.mark(ctx, secret, now)
		case remove:
			err = c.delete(ctx, secret)
		}
		if err != nil {
			c.log.Warn("cannot clean a token that is not used", "secret", controllers.KeyOf(secret).String(), "error", err)
		}
	}
	return next, nil
}

// trackedSince returns the day after the one that the ConfigMap names.
func (c *Controller) trackedSince(ctx context.Context) (time.Time, error) {
	obj, err := c.client.Get(ctx, client.Target{
		Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace: metav1.NamespaceSystem, Name: tracking,
	})
	if err != nil {
		return time.Time{}, err
	}
	config, ok := obj.(*corev1.ConfigMap)
	if !ok {
		return time.Time{}, fmt.Errorf("the server answered with a %T", obj)
	}
	since, err := time.Parse(time.DateOnly, config.Data[trackingKey])
	return since.AddDate(0, 0, 1), err
}

// mounted reports whether a pod uses a secret.
func (c *Controller) mounted(namespace, name string) bool {
	return slices.ContainsFunc(c.in.Pods.List(namespace), func(pod *corev1.Pod) bool { return uses(pod, name) })
}

func at(secret *corev1.Secret) client.Target {
	return client.Target{Resource: corev1.SchemeGroupVersion.WithResource("secrets"), Namespace: secret.Namespace, Name: secret.Name}
}

func (c *Controller) mark(ctx context.Context, secret *corev1.Secret, now time.Time) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": secret.UID, "labels": map[string]string{invalidSince: now.Format(time.DateOnly)},
	}})
	if err != nil {
		return err
	}
	_, err = c.client.Patch(ctx, at(secret), client.Patch{Type: types.MergePatchType, Data: data}, metav1.PatchOptions{})
	return err
}

func (c *Controller) delete(ctx context.Context, secret *corev1.Secret) error {
	err := c.client.Delete(ctx, at(secret), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &secret.ResourceVersion}})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
