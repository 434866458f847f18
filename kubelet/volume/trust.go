package volume

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/client"
)

// TrustBundles reads cluster trust bundles. They are shared and only read.
type TrustBundles interface {
	// Named returns the bundle with a name, or none.
	Named(ctx context.Context, name string) ([]certificatesv1.ClusterTrustBundle, error)
	// Of returns all bundles of a signer.
	Of(ctx context.Context, signer string) ([]certificatesv1.ClusterTrustBundle, error)
}

// TrustBundlesOf returns TrustBundles that ask an API server each time.
func TrustBundlesOf(c client.Lister) TrustBundles { return serverTrust{c} }

type serverTrust struct{ client client.Lister }

func (s serverTrust) Named(ctx context.Context, name string) ([]certificatesv1.ClusterTrustBundle, error) {
	return s.list(ctx, "metadata.name", name)
}

func (s serverTrust) Of(ctx context.Context, signer string) ([]certificatesv1.ClusterTrustBundle, error) {
	return s.list(ctx, "spec.signerName", signer)
}

func (s serverTrust) list(ctx context.Context, field, value string) ([]certificatesv1.ClusterTrustBundle, error) {
	list, err := client.As[*certificatesv1.ClusterTrustBundleList](s.client.List(ctx, client.Target{
		Resource: certificatesv1.SchemeGroupVersion.WithResource("clustertrustbundles"),
	}, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(field, value).String()}))
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

var errNoTrust = errors.New("ClusterTrustBundle projection is not supported: there is no source of them")

// addTrust adds the trust anchors of one bundle, or of all bundles of a signer.
func (c *collector) addTrust(ctx context.Context, s *corev1.ClusterTrustBundleProjection) error {
	if c.v.in.Trust == nil {
		return errNoTrust
	}
	if s.Name == nil && s.SignerName == nil {
		return errors.New("ClusterTrustBundle projection requires either name or signerName to be set")
	}
	chosen, err := c.chooseBundles(ctx, s)
	if err != nil {
		return err
	}
	c.addPrivate(s.Path, anchors(chosen))
	return nil
}

// chooseBundles returns the bundle that the projection names, or those of its signer that have the labels.
func (c *collector) chooseBundles(ctx context.Context, s *corev1.ClusterTrustBundleProjection) ([]certificatesv1.ClusterTrustBundle, error) {
	if s.Name != nil {
		chosen, err := c.v.in.Trust.Named(ctx, *s.Name)
		if err == nil && len(chosen) == 0 && !isTrue(s.Optional) {
			err = fmt.Errorf("while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io %q not found", *s.Name)
		}
		return chosen, err
	}
	selector, err := metav1.LabelSelectorAsSelector(s.LabelSelector)
	if err != nil {
		return nil, fmt.Errorf("while parsing label selector: %w", err)
	}
	all, err := c.v.in.Trust.Of(ctx, *s.SignerName)
	if err != nil {
		return nil, err
	}
	var chosen []certificatesv1.ClusterTrustBundle
	for _, b := range all {
		if selector.Matches(labels.Set(b.Labels)) {
			chosen = append(chosen, b)
		}
	}
	if len(chosen) == 0 && !isTrue(s.Optional) {
		return nil, errors.New("combination of signerName and labelSelector matched zero ClusterTrustBundles")
	}
	return chosen, nil
}

// anchors returns the certificates of the bundles, each once, in an order that depends only on them.
func anchors(bundles []certificatesv1.ClusterTrustBundle) []byte {
	found := map[string]bool{}
	for _, b := range bundles {
		for block, rest := pem.Decode([]byte(b.Spec.TrustBundle)); block != nil; block, rest = pem.Decode(rest) {
			found[string(block.Bytes)] = true
		}
	}
	var out bytes.Buffer
	for _, der := range slices.Sorted(maps.Keys(found)) {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(der)}))
	}
	return out.Bytes()
}
