package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/registry"
)

func serviceAccounts(o Options) registry.Kind {
	return registry.Definition[*corev1.ServiceAccount]{
		Names: registry.Names{
			Kind: "ServiceAccount", Plural: "serviceaccounts", Singular: "serviceaccount", Short: []string{"sa"},
		},
		GroupVersion: corev1.SchemeGroupVersion,
		Namespaced:   true,
		New:          func() *corev1.ServiceAccount { return &corev1.ServiceAccount{} },
		NewList:      func() runtime.Object { return &corev1.ServiceAccountList{} },
		Rules: registry.Rules[*corev1.ServiceAccount]{
			PrepareCreate: func(_ context.Context, account *corev1.ServiceAccount) { keepSecretNames(account) },
			PrepareUpdate: func(_ context.Context, account, _ *corev1.ServiceAccount) { keepSecretNames(account) },
			Deletion:      registry.Deletion[*corev1.ServiceAccount]{ReturnsObject: true},
		},
		Sub:     registry.Subresources[*corev1.ServiceAccount]{Actions: tokenActions(o.Tokens)},
		Columns: serviceAccountColumns(),
	}.Kind()
}

// keepSecretNames drops everything from the references to secrets except the names.
func keepSecretNames(account *corev1.ServiceAccount) {
	for i, secret := range account.Secrets {
		account.Secrets[i] = corev1.ObjectReference{Name: secret.Name}
	}
}
