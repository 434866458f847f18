package customresourcedefinition

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/api/equality"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Servable reports whether the kind of a definition should be served: its names are accepted, or were when it was
// established.
func Servable(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.NamesAccepted) || apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established)
}

// setCondition changes a definition's condition. One that is as it should be stays untouched.
func setCondition(crd *apiextensionsv1.CustomResourceDefinition, c apiextensionsv1.CustomResourceDefinitionCondition) {
	if !apihelpers.IsCRDConditionEquivalent(&c, apihelpers.FindCRDCondition(crd, c.Type)) {
		apihelpers.SetCRDCondition(crd, c)
	}
}

// names are those that definitions of a group have been given. Resources and kinds are names of different things.
type names struct{ resources, kinds []string }

func taken(group []*apiextensionsv1.CustomResourceDefinition) names {
	var all names
	for _, crd := range group {
		n := crd.Status.AcceptedNames
		all.resources = append(append(all.resources, n.Plural, n.Singular), n.ShortNames...)
		all.kinds = append(all.kinds, n.Kind, n.ListKind)
	}
	return all
}

// acceptNames accepts those names of a definition that are free and sets the conditions that follow; names that are
// taken stay what they were. group are all definitions of the group, including this one. It reports whether anything
// changed. Definitions whose names are all accepted are not looked at, whatever their conditions say.
func acceptNames(crd *apiextensionsv1.CustomResourceDefinition, group []*apiextensionsv1.CustomResourceDefinition) bool {
	wanted, had := crd.Spec.Names, crd.Status.AcceptedNames
	if equality.Semantic.DeepEqual(wanted, had) {
		return false
	}
	all := taken(group)
	got := had
	got.Categories = wanted.Categories
	verdict := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, Reason: "NoConflicts", Message: "no conflicts found",
	}
	refuse := func(reason string, err error) { // the last one is shown
		verdict.Status, verdict.Reason, verdict.Message = apiextensionsv1.ConditionFalse, reason, err.Error()
	}
	claim := func(name string, accepted *string, taken []string, reason string) {
		if err := free(name, *accepted, taken); err != nil {
			refuse(reason, err)
			return
		}
		*accepted = name
	}
	claim(wanted.Plural, &got.Plural, all.resources, "PluralConflict")
	claim(wanted.Singular, &got.Singular, all.resources, "SingularConflict")
	var conflicts []error
	for _, short := range wanted.ShortNames {
		if !slices.Contains(had.ShortNames, short) {
			if err := free(short, "", all.resources); err != nil {
				conflicts = append(conflicts, err)
			}
		}
	}
	if err := utilerrors.NewAggregate(conflicts); err != nil {
		refuse("ShortNamesConflict", err)
	} else {
		got.ShortNames = wanted.ShortNames
	}
	claim(wanted.Kind, &got.Kind, all.kinds, "KindConflict")
	claim(wanted.ListKind, &got.ListKind, all.kinds, "ListKindConflict")
	if equality.Semantic.DeepEqual(had, got) &&
		apihelpers.IsCRDConditionEquivalent(&verdict, apihelpers.FindCRDCondition(crd, apiextensionsv1.NamesAccepted)) {
		return false
	}
	crd.Status.AcceptedNames = got
	setCondition(crd, verdict)
	setCondition(crd, installing(crd, verdict.Status))
	return true
}

// free fails if a name is taken, unless it is the one that was accepted.
func free(name, accepted string, taken []string) error {
	if name != accepted && slices.Contains(taken, name) {
		return fmt.Errorf("%q is already in use", name)
	}
	return nil
}

// installing returns the condition Established that goes with accepted or refused names. Once established, a definition
// stays so.
func installing(crd *apiextensionsv1.CustomResourceDefinition, accepted apiextensionsv1.ConditionStatus) apiextensionsv1.CustomResourceDefinitionCondition {
	old := apihelpers.FindCRDCondition(crd, apiextensionsv1.Established)
	switch {
	case old != nil && (old.Status == apiextensionsv1.ConditionTrue || accepted != apiextensionsv1.ConditionTrue):
		return *old
	case accepted == apiextensionsv1.ConditionTrue:
		return apiextensionsv1.CustomResourceDefinitionCondition{
			Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse,
			Reason: "Installing", Message: "the initial names have been accepted",
		}
	}
	return apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse,
		Reason: "NotAccepted", Message: "not all names are accepted",
	}
}

