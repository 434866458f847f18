package component

import (
	"context"
	"crypto"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Cluster is what components know about the cluster besides its objects.
type Cluster struct {
	// Resources returns the resources that the API server stores, one for each kind, without subresources. Components
	// call it again whenever they need the current list. If the error is Undiscovered, the list is right except for the
	// versions of groups that the error names.
	Resources func(ctx context.Context) ([]Resource, error)
	// Changed returns a channel that is closed when Resources next returns something else. nil means that it does not.
	Changed func() <-chan struct{}
	// RootCA is the PEM of the authority with which pods verify the API server; empty if there is none.
	RootCA []byte
	// Signer is the authority that signs certificates of users and kubelets, with its key; nil if there is none.
	Signer Signer
	// AccountToken returns a token of a service account for a secret in its namespace, which has that name, as such secrets
	// have it: without an expiry. nil means that secrets get no tokens.
	AccountToken func(account *corev1.ServiceAccount, secret string) (string, error)
}

// Signer is a certificate authority with its key. Implementations are safe for concurrent use.
type Signer interface {
	// NotAfter is when the authority's own certificate expires.
	NotAfter() time.Time
	// Sign returns the PEM of a certificate of a public key, made from the template except for its serial number.
	Sign(template *x509.Certificate, key crypto.PublicKey) ([]byte, error)
}

// Resource is a resource that the API server stores.
type Resource struct {
	schema.GroupVersionResource
	Kind       string // such as "Deployment"
	Namespaced bool   // whether its objects live in namespaces
	// Scalable is set if it has the subresource scale.
	Scalable bool
	// Delegated is set if its objects may be those of another server, which the API server only forwards to: it may
	// never answer.
	Delegated bool
}

// GroupVersionKind returns the kind of its objects.
func (r Resource) GroupVersionKind() schema.GroupVersionKind {
	return r.GroupVersion().WithKind(r.Kind)
}

// Undiscovered is the error of Cluster.Resources if it is not known what is served in some versions of groups. The values
// say why.
type Undiscovered map[schema.GroupVersion]error

// Error returns upstream's text.
func (u Undiscovered) Error() string {
	all := make([]string, 0, len(u))
	for gv, err := range u {
		all = append(all, fmt.Sprintf("%s: %v", gv, err))
	}
	slices.Sort(all)
	return fmt.Sprintf("Discovery failed for some groups, %d failing: unable to retrieve the complete list of server APIs: %s",
		len(u), strings.Join(all, ", "))
}
