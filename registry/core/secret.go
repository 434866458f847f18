package core

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

func secrets() registry.Kind {
	return registry.Definition[*corev1.Secret]{
		Names:        registry.Names{Kind: "Secret", Plural: "secrets", Singular: "secret"},
		GroupVersion: corev1.SchemeGroupVersion,
		Namespaced:   true,
		New:          func() *corev1.Secret { return &corev1.Secret{} },
		NewList:      func() runtime.Object { return &corev1.SecretList{} },
		Rules: registry.Rules[*corev1.Secret]{
			Default: defaultSecret,
			PrepareUpdate: func(_ context.Context, secret, old *corev1.Secret) {
				if secret.Type == "" {
					secret.Type = old.Type
				}
			},
			Validate:       validateSecret,
			ValidateUpdate: validateSecretUpdate,
		},
		Fields:  func(secret *corev1.Secret) fields.Set { return fields.Set{"type": string(secret.Type)} },
		Columns: secretColumns(),
	}.Kind()
}

// defaultSecret also moves stringData, which is never stored, to data.
func defaultSecret(secret *corev1.Secret) {
	if secret.Type == "" {
		secret.Type = corev1.SecretTypeOpaque
	}
	if len(secret.StringData) > 0 && secret.Data == nil {
		secret.Data = make(map[string][]byte, len(secret.StringData))
	}
	for key, value := range secret.StringData {
		secret.Data[key] = []byte(value)
	}
	secret.StringData = nil
}

func validateSecret(secret *corev1.Secret) field.ErrorList {
	path := field.NewPath("data")
	var errs field.ErrorList
	size := 0
	for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
		errs = append(errs, check.Messages(path.Key(key), key, validation.IsConfigMapKey(key))...)
		size += len(secret.Data[key])
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(path, "", corev1.MaxSecretSize))
	}
	return append(errs, validateSecretType(secret, path)...)
}

// validateSecretType requires the data that a secret of its type must have.
func validateSecretType(secret *corev1.Secret, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	require := func(key string) {
		if _, has := secret.Data[key]; !has {
			errs = append(errs, field.Required(path.Key(key), ""))
		}
	}
	switch secret.Type {
	case corev1.SecretTypeServiceAccountToken:
		if secret.Annotations[corev1.ServiceAccountNameKey] == "" {
			errs = append(errs, field.Required(field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey), ""))
		}
	case corev1.SecretTypeDockercfg:
		errs = validateJSONKey(secret, corev1.DockerConfigKey, path)
	case corev1.SecretTypeDockerConfigJson:
		errs = validateJSONKey(secret, corev1.DockerConfigJsonKey, path)
	case corev1.SecretTypeBasicAuth: // either suffices
		_, user := secret.Data[corev1.BasicAuthUsernameKey]
		_, password := secret.Data[corev1.BasicAuthPasswordKey]
		if !user && !password {
			require(corev1.BasicAuthUsernameKey)
			require(corev1.BasicAuthPasswordKey)
		}
	case corev1.SecretTypeSSHAuth:
		if len(secret.Data[corev1.SSHAuthPrivateKey]) == 0 {
			errs = append(errs, field.Required(path.Key(corev1.SSHAuthPrivateKey), ""))
		}
	case corev1.SecretTypeTLS:
		require(corev1.TLSCertKey)
		require(corev1.TLSPrivateKeyKey)
	}
	return errs
}

func validateJSONKey(secret *corev1.Secret, key string, path *field.Path) field.ErrorList {
	data, has := secret.Data[key]
	if !has {
		return field.ErrorList{field.Required(path.Key(key), "")}
	}
	if err := json.Unmarshal(data, &map[string]any{}); err != nil {
		return field.ErrorList{field.Invalid(path.Key(key), "<secret contents redacted>", err.Error())}
	}
	return nil
}

func validateSecretUpdate(secret, old *corev1.Secret) field.ErrorList {
	errs := check.Immutable(field.NewPath("type"), secret.Type, old.Type)
	if old.Immutable != nil && *old.Immutable {
		errs = append(errs, validateFrozen(secret.Immutable, !equality.Semantic.DeepEqual(secret.Data, old.Data), false)...)
	}
	return append(errs, validateSecret(secret)...)
}
