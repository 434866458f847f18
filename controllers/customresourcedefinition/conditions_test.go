package customresourcedefinition_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers/customresourcedefinition"
)

type definition = apiextensionsv1.CustomResourceDefinition

// names reads "plural singular kind listkind short...".
func names(text string) apiextensionsv1.CustomResourceDefinitionNames {
	f := append(strings.Fields(text), "", "", "", "")
	n := apiextensionsv1.CustomResourceDefinitionNames{Plural: f[0], Singular: f[1], Kind: f[2], ListKind: f[3]}
	for _, short := range f[4:] {
		if short != "" {
			n.ShortNames = append(n.ShortNames, short)
		}
	}
	return n
}

// text is the inverse of names; a missing name is "-".
func text(n apiextensionsv1.CustomResourceDefinitionNames) string {
	all := append([]string{n.Plural, n.Singular, n.Kind, n.ListKind}, n.ShortNames...)
	for i := range all {
		if all[i] == "" {
			all[i] = "-"
		}
	}
	return strings.Join(all, " ")
}

func conditions(crd *definition) string {
	var all []string
	for _, c := range crd.Status.Conditions {
		all = append(all, fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(all, "\n")
}

// with adds conditions, given as "Type Status Reason: message".
func with(crd *definition, all ...string) *definition {
	for _, c := range all {
		head, message, _ := strings.Cut(c, ": ")
		f := strings.Fields(head)
		crd.Status.Conditions = append(crd.Status.Conditions, apiextensionsv1.CustomResourceDefinitionCondition{
			Type: apiextensionsv1.CustomResourceDefinitionConditionType(f[0]), Status: apiextensionsv1.ConditionStatus(f[1]), Reason: f[2], Message: message,
			LastTransitionTime: metav1.Unix(1, 0),
		})
	}
	return crd
}

// named returns a definition with wanted and accepted names.
func named(wanted, accepted string) *definition {
	return &definition{
		ObjectMeta: metav1.ObjectMeta{Name: strings.Fields(wanted)[0] + ".example.com"},
		Spec:       apiextensionsv1.CustomResourceDefinitionSpec{Group: "example.com", Names: names(wanted)},
		Status:     apiextensionsv1.CustomResourceDefinitionStatus{AcceptedNames: names(accepted)},
	}
}

const (
	noConflicts = "NamesAccepted True NoConflicts: no conflicts found"
	installing  = "Established False Installing: the initial names have been accepted"
	notAccepted = "Established False NotAccepted: not all names are accepted"
	established = "Established True InitialNamesAccepted: the initial names have been accepted"
)

func TestNames(t *testing.T) {
	const mine = "dogs dog Dog DogList d"
	for name, test := range map[string]struct {
		crd        *definition
		others     []string // accepted names
		unchanged  bool
		accepted   string
		conditions string
	}{
		"fresh":          {crd: named(mine, ""), others: []string{"cats cat Cat CatList c"}, accepted: mine, conditions: noConflicts + "\n" + installing},
		"accepted":       {crd: named(mine, mine), unchanged: true, accepted: mine},
		"plural":         {crd: named(mine, ""), others: []string{"a dogs A AList"}, accepted: "- dog Dog DogList d", conditions: `NamesAccepted False PluralConflict: "dogs" is already in use` + "\n" + notAccepted},
		"singular":       {crd: named(mine, ""), others: []string{"dog a A AList"}, accepted: "dogs - Dog DogList d", conditions: `NamesAccepted False SingularConflict: "dog" is already in use` + "\n" + notAccepted},
		"short name":     {crd: named(mine, ""), others: []string{"a b A AList d"}, accepted: "dogs dog Dog DogList", conditions: `NamesAccepted False ShortNamesConflict: "d" is already in use` + "\n" + notAccepted},
		"two short ones": {crd: named(mine+" e", ""), others: []string{"e b A AList d"}, accepted: "dogs dog Dog DogList", conditions: `NamesAccepted False ShortNamesConflict: ["d" is already in use, "e" is already in use]` + "\n" + notAccepted},
		"kind":           {crd: named(mine, ""), others: []string{"a b A Dog"}, accepted: "dogs dog - DogList d", conditions: `NamesAccepted False KindConflict: "Dog" is already in use` + "\n" + notAccepted},
		"list kind":      {crd: named(mine, ""), others: []string{"a b DogList AList"}, accepted: "dogs dog Dog - d", conditions: `NamesAccepted False ListKindConflict: "DogList" is already in use` + "\n" + notAccepted},
		"the last conflict is told": {crd: named(mine, ""), others: []string{"dogs dog Dog DogList"}, accepted: "- - - - d",
			conditions: `NamesAccepted False ListKindConflict: "DogList" is already in use` + "\n" + notAccepted},
		"kinds and resources differ": {crd: named(mine, ""), others: []string{"Dog DogList dogs dog D"}, accepted: mine, conditions: noConflicts + "\n" + installing},
		"more short names": {crd: with(named(mine+" e", mine), noConflicts, established), accepted: mine + " e", unchanged: false,
			conditions: noConflicts + "\n" + established},
		"accepted names are kept, those wanted wait": {crd: with(named("dogs hound Dog DogList d", mine), noConflicts, established), others: []string{"hound a A AList"},
			accepted: mine, conditions: `NamesAccepted False SingularConflict: "hound" is already in use` + "\n" + established},
		"nothing new": {crd: with(named(mine, "dogs dog Dog DogList"), `NamesAccepted False ShortNamesConflict: "d" is already in use`, notAccepted), others: []string{"a b A AList d"},
			unchanged: true, accepted: "dogs dog Dog DogList", conditions: `NamesAccepted False ShortNamesConflict: "d" is already in use` + "\n" + notAccepted},
		"freed": {crd: with(named(mine, "dogs dog Dog DogList"), `NamesAccepted False ShortNamesConflict: "d" is already in use`, notAccepted),
			accepted: mine, conditions: noConflicts + "\n" + installing},
	} {
		t.Run(name, func(t *testing.T) {
			group := []*definition{test.crd}
			for _, other := range test.others {
				group = append(group, named(other, other))
			}
			if changed := customresourcedefinition.AcceptNames(test.crd, group); changed == test.unchanged {
				t.Errorf("changed: %v", changed)
			}
			if got := text(test.crd.Status.AcceptedNames); got != test.accepted {
				t.Errorf("accepted %s, want %s", got, test.accepted)
			}
			if got := conditions(test.crd); got != test.conditions {
				t.Errorf("conditions:\n%s\nwant:\n%s", got, test.conditions)
			}
		})
	}
}

// TestCategories: they are nobody's, and always accepted.
func TestCategories(t *testing.T) {
	crd := named("dogs dog Dog DogList", "")
	crd.Spec.Names.Categories = []string{"all"}
	if customresourcedefinition.AcceptNames(crd, []*definition{crd, named("dogs dog Dog DogList", "dogs dog Dog DogList")}); !slices.Equal(crd.Status.AcceptedNames.Categories, []string{"all"}) {
		t.Errorf("accepted %+v", crd.Status.AcceptedNames)
	}
}

func TestApproval(t *testing.T) {
	const (
		missing = `protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111`
		invalid = `protected groups must have approval annotation "api-approved.kubernetes.io" with either a URL or a reason starting with "unapproved", see https://github.com/kubernetes/enhancements/pull/1111`
	)
	for _, test := range []struct{ group, annotation, want string }{
		{"example.com", "", ""},
		{"notk8s.io", "", ""},
		{"k8s.io", "", "False MissingAnnotation: " + missing},
		{"sub.k8s.io", "https://example.com/1", "True ApprovedAnnotation: approved in https://example.com/1"},
		{"sub.kubernetes.io", "unapproved, a test", `False UnapprovedAnnotation: not approved: "unapproved, a test"`},
		{"kubernetes.io", "yes", "False InvalidAnnotation: " + invalid},
	} {
		crd := &definition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: test.group}}
		crd.Annotations = map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: test.annotation}
		customresourcedefinition.Approve(crd)
		want := test.want
		if want != "" {
			want = "KubernetesAPIApprovalPolicyConformant " + want
		}
		if got := conditions(crd); got != want {
			t.Errorf("%s, %q: %q, want %q", test.group, test.annotation, got, want)
		}
	}
}

