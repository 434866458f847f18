// Package csrapproving is upstream's certificatesigningrequest-approving-controller: it approves requests for the client
// certificates of kubelets, those of the signer kubernetes.io/kube-apiserver-client-kubelet.
//
// A request is approved if its maker may create certificatesigningrequests/selfnodeclient, for a certificate in the maker's
// own name, or certificatesigningrequests/nodeclient; the API server decides that in a SubjectAccessReview. Other requests
// are left to people and other approvers.
//
// Reconcile returns an error for a recognized request whose maker has neither permission, which is therefore looked at again
// with increasing delays, for one that cannot be read, and for failed requests to the server. A Controller starts no
// goroutines and is safe for concurrent use.
package csrapproving

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/csr"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/signingrequest"
)

// ErrRefused means that a kubelet's request was recognized, but its maker may not have it approved.
var ErrRefused = errors.New("subject access review was not approved")

// Sources are what the controller reads.
type Sources struct {
	Requests *informer.Informer[*certificatesv1.CertificateSigningRequest]
}

// Client is what the controller needs of the server: to create SubjectAccessReviews and to update approvals.
type Client interface {
	client.Creator
	client.Updater
}

// Controller is the certificatesigningrequest-approving-controller. Make one with New.
type Controller struct {
	in     Sources
	client Client
}

var (
	_ controllers.Controller = (*Controller)(nil)
	_ controllers.Retrier    = (*Controller)(nil)
)

// New makes the controller.
func New(in Sources, c Client) *Controller { return &Controller{in: in, client: c} }

// Name is "certificatesigningrequest-approving-controller".
func (*Controller) Name() string { return "certificatesigningrequest-approving-controller" }

// Retry implements controllers.Retrier with upstream's delays: 200 ms, doubled up to 1000 s.
func (*Controller) Retry() controllers.Retry { return csr.Retry() }

// Watch enqueues new and changed requests.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	return csr.Watch(q, c.in.Requests)
}

// permission lets its holders have requests approved.
type permission struct {
	subresource, message string
}

// permissions returns those that a request can be approved by, in the order in which they are tried.
func permissions(r *certificatesv1.CertificateSigningRequest, asked *x509.CertificateRequest) []permission {
	if r.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName || signingrequest.KubeletClient(asked, r.Spec.Usages) != nil {
		return nil
	}
	everyone := permission{"nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."}
	if r.Spec.Username != asked.Subject.CommonName {
		return []permission{everyone}
	}
	return []permission{{"selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."}, everyone}
}

// Reconcile approves a request that nobody has decided on.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	r := csr.Open(c.in.Requests, key)
	if r == nil || csr.Has(r, certificatesv1.CertificateApproved) || csr.Has(r, certificatesv1.CertificateDenied) {
		return controllers.Result{}, nil
	}
	asked, err := signingrequest.Parse(r.Spec.Request)
	if err != nil {
		return controllers.Result{}, fmt.Errorf("unable to parse csr %q: %w", r.Name, err)
	}
	var tried []string
	for _, p := range permissions(r, asked) {
		tried = append(tried, p.subresource)
		switch allowed, err := c.allowed(ctx, r, p.subresource); {
		case err != nil:
			return controllers.Result{}, err
		case allowed:
			return controllers.Result{}, c.approve(ctx, r, p.message)
		}
	}
	if len(tried) > 0 {
		return controllers.Result{}, fmt.Errorf("recognized csr %q as %v but %w", r.Name, tried, ErrRefused)
	}
	return controllers.Result{}, nil
}

// allowed asks the server whether the maker of a request may create a subresource.
func (c *Controller) allowed(ctx context.Context, r *certificatesv1.CertificateSigningRequest, subresource string) (bool, error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(r.Spec.Extra))
	for key, values := range r.Spec.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review, err := client.As[*authorizationv1.SubjectAccessReview](c.client.Create(ctx,
		client.Target{Resource: authorizationv1.SchemeGroupVersion.WithResource("subjectaccessreviews")},
		&authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: r.Spec.Username, UID: r.Spec.UID, Groups: r.Spec.Groups, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: certificatesv1.GroupName, Version: "*", Resource: "certificatesigningrequests", Subresource: subresource, Verb: "create",
			},
		}}, metav1.CreateOptions{}))
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

func (c *Controller) approve(ctx context.Context, r *certificatesv1.CertificateSigningRequest, message string) error {
	r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "AutoApproved", Message: message,
	})
	if err := csr.Write(ctx, c.client, r, "approval"); err != nil {
		return fmt.Errorf("error updating approval for csr: %w", err)
	}
	return nil
}
