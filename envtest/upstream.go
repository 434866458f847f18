package envtest

import (
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Types of controller-runtime's package, for suites that name them.
type (
	// User is who to add to an Environment.
	User = envtest.User
	// ControlPlane adds users.
	ControlPlane = envtest.ControlPlane
	// CRDInstallOptions say which CustomResourceDefinitions to install.
	CRDInstallOptions = envtest.CRDInstallOptions
	// WebhookInstallOptions say which webhooks to install, and where the suite serves them.
	WebhookInstallOptions = envtest.WebhookInstallOptions
)

// InstallCRDs is controller-runtime's: it creates the definitions that the options name and waits until they are served.
func InstallCRDs(config *rest.Config, options CRDInstallOptions) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return envtest.InstallCRDs(config, options)
}

// UninstallCRDs is controller-runtime's: it deletes the definitions that the options name.
func UninstallCRDs(config *rest.Config, options CRDInstallOptions) error {
	return envtest.UninstallCRDs(config, options)
}

// CreateCRDs is controller-runtime's: it creates or updates definitions.
func CreateCRDs(config *rest.Config, crds []*apiextensionsv1.CustomResourceDefinition) error {
	return envtest.CreateCRDs(config, crds)
}

// WaitForCRDs is controller-runtime's: it waits until discovery shows the definitions' resources.
func WaitForCRDs(config *rest.Config, crds []*apiextensionsv1.CustomResourceDefinition, options CRDInstallOptions) error {
	return envtest.WaitForCRDs(config, crds, options)
}

// ReadCRDFiles is controller-runtime's: it reads the definitions in the paths of the options into the options.
func ReadCRDFiles(options *CRDInstallOptions) error { return envtest.ReadCRDFiles(options) }

// WaitForWebhooks is controller-runtime's: it waits until the webhooks' configurations can be read.
func WaitForWebhooks(config *rest.Config, mutating []*admissionv1.MutatingWebhookConfiguration,
	validating []*admissionv1.ValidatingWebhookConfiguration, options WebhookInstallOptions,
) error {
	return envtest.WaitForWebhooks(config, mutating, validating, options)
}
