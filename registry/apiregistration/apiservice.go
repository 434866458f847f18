package apiregistration

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

// DefaultPort is the port of a service that a reference names if it names none.
const DefaultPort = 443

// Kinds returns the kinds of the group in discovery order.
func Kinds() []registry.Kind {
	return []registry.Kind{apiServices()}
}

func apiServices() registry.Kind {
	return registry.Definition[*apiregistrationv1.APIService]{
		Names: registry.Names{
			Kind: "APIService", Plural: "apiservices", Singular: "apiservice", Categories: []string{"api-extensions"},
		},
		GroupVersion: apiregistrationv1.SchemeGroupVersion,
		Prefix:       "apiregistration.k8s.io/apiservices",
		New:          func() *apiregistrationv1.APIService { return &apiregistrationv1.APIService{} },
		NewList:      func() runtime.Object { return &apiregistrationv1.APIServiceList{} },
		Rules: registry.Rules[*apiregistrationv1.APIService]{
			AnyFinalizer:      true,
			ConditionalUpdate: true,
			Default:           setDefaults,
			PrepareCreate:     prepareCreate,
			PrepareUpdate: func(_ context.Context, s, old *apiregistrationv1.APIService) {
				s.Generation = old.Generation
				s.Status = *old.Status.DeepCopy()
			},
			Validate:       validate,
			ValidateUpdate: func(s, _ *apiregistrationv1.APIService) field.ErrorList { return validate(s) },
			ValidateName:   registry.PathSegmentName,
		},
		Sub: registry.Subresources[*apiregistrationv1.APIService]{
			Views: map[string]registry.View[*apiregistrationv1.APIService]{"status": {
				PrepareUpdate:  prepareStatus,
				ValidateUpdate: validateStatus,
				Resets:         []string{"spec", "metadata"},
			}},
		},
		Columns: columns(),
	}.Kind()
}

func setDefaults(s *apiregistrationv1.APIService) {
	if s.Spec.Service != nil && s.Spec.Service.Port == nil {
		s.Spec.Service.Port = new(int32(DefaultPort))
	}
}

// prepareCreate makes what this server itself serves available at once.
func prepareCreate(_ context.Context, s *apiregistrationv1.APIService) {
	s.Status = apiregistrationv1.APIServiceStatus{}
	if s.Spec.Service == nil {
		s.Status.Conditions = []apiregistrationv1.APIServiceCondition{Local(metav1.Now().Rfc3339Copy())}
	}
}

// Local returns the condition of an APIService without a service.
func Local(since metav1.Time) apiregistrationv1.APIServiceCondition {
	return apiregistrationv1.APIServiceCondition{
		Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue, LastTransitionTime: since,
		Reason: "Local", Message: "Local APIServices are always available",
	}
}

func prepareStatus(_ context.Context, s, old *apiregistrationv1.APIService) {
	old = old.DeepCopy()
	s.Generation, s.Spec = old.Generation, old.Spec
	s.Labels, s.Annotations, s.Finalizers, s.OwnerReferences = old.Labels, old.Annotations, old.Finalizers, old.OwnerReferences
}

func validate(s *apiregistrationv1.APIService) field.ErrorList {
	spec, path := &s.Spec, field.NewPath("spec")
	var errs field.ErrorList
	if want := spec.Version + "." + spec.Group; s.Name != want && len(registry.PathSegmentName(s.Name, false)) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), s.Name, fmt.Sprintf("must be `spec.version+\".\"+spec.group`: %q", want)))
	}
	if spec.Group == "" && spec.Version != "v1" {
		errs = append(errs, field.Required(path.Child("group"), "only v1 may have an empty group and it better be legacy kube"))
	}
	if spec.Group != "" {
		for _, problem := range validation.IsDNS1123Subdomain(spec.Group) {
			errs = append(errs, field.Invalid(path.Child("group"), spec.Group, problem))
		}
	}
	for _, problem := range validation.IsDNS1035Label(spec.Version) {
		errs = append(errs, field.Invalid(path.Child("version"), spec.Version, problem))
	}
	if p := spec.GroupPriorityMinimum; p <= 0 || p > 20000 {
		errs = append(errs, field.Invalid(path.Child("groupPriorityMinimum"), p, "must be positive and less than 20000"))
	}
	if p := spec.VersionPriority; p <= 0 || p > 1000 {
		errs = append(errs, field.Invalid(path.Child("versionPriority"), p, "must be positive and less than 1000"))
	}
	return append(errs, validateServer(spec, path)...)
}

// validateServer validates where the server is and how it is verified.
func validateServer(spec *apiregistrationv1.APIServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	insecure := path.Child("insecureSkipTLSVerify")
	if spec.Service == nil {
		if n := len(spec.CABundle); n > 0 {
			errs = append(errs, field.Invalid(path.Child("caBundle"), fmt.Sprintf("%d bytes", n), "local APIServices may not have a caBundle"))
		}
		if spec.InsecureSkipTLSVerify {
			errs = append(errs, field.Invalid(insecure, true, "local APIServices may not have insecureSkipTLSVerify"))
		}
		return errs
	}
	service := path.Child("service")
	if spec.Service.Namespace == "" {
		errs = append(errs, field.Required(service.Child("namespace"), ""))
	}
	if spec.Service.Name == "" {
		errs = append(errs, field.Required(service.Child("name"), ""))
	}
	if port := *spec.Service.Port; port < 1 || port > 65535 {
		errs = append(errs, field.Invalid(service.Child("port"), port, "port is not valid: "+strings.Join(validation.IsValidPortNum(int(port)), ", ")))
	}
	if spec.InsecureSkipTLSVerify && len(spec.CABundle) > 0 {
		errs = append(errs, field.Invalid(insecure, true, "may not be true if caBundle is present"))
	}
	return errs
}

func validateStatus(s, _ *apiregistrationv1.APIService) field.ErrorList {
	var errs field.ErrorList
	for i, c := range s.Status.Conditions {
		errs = append(errs, check.OneOf(field.NewPath("status", "conditions").Index(i).Child("status"), c.Status,
			apiregistrationv1.ConditionFalse, apiregistrationv1.ConditionTrue, apiregistrationv1.ConditionUnknown)...)
	}
	return errs
}

func columns() registry.Columns[*apiregistrationv1.APIService] {
	return registry.Columns[*apiregistrationv1.APIService]{
		Definitions: []metav1.TableColumnDefinition{
			registry.NameColumn(),
			registry.TextColumn("Service", "The reference to the service that hosts this API endpoint."),
			registry.TextColumn("Available", "Whether this service is available."),
			registry.AgeColumn(),
		},
		Cells: func(s *apiregistrationv1.APIService, now time.Time) []any {
			service := "Local"
			if to := s.Spec.Service; to != nil {
				service = to.Namespace + "/" + to.Name
			}
			return []any{s.Name, service, availability(s), registry.Age(s.CreationTimestamp, now)}
		},
	}
}

func availability(s *apiregistrationv1.APIService) string {
	for _, c := range s.Status.Conditions {
		switch {
		case c.Type != apiregistrationv1.Available:
		case c.Status != apiregistrationv1.ConditionTrue && c.Reason != "":
			return fmt.Sprintf("%s (%s)", c.Status, c.Reason)
		default:
			return string(c.Status)
		}
	}
	return string(apiregistrationv1.ConditionUnknown)
}
