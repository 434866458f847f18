package admissionregistration

import (
	"context"
	"reflect"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
)

// Options are the options of the kinds. The zero value is valid.
type Options struct {
	// Compile returns what is wrong with the expression of a match condition, which is in CEL, has the variables
	// of admission requests and must be a bool. The client reads the error's text. stored tells that the
	// object has had the expression before: a server accepts what it or a newer one has accepted, even if it
	// does not yet accept it in new objects. Without Compile, new match conditions are refused.
	Compile func(expression string, stored bool) error
}

// Kinds returns the kinds of the group in discovery order.
func Kinds(o Options) []registry.Kind {
	return []registry.Kind{mutating(o), validating(o)}
}

func mutating(o Options) registry.Kind {
	type configuration = *admissionv1.MutatingWebhookConfiguration
	of := func(c configuration) []hook { return hooksOf(c.Webhooks, hookOfMutating) }
	return registry.Definition[configuration]{
		Names: registry.Names{
			Kind: "MutatingWebhookConfiguration", Plural: "mutatingwebhookconfigurations", Singular: "mutatingwebhookconfiguration",
			Categories: []string{"api-extensions"},
		},
		GroupVersion: admissionv1.SchemeGroupVersion,
		Older:        olderMutating(),
		New:          func() configuration { return &admissionv1.MutatingWebhookConfiguration{} },
		NewList:      func() runtime.Object { return &admissionv1.MutatingWebhookConfigurationList{} },
		Rules: rules(o, of, func(c configuration) {
			for i := range c.Webhooks {
				defaultMutating(&c.Webhooks[i])
			}
		}, func(c, old configuration) bool { return reflect.DeepEqual(c.Webhooks, old.Webhooks) }),
		Columns: columns(func(c configuration) int { return len(c.Webhooks) }),
	}.Kind()
}

func validating(o Options) registry.Kind {
	type configuration = *admissionv1.ValidatingWebhookConfiguration
	of := func(c configuration) []hook { return hooksOf(c.Webhooks, hookOfValidating) }
	return registry.Definition[configuration]{
		Names: registry.Names{
			Kind: "ValidatingWebhookConfiguration", Plural: "validatingwebhookconfigurations", Singular: "validatingwebhookconfiguration",
			Categories: []string{"api-extensions"},
		},
		GroupVersion: admissionv1.SchemeGroupVersion,
		Older:        olderValidating(),
		New:          func() configuration { return &admissionv1.ValidatingWebhookConfiguration{} },
		NewList:      func() runtime.Object { return &admissionv1.ValidatingWebhookConfigurationList{} },
		Rules: rules(o, of, func(c configuration) {
			for i := range c.Webhooks {
				defaultValidating(&c.Webhooks[i])
			}
		}, func(c, old configuration) bool { return reflect.DeepEqual(c.Webhooks, old.Webhooks) }),
		Columns: columns(func(c configuration) int { return len(c.Webhooks) }),
	}.Kind()
}

// rules are the rules of both kinds. same tells whether two configurations have the same webhooks; as upstream's,
// it distinguishes empty lists from missing ones.
func rules[T registry.Object](o Options, of func(T) []hook, defaults func(T), same func(c, old T) bool) registry.Rules[T] {
	return registry.Rules[T]{
		Default:       defaults,
		PrepareCreate: func(_ context.Context, c T) { c.SetGeneration(1) },
		PrepareUpdate: func(_ context.Context, c, old T) {
			if !same(c, old) {
				c.SetGeneration(old.GetGeneration() + 1)
			}
		},
		Validate: func(c T) field.ErrorList {
			return append(validateHooks(of(c), strict(o)), validateName(c.GetName())...)
		},
		ValidateUpdate: func(c, old T) field.ErrorList { return validateHooks(of(c), lenient(o, of(c), of(old))) },
		// A guard runs once the object is known to be valid, which is when upstream warns.
		Guard: func(ctx context.Context, c, _ T) error {
			warn(ctx, c.GetName(), of(c))
			return nil
		},
		AnyFinalizer:      true,
		ConditionalUpdate: true,
	}
}