// establishment returns the condition Established of a definition that is to be established now, or that cannot be
// served, for the given reason; nil means that the condition is right.
func establishment(crd *apiextensionsv1.CustomResourceDefinition, serving error) *apiextensionsv1.CustomResourceDefinitionCondition {
	c := &apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse}
	switch {
	case !Servable(crd):
		return nil
	case isUnservable(serving):
		c.Reason, c.Message = "Unservable", serving.Error()
	case !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.NamesAccepted), apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established):
		return nil
	case malformedAuthority(crd):
		c.Reason, c.Message = "InvalidCABundle", "The conversion webhook CABundle is invalid"
	default:
		c.Status, c.Reason, c.Message = apiextensionsv1.ConditionTrue, "InitialNamesAccepted", "the initial names have been accepted"
	}
	if apihelpers.IsCRDConditionEquivalent(c, apihelpers.FindCRDCondition(crd, c.Type)) {
		return nil
	}
	return c
}

// malformedAuthority reports whether the authority of the conversion webhook cannot be read.
func malformedAuthority(crd *apiextensionsv1.CustomResourceDefinition) bool {
	conversion := crd.Spec.Conversion
	if conversion == nil || conversion.Webhook == nil || conversion.Webhook.ClientConfig == nil {
		return false
	}
	bundle := conversion.Webhook.ClientConfig.CABundle
	return len(bundle) > 0 && !x509.NewCertPool().AppendCertsFromPEM(bundle)
}

// approve sets the condition that groups of the Kubernetes community have.
func approve(crd *apiextensionsv1.CustomResourceDefinition) {
	if !apihelpers.IsProtectedCommunityGroup(crd.Spec.Group) {
		return
	}
	c := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.KubernetesAPIApprovalPolicyConformant, Status: apiextensionsv1.ConditionFalse,
	}
	var state apihelpers.APIApprovalState
	switch state, c.Message = apihelpers.GetAPIApprovalState(crd.Annotations); state {
	case apihelpers.APIApproved:
		c.Status, c.Reason = apiextensionsv1.ConditionTrue, "ApprovedAnnotation"
	case apihelpers.APIApprovalBypassed:
		c.Reason = "UnapprovedAnnotation"
	case apihelpers.APIApprovalMissing:
		c.Reason = "MissingAnnotation"
	default:
		c.Reason = "InvalidAnnotation"
	}
	setCondition(crd, c)
}

// judgeSchemas sets or removes the condition of schemas that are not structural. Only definitions that are older than
// apiextensions.k8s.io/v1 have such schemas.
func judgeSchemas(crd *apiextensionsv1.CustomResourceDefinition) {
	c := nonStructural(&crd.Spec)
	switch {
	case c != nil:
		setCondition(crd, *c)
	case apihelpers.FindCRDCondition(crd, apiextensionsv1.NonStructuralSchema) != nil:
		apihelpers.RemoveCRDCondition(crd, apiextensionsv1.NonStructuralSchema)
	}
}

func nonStructural(spec *apiextensionsv1.CustomResourceDefinitionSpec) *apiextensionsv1.CustomResourceDefinitionCondition {
	c := &apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.NonStructuralSchema}
	var all field.ErrorList
	if spec.PreserveUnknownFields {
		all = append(all, field.Invalid(field.NewPath("spec", "preserveUnknownFields"), true, "must be false"))
	}
	for i, v := range spec.Versions {
		if v.Schema == nil {
			continue
		}
		parsed := &apiextensions.CustomResourceValidation{}
		if apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v.Schema, parsed, nil) != nil {
			continue // malformed JSON, which no server has accepted
		}
		s, err := structural.NewStructural(parsed.OpenAPIV3Schema)
		if err != nil {
			c.Status, c.Reason = apiextensionsv1.ConditionUnknown, "StructuralError"
			c.Message = fmt.Sprintf("failed to check validation schema for version %s: %v", v.Name, err)
			return c
		}
		at := field.NewPath("spec", "versions").Index(i).Child("schema", "openAPIV3Schema")
		all = append(all, structural.ValidateStructural(at, s)...)
	}
	if len(all) == 0 {
		return nil
	}
	c.Status, c.Reason, c.Message = apiextensionsv1.ConditionTrue, "Violations", all.ToAggregate().Error()
	return c
}

// terminating returns the condition of a definition that is being deleted.
func terminating(status apiextensionsv1.ConditionStatus, reason, format string, args ...any) apiextensionsv1.CustomResourceDefinitionCondition {
	return apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: status, Reason: reason, Message: strings.TrimSpace(fmt.Sprintf(format, args...)),
	}
}
