package controllermanager

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/controllers/bootstrapsigner"
	"github.com/keelson-dev/keelson/controllers/tokencleaner"
	"github.com/keelson-dev/keelson/lifecycle"
)

// BootstrapTokens returns the components of bootstrap tokens, with which nodes join: one signs what they learn of the cluster
// before they trust it, one deletes tokens that have expired. They are not among Components: upstream disables them by
// default, too. Package authn/bootstraptoken verifies the tokens.
func BootstrapTokens() []component.Component {
	return []component.Component{
		{Name: "bootstrap-signer-controller", Identity: account("bootstrap-signer"), Program: program, New: newBootstrapSigner},
		{Name: "token-cleaner-controller", Identity: account("token-cleaner"), Program: program, New: newTokenCleaner},
	}
}

func newBootstrapSigner(p *component.Parts) (lifecycle.Runnable, error) {
	in := bootstrapsigner.Sources{
		ConfigMaps: component.Informer[*corev1.ConfigMap](p.Informers, corev1.SchemeGroupVersion.WithResource("configmaps")),
		Secrets:    component.Informer[*corev1.Secret](p.Informers, corev1.SchemeGroupVersion.WithResource("secrets")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(bootstrapsigner.New(in, p.Client)), nil
}

func newTokenCleaner(p *component.Parts) (lifecycle.Runnable, error) {
	in := tokencleaner.Sources{Secrets: component.Informer[*corev1.Secret](p.Informers, corev1.SchemeGroupVersion.WithResource("secrets"))}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	return p.Loop(tokencleaner.New(in, p.Client)), nil
}
