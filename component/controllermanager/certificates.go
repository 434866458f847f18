package controllermanager

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/controllers/clustertrustbundlepublisher"
	"github.com/keelson-dev/keelson/controllers/csrapproving"
	"github.com/keelson-dev/keelson/controllers/csrcleaner"
	"github.com/keelson-dev/keelson/controllers/csrsigning"
	"github.com/keelson-dev/keelson/controllers/podcertificaterequestcleaner"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// signingRequests returns the cache that three controllers share.
func signingRequests(p *component.Parts) (*informer.Informer[*certificatesv1.CertificateSigningRequest], error) {
	in := component.Informer[*certificatesv1.CertificateSigningRequest](p.Informers, certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests"))
	return in, p.Informers.Err()
}

// idle is a component for which a cluster has no use: it runs, and does nothing.
func idle() lifecycle.Runnable {
	return lifecycle.Func(func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
}

func newCSRSigning(p *component.Parts) (lifecycle.Runnable, error) {
	if p.Cluster.Signer == nil {
		return idle(), nil // as upstream's without the files of an authority
	}
	in, err := signingRequests(p)
	if err != nil {
		return nil, err
	}
	return p.Loop(csrsigning.New(csrsigning.Sources{Requests: in}, p.Client, p.Cluster.Signer, csrsigning.Options{})), nil
}

func newCSRApproving(p *component.Parts) (lifecycle.Runnable, error) {
	in, err := signingRequests(p)
	if err != nil {
		return nil, err
	}
	return p.Loop(csrapproving.New(csrapproving.Sources{Requests: in}, p.Client)), nil
}

func newCSRCleaner(p *component.Parts) (lifecycle.Runnable, error) {
	in, err := signingRequests(p)
	if err != nil {
		return nil, err
	}
	return p.Loop(csrcleaner.New(csrcleaner.Sources{Requests: in}, p.Client, csrcleaner.Options{Logger: p.Logger})), nil
}

func newPodCertificateRequestCleaner(p *component.Parts) (lifecycle.Runnable, error) {
	in := podcertificaterequestcleaner.Sources{Requests: component.Informer[*certificatesv1.PodCertificateRequest](
		p.Informers, certificatesv1.SchemeGroupVersion.WithResource("podcertificaterequests"))}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(podcertificaterequestcleaner.New(in, p.Client, podcertificaterequestcleaner.Options{Logger: p.Logger})), nil
}

func newClusterTrustBundlePublisher(p *component.Parts) (lifecycle.Runnable, error) {
	if len(p.Cluster.RootCA) == 0 {
		return idle(), nil // as upstream's
	}
	in := clustertrustbundlepublisher.Sources{Bundles: component.Informer[*certificatesv1.ClusterTrustBundle](
		p.Informers, certificatesv1.SchemeGroupVersion.WithResource("clustertrustbundles"))}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(clustertrustbundlepublisher.New(in, p.Client, p.Cluster.RootCA)), nil
}
