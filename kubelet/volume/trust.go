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
	"k8s.io/apimachinery/pkg/labels"
)

// TrustBundles reads cluster trust bundles.
type TrustBundles interface {
	// TrustBundles returns all bundles. They are shared and only read.
	TrustBundles(ctx context.Context) ([]*certificatesv1.ClusterTrustBundle, error)
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
	all, err := c.v.in.Trust.TrustBundles(ctx)
	if err != nil {
		return err
	}
	chosen, err := chooseBundles(all, s)
	if err != nil {
		return err
	}
	c.addPrivate(s.Path, anchors(chosen))
	return nil
}

func chooseBundles(all []*certificatesv1.ClusterTrustBundle, s *corev1.ClusterTrustBundleProjection) ([]*certificatesv1.ClusterTrustBundle, error) {
	selector := labels.Everything()
	if s.Name == nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(s.LabelSelector); err != nil {
			return nil, fmt.Errorf("while parsing label selector: %w", err)
		}
	}
	var chosen []*certificatesv1.ClusterTrustBundle
	for _, b := range all {
		if s.Name != nil && b.Name == *s.Name || s.Name == nil && b.Spec.SignerName == *s.SignerName && selector.Matches(labels.Set(b.Labels)) {
			chosen = append(chosen, b)
		}
	}
	if len(chosen) == 0 && !isTrue(s.Optional) {
		if s.Name != nil {
			return nil, fmt.Errorf("while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io %q not found", *s.Name)
		}
		return nil, errors.New("combination of signerName and labelSelector matched zero ClusterTrustBundles")
	}
	return chosen, nil
}

// anchors returns the certificates of the bundles, each once, in an order that depends only on them.
func anchors(bundles []*certificatesv1.ClusterTrustBundle) []byte {
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
