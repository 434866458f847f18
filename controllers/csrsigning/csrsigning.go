// Package csrsigning is upstream's certificatesigningrequest-signing-controller: it signs the approved requests of four
// signers with the cluster's authority: kubernetes.io/kube-apiserver-client, kubernetes.io/kube-apiserver-client-kubelet,
// kubernetes.io/kubelet-serving and kubernetes.io/legacy-unknown.
//
// A certificate has the subject and the names that were asked for and the usages of the request, and no other extensions. It
// begins five minutes before it is made and lasts as long as was asked for, at most a year and at most until the authority
// itself ends. A request that its signer does not sign gets the condition Failed.
//
// Reconcile returns an error for requests that cannot be read, and for failures of the authority and of requests to the
// server, which are retried. A Controller starts no goroutines and is safe for concurrent use if its authority is.
package csrsigning

import (
	"cmp"
	"context"
	"crypto"
	"crypto/x509"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/csr"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/signingrequest"
)

// legacyUnknown is the signer of requests whose purpose is not known, which v1 does not name any more.
const legacyUnknown = "kubernetes.io/legacy-unknown"

// Signers returns the names of the signers, in upstream's order.
func Signers() []string {
	return []string{
		certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName,
		certificatesv1.KubeAPIServerClientSignerName, legacyUnknown,
	}
}

// Authority is a certificate authority with its key. Implementations are safe for concurrent use.
type Authority interface {
	// NotAfter is when the authority's own certificate expires.
	NotAfter() time.Time
	// Sign returns the PEM of a certificate of a public key, made from the template except for its serial number.
	Sign(template *x509.Certificate, key crypto.PublicKey) ([]byte, error)
}

// Sources are what the controller reads.
type Sources struct {
	Requests *informer.Informer[*certificatesv1.CertificateSigningRequest]
}

// Options of a Controller. The zero value behaves as upstream.
type Options struct {
	// Life is how long certificates last at most, and if the request says nothing; 0 means a year.
	Life time.Duration
}

// Controller is the certificatesigningrequest-signing-controller. Make one with New.
type Controller struct {
	in        Sources
	client    client.Updater
	authority Authority
	life      time.Duration
}

var (
	_ controllers.Controller = (*Controller)(nil)
	_ controllers.Retrier    = (*Controller)(nil)
)

// New makes the controller. c updates the status of requests.
func New(in Sources, c client.Updater, authority Authority, o Options) *Controller {
	return &Controller{in: in, client: c, authority: authority, life: cmp.Or(o.Life, 365*24*time.Hour)}
}

// Name is "certificatesigningrequest-signing-controller".
func (*Controller) Name() string { return "certificatesigningrequest-signing-controller" }

// Retry implements controllers.Retrier with upstream's delays: 200 ms, doubled up to 1000 s.
func (*Controller) Retry() controllers.Retry { return csr.Retry() }

// Watch enqueues new and changed requests.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	return csr.Watch(q, c.in.Requests)
}

// Reconcile signs an approved request, or writes why not.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	r := csr.Open(c.in.Requests, key)
	if r == nil || !csr.Has(r, certificatesv1.CertificateApproved) || csr.Has(r, certificatesv1.CertificateDenied) || failed(r) {
		return controllers.Result{}, nil
	}
	refusal, ours := rule(r.Spec.SignerName)
	if !ours {
		return controllers.Result{}, nil
	}
	asked, err := signingrequest.Parse(r.Spec.Request)
	if err != nil {
		return controllers.Result{}, fmt.Errorf("unable to parse csr %q: %w", r.Name, err)
	}
	if reason := refusal(asked, r.Spec.Usages); reason != nil {
		return controllers.Result{}, c.fail(ctx, r, reason)
	}
	if r.Status.Certificate, err = c.sign(asked, &r.Spec); err != nil {
		return controllers.Result{}, fmt.Errorf("error auto signing csr: %w", err)
	}
	if err := csr.Write(ctx, c.client, r, "status"); err != nil {
		return controllers.Result{}, fmt.Errorf("error updating signature for csr: %w", err)
	}
	return controllers.Result{}, nil
}

// failed reports whether a signer has given a request up.
func failed(r *certificatesv1.CertificateSigningRequest) bool {
	for _, c := range r.Status.Conditions {
		if c.Type == certificatesv1.CertificateFailed && (c.Status == "" || c.Status == corev1.ConditionTrue) {
			return true
		}
	}
	return false
}

func (c *Controller) fail(ctx context.Context, r *certificatesv1.CertificateSigningRequest, reason error) error {
	r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue,
		Reason: "SignerValidationFailure", Message: reason.Error(), LastUpdateTime: metav1.Now(),
	})
	if err := csr.Write(ctx, c.client, r, "status"); err != nil {
		return fmt.Errorf("error adding failure condition for csr: %w", err)
	}
	return nil
}

// sign makes the certificate.
func (c *Controller) sign(asked *x509.CertificateRequest, spec *certificatesv1.CertificateSigningRequestSpec) ([]byte, error) {
	if err := asked.CheckSignature(); err != nil {
		return nil, fmt.Errorf("unable to verify certificate request signature: %w", err)
	}
	template, err := template(asked, spec.Usages)
	if err != nil {
		return nil, err
	}
	template.NotBefore, template.NotAfter, err = validity(time.Now(), lifeOf(spec.ExpirationSeconds, c.life), c.authority.NotAfter())
	if err != nil {
		return nil, err
	}
	return c.authority.Sign(template, asked.PublicKey)
}
