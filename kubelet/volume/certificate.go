package volume

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/kubelet/volume/podcertificates"
)

var errNoCertificates = errors.New("podCertificate projections are not supported: there is no source of them")

// addCertificate adds a certificate of the pod with its key, in one file or two.
func (c *collector) addCertificate(ctx context.Context, key tokenKey, s *corev1.PodCertificateProjection) error {
	if c.v.in.Certificates == nil {
		return errNoCertificates
	}
	b, err := c.v.in.Certificates.Certificate(ctx, podcertificates.Request{Pod: c.pod, Volume: key.volume, Source: key.source, Projection: s})
	if err != nil {
		return err
	}
	c.state.certificates[key] = b.Next
	for path, data := range map[string][]byte{
		s.CredentialBundlePath: slices.Concat(b.Key, b.Chain), s.KeyPath: b.Key, s.CertificateChainPath: b.Chain,
	} {
		if path != "" {
			c.addPrivate(path, data)
		}
	}
	return nil
}

// refreshes are the times at which a pod's tokens and certificates have to be looked at again.
func (p *podState) refreshes() []time.Time {
	var all []time.Time
	for _, t := range p.tokens {
		all = append(all, t.refresh)
	}
	for _, at := range p.certificates {
		all = append(all, at)
	}
	return all
}
