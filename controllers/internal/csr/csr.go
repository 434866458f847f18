// Package csr has what the controllers of CertificateSigningRequests share.
package csr

import (
	"context"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
)

// Requests are the cache of all requests.
type Requests = *informer.Informer[*certificatesv1.CertificateSigningRequest]

// Resource is the resource of requests.
func Resource() schema.GroupVersionResource {
	return certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests")
}

// Watch enqueues new and changed requests.
func Watch(q controllers.Queue, in Requests) []controllers.Synced {
	in.AddHandler(informer.Handler[*certificatesv1.CertificateSigningRequest]{
		Added:   func(r *certificatesv1.CertificateSigningRequest) { q.Add(controllers.KeyOf(r)) },
		Updated: func(_, r *certificatesv1.CertificateSigningRequest) { q.Add(controllers.KeyOf(r)) },
	})
	return []controllers.Synced{in}
}

// Retry has upstream's delays between attempts.
func Retry() controllers.Retry {
	return controllers.Retry{First: 200 * time.Millisecond, Max: 1000 * time.Second}
}

// Open returns a copy of a request that has no certificate yet, or nil.
func Open(in Requests, key controllers.Key) *certificatesv1.CertificateSigningRequest {
	r, ok := in.Get("", key.Name)
	if !ok || len(r.Status.Certificate) > 0 {
		return nil
	}
	return r.DeepCopy()
}

// Has reports whether a request has a condition of a type.
func Has(r *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType) bool {
	for _, c := range r.Status.Conditions {
		if c.Type == kind {
			return true
		}
	}
	return false
}

// Write replaces a subresource of a request.
func Write(ctx context.Context, c client.Updater, r *certificatesv1.CertificateSigningRequest, subresource string) error {
	_, err := c.Update(ctx, client.Target{Resource: Resource(), Name: r.Name, Subresource: subresource}, r, metav1.UpdateOptions{})
	return err
}
