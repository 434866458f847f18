package controllermanager

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/controllers/legacyserviceaccounttokencleaner"
	"github.com/keelson-dev/keelson/controllers/serviceaccounttoken"
	"github.com/keelson-dev/keelson/lifecycle"
)

func newServiceAccountToken(p *component.Parts) (lifecycle.Runnable, error) {
	if p.Cluster.AccountToken == nil {
		return idle(), nil // as upstream's without a key
	}
	in := serviceaccounttoken.Sources{
		Accounts: component.Informer[*corev1.ServiceAccount](p.Informers, corev1.SchemeGroupVersion.WithResource("serviceaccounts")),
		Secrets:  component.Informer[*corev1.Secret](p.Informers, corev1.SchemeGroupVersion.WithResource("secrets")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(serviceaccounttoken.New(in, p.Client, p.Cluster.AccountToken, serviceaccounttoken.Options{RootCA: p.Cluster.RootCA})), nil
}

func newLegacyTokenCleaner(p *component.Parts) (lifecycle.Runnable, error) {
	in := legacyserviceaccounttokencleaner.Sources{
		Accounts: component.Informer[*corev1.ServiceAccount](p.Informers, corev1.SchemeGroupVersion.WithResource("serviceaccounts")),
		Secrets:  component.Informer[*corev1.Secret](p.Informers, corev1.SchemeGroupVersion.WithResource("secrets")),
		Pods:     component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(legacyserviceaccounttokencleaner.New(in, p.Client, legacyserviceaccounttokencleaner.Options{Logger: p.Logger})), nil
}