func TestSchemas(t *testing.T) {
	schema := func(s *apiextensionsv1.JSONSchemaProps, preserve bool) *definition {
		return &definition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{PreserveUnknownFields: preserve, Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
			{Name: "v0"}, {Name: "v1", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: s}},
		}}}
	}
	good := &apiextensionsv1.JSONSchemaProps{Type: "object"}
	const old = "NonStructuralSchema True Violations: old"
	for name, test := range map[string]struct {
		crd  *definition
		want string
	}{
		"structural":         {schema(good, false), ""},
		"none":               {schema(nil, false), ""},
		"no longer violated": {with(schema(good, false), old), ""},
		"preserving":         {schema(good, true), "NonStructuralSchema True Violations: spec.preserveUnknownFields: Invalid value: true: must be false"},
		"without a type":     {schema(&apiextensionsv1.JSONSchemaProps{}, false), "NonStructuralSchema True Violations: spec.versions[1].schema.openAPIV3Schema.type: Required value: must not be empty at the root"},
		"otherwise violated": {with(schema(&apiextensionsv1.JSONSchemaProps{}, false), old), "NonStructuralSchema True Violations: spec.versions[1].schema.openAPIV3Schema.type: Required value: must not be empty at the root"},
		"malformed":          {schema(&apiextensionsv1.JSONSchemaProps{Default: &apiextensionsv1.JSON{Raw: []byte("{")}}, false), ""},
		"unusable": {schema(&apiextensionsv1.JSONSchemaProps{Type: "object", Definitions: apiextensionsv1.JSONSchemaDefinitions{"a": {}}}, false),
			"NonStructuralSchema Unknown StructuralError: failed to check validation schema for version v1: OpenAPIV3Schema 'definitions' is not supported"},
	} {
		customresourcedefinition.JudgeSchemas(test.crd)
		if got := conditions(test.crd); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestEstablishment(t *testing.T) {
	const conflict = `NamesAccepted False KindConflict: "Dog" is already in use`
	refused := fmt.Errorf("%w: why", customresourcedefinition.ErrUnservable)
	authority := func(pem string) *apiextensionsv1.CustomResourceConversion {
		return &apiextensionsv1.CustomResourceConversion{Webhook: &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{CABundle: []byte(pem)}}}
	}
	for name, test := range map[string]struct {
		crd     *definition
		webhook *apiextensionsv1.CustomResourceConversion
		serving error
		want    string
	}{
		"names refused":        {crd: with(&definition{}, conflict, notAccepted), serving: refused},
		"names accepted":       {crd: with(&definition{}, noConflicts, installing), want: "True InitialNamesAccepted: the initial names have been accepted"},
		"established":          {crd: with(&definition{}, noConflicts, established)},
		"a built-in kind":      {crd: with(&definition{}, noConflicts, installing), serving: customresourcedefinition.ErrBuiltIn, want: "True InitialNamesAccepted: the initial names have been accepted"},
		"names refused later":  {crd: with(&definition{}, conflict, established)},
		"refused, unservable":  {crd: with(&definition{}, conflict, established), serving: refused, want: "False Unservable: cannot be served: why"},
		"unservable":           {crd: with(&definition{}, noConflicts, installing), serving: refused, want: "False Unservable: cannot be served: why"},
		"no longer servable":   {crd: with(&definition{}, noConflicts, established), serving: refused, want: "False Unservable: cannot be served: why"},
		"still unservable":     {crd: with(&definition{}, noConflicts, "Established False Unservable: cannot be served: why"), serving: refused},
		"servable again":       {crd: with(&definition{}, noConflicts, "Established False Unservable: why"), want: "True InitialNamesAccepted: the initial names have been accepted"},
		"malformed authority":  {crd: with(&definition{}, noConflicts, installing), webhook: authority("x"), want: "False InvalidCABundle: The conversion webhook CABundle is invalid"},
		"malformed, told":      {crd: with(&definition{}, noConflicts, "Established False InvalidCABundle: The conversion webhook CABundle is invalid"), webhook: authority("x")},
		"no authority":         {crd: with(&definition{}, noConflicts, installing), webhook: authority(""), want: "True InitialNamesAccepted: the initial names have been accepted"},
		"malformed meanwhile":  {crd: with(&definition{}, noConflicts, established), webhook: authority("x")},
		"a webhook of nobody":  {crd: with(&definition{}, noConflicts, installing), webhook: &apiextensionsv1.CustomResourceConversion{Webhook: &apiextensionsv1.WebhookConversion{}}, want: "True InitialNamesAccepted: the initial names have been accepted"},
		"a webhook by default": {crd: with(&definition{}, noConflicts, installing), webhook: &apiextensionsv1.CustomResourceConversion{}, want: "True InitialNamesAccepted: the initial names have been accepted"},
	} {
		test.crd.Spec.Conversion = test.webhook
		got := ""
		if c := customresourcedefinition.Establishment(test.crd, test.serving); c != nil {
			got = fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	if errors.Is(customresourcedefinition.ErrBuiltIn, customresourcedefinition.ErrUnservable) {
		t.Error("the sentinels are one")
	}
}

// TestTransitions: the time of a transition changes with the status only.
func TestTransitions(t *testing.T) {
	crd := with(named("dogs dog Dog DogList d", "dogs dog Dog DogList"), `NamesAccepted False KindConflict: "Dog" is already in use`, notAccepted)
	customresourcedefinition.AcceptNames(crd, []*definition{crd})
	if c := crd.Status.Conditions; time.Since(c[0].LastTransitionTime.Time) > time.Hour || c[1].LastTransitionTime.Unix() != 1 {
		t.Errorf("conditions: %+v", c)
	}
}

func TestReadable(t *testing.T) {
	version := func(name string, served, storage bool) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: served, Storage: storage}
	}
	for _, test := range []struct {
		want string
		all  []apiextensionsv1.CustomResourceDefinitionVersion
	}{
		{"v2", []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", true, false), version("v2", true, true)}},
		{"v1", []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", true, false), version("v2", false, true)}},
		{"v1", []apiextensionsv1.CustomResourceDefinitionVersion{version("v2", false, true), version("v1", true, false)}},
		{"v2", []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", false, false), version("v2", false, true)}},
		{"v1", []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", false, true), version("v2", false, false)}},
	} {
		crd := &definition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{Versions: test.all}}
		if got := customresourcedefinition.Readable(crd); got != test.want {
			t.Errorf("%+v: %s, want %s", test.all, got, test.want)
		}
	}
}

// TestAlike: what a definition asks for, and what only tells how its deletion proceeds.
func TestAlike(t *testing.T) {
	base := func() *definition {
		crd := with(named("dogs dog Dog DogList d", "dogs dog Dog DogList d"), noConflicts, established)
		crd.UID, crd.Generation, crd.ResourceVersion, crd.Finalizers = "1", 1, "1", []string{"f"}
		return crd
	}
	for name, test := range map[string]struct {
		change func(*definition)
		alike  bool
	}{
		"nothing":           {func(*definition) {}, true},
		"version and label": {func(crd *definition) { crd.ResourceVersion, crd.Labels = "2", map[string]string{"a": "b"} }, true},
		"its deletion":      {func(crd *definition) { with(crd, "Terminating True InstanceDeletionInProgress: x") }, true},
		"another":           {func(crd *definition) { crd.UID = "2" }, false},
		"the spec":          {func(crd *definition) { crd.Generation = 2 }, false},
		"being deleted":     {func(crd *definition) { crd.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, false},
		"finalizers":        {func(crd *definition) { crd.Finalizers = nil }, false},
		"annotations":       {func(crd *definition) { crd.Annotations = map[string]string{"a": "b"} }, false},
		"accepted names":    {func(crd *definition) { crd.Status.AcceptedNames.ShortNames = nil }, false},
		"a condition":       {func(crd *definition) { crd.Status.Conditions[1].Status = "False" }, false},
		"a condition less":  {func(crd *definition) { crd.Status.Conditions = crd.Status.Conditions[:1] }, false},
	} {
		other := base()
		test.change(other)
		if got := customresourcedefinition.Alike(base(), other); got != test.alike {
			t.Errorf("%s: alike: %v", name, got)
		}
	}
}
