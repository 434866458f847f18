package coordination

import (
	"context"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

func leases() registry.Kind {
	return registry.Definition[*coordinationv1.Lease]{
		Names:        registry.Names{Kind: "Lease", Plural: "leases", Singular: "lease"},
		GroupVersion: coordinationv1.SchemeGroupVersion,
		Namespaced:   true,
		New:          func() *coordinationv1.Lease { return &coordinationv1.Lease{} },
		NewList:      func() runtime.Object { return &coordinationv1.LeaseList{} },
		Rules: registry.Rules[*coordinationv1.Lease]{
			AnyFinalizer:      true,
			PrepareCreate:     func(_ context.Context, lease *coordinationv1.Lease) { dropElection(lease, nil) },
			PrepareUpdate:     func(_ context.Context, lease, old *coordinationv1.Lease) { dropElection(lease, old) },
			Validate:          validateLease,
			ValidateUpdate:    func(lease, _ *coordinationv1.Lease) field.ErrorList { return validateLease(lease) },
			CreateOnUpdate:    true,
			ConditionalUpdate: true,
		},
		Columns: leaseColumns(),
	}.Kind()
}

// dropElection drops the fields of coordinated leader election (KEP-4355), which is off by default, unless the
// lease already used them.
func dropElection(lease, old *coordinationv1.Lease) {
	if old == nil || old.Spec.Strategy == nil {
		lease.Spec.Strategy = nil
	}
	if old == nil || old.Spec.PreferredHolder == nil {
		lease.Spec.PreferredHolder = nil
	}
}

func validateLease(lease *coordinationv1.Lease) field.ErrorList {
	spec, path := &lease.Spec, field.NewPath("spec")
	var errs field.ErrorList
	if d := spec.LeaseDurationSeconds; d != nil && *d <= 0 {
		errs = append(errs, field.Invalid(path.Child("leaseDurationSeconds"), *d, "must be greater than 0"))
	}
	if t := spec.LeaseTransitions; t != nil && *t < 0 {
		errs = append(errs, field.Invalid(path.Child("leaseTransitions"), *t, "must be greater than or equal to 0"))
	}
	if spec.Strategy != nil {
		errs = append(errs, validateStrategy(path.Child("strategy", "strategy"), *spec.Strategy)...)
	}
	if spec.PreferredHolder != nil && *spec.PreferredHolder != "" && (spec.Strategy == nil || *spec.Strategy == "") {
		errs = append(errs, field.Forbidden(path.Child("preferredHolder"), "may only be specified if `strategy` is defined"))
	}
	return errs
}

// validateStrategy requires one of Kubernetes' own strategies or a name with a domain.
func validateStrategy(path *field.Path, strategy coordinationv1.CoordinatedLeaseStrategy) field.ErrorList {
	if strings.Contains(string(strategy), "/") {
		errs := check.QualifiedName(path, string(strategy))
		for _, e := range errs {
			e.BadValue = strategy
		}
		return errs
	}
	return check.OneOf(path, strategy, coordinationv1.OldestEmulationVersion)
}
