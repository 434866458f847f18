// Package csrcleaner is upstream's certificatesigningrequest-cleaner-controller: it deletes CertificateSigningRequests that
// nobody needs any more.
//
// Every hour it deletes those that were denied, or failed, or were approved and signed, more than an hour ago; those that
// nobody has decided on, or that were approved but not signed, for more than a day; and those whose certificate has expired.
//
// A Controller runs in a controllers.Loop and has a single key. A request that cannot be deleted is logged and tried again
// in the next round.
package csrcleaner

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/csr"
	"github.com/keelson-dev/keelson/informer"
)

const (
	// period is the time between two rounds.
	period = time.Hour
	// decidedAge is how long requests are kept that are done with.
	decidedAge = time.Hour
	// pendingAge is how long requests are kept for which something should still happen.
	pendingAge = 24 * time.Hour
)

// Sources are what the controller reads.
type Sources struct {
	Requests *informer.Informer[*certificatesv1.CertificateSigningRequest]
}

// Options of a Controller. The zero value behaves as upstream.
type Options struct {
	// Logger logs failed requests; nil discards.
	Logger *slog.Logger
}

// Controller is the certificatesigningrequest-cleaner-controller. Make one with New.
type Controller struct {
	in     Sources
	client client.Deleter
	log    *slog.Logger
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller.
func New(in Sources, c client.Deleter, o Options) *Controller {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Controller{in: in, client: c, log: o.Logger}
}

// Name is "certificatesigningrequest-cleaner-controller".
func (*Controller) Name() string { return "certificatesigningrequest-cleaner-controller" }

// Watch enqueues the controller's only key; each round schedules the next.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	q.Add(controllers.Key{Name: "(round)"})
	return []controllers.Synced{c.in.Requests}
}

// Reconcile runs one round.
func (c *Controller) Reconcile(ctx context.Context, _ controllers.Key) (controllers.Result, error) {
	now := time.Now()
	for _, r := range c.in.Requests.List("") {
		if ctx.Err() != nil || !done(r, now) {
			continue
		}
		if err := c.client.Delete(ctx, client.Target{Resource: csr.Resource(), Name: r.Name}, metav1.DeleteOptions{}); err != nil {
			c.log.Warn("deleting a request failed", "request", r.Name, "error", err)
		}
	}
	return controllers.Result{RequeueAfter: period}, nil
}

// done reports whether a request can be deleted.
func done(r *certificatesv1.CertificateSigningRequest, now time.Time) bool {
	older := func(t metav1.Time, age time.Duration) bool { return !t.IsZero() && now.Sub(t.Time) > age }
	if len(r.Status.Conditions) == 0 && older(r.CreationTimestamp, pendingAge) {
		return true
	}
	issued := len(r.Status.Certificate) > 0
	for _, c := range r.Status.Conditions {
		switch c.Type {
		case certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			if older(c.LastUpdateTime, decidedAge) {
				return true
			}
		case certificatesv1.CertificateApproved:
			if issued && (older(c.LastUpdateTime, decidedAge) || expired(r.Status.Certificate, now)) ||
				!issued && older(c.LastUpdateTime, pendingAge) {
				return true
			}
		}
	}
	return false
}

// expired reports whether the first certificate of some PEM has ended.
func expired(data []byte, now time.Time) bool {
	block, _ := pem.Decode(data)
	if block == nil {
		return false
	}
	all, err := x509.ParseCertificates(block.Bytes)
	return err == nil && len(all) > 0 && now.After(all[0].NotAfter)
}
