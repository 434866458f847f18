package apiregistration_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/keelson-dev/keelson/registry/apiregistration"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

type apiService = apiregistrationv1.APIService

func remote() *apiService {
	return &apiService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "example.com", Version: "v1", GroupPriorityMinimum: 1000, VersionPriority: 15, CABundle: []byte("x"),
			Service: &apiregistrationv1.ServiceReference{Namespace: "ns", Name: "api", Port: new(int32(443))},
		},
	}
}

func TestKinds(t *testing.T) { registrytest.Kinds(t, apiregistration.Kinds()) }

func TestValidation(t *testing.T) {
	k := registrytest.Find(t, apiregistration.Kinds(), "apiservices")
	if !k.Rules.AnyFinalizer || !k.Rules.ConditionalUpdate || k.Rules.CreateOnUpdate || k.Prefix != "apiregistration.k8s.io/apiservices" {
		t.Errorf("%t %t %q", k.Rules.ConditionalUpdate, k.Rules.CreateOnUpdate, k.Prefix)
	}
	changes := []registrytest.Change[*apiService]{
		{Name: "another name", To: func(s *apiService) { s.Name = "v2.example.com" }, Refused: []string{
			"metadata.name: Invalid value: \"v2.example.com\": must be `spec.version+\".\"+spec.group`: \"v1.example.com\""}},
		{Name: "no name at all", To: func(s *apiService) { s.Name = "a/b" }}, // which is refused before
		{Name: "a dot", To: func(s *apiService) { s.Name = "." }},
		{Name: "trusted", To: func(s *apiService) { s.Spec.CABundle, s.Spec.InsecureSkipTLSVerify = nil, true }},
		{Name: "no group", To: func(s *apiService) { s.Name, s.Spec.Group, s.Spec.Version = "v2.", "", "v2" }, Refused: []string{
			"spec.group: Required value: only v1 may have an empty group and it better be legacy kube"}},
		{Name: "the core group", To: func(s *apiService) { s.Name, s.Spec.Group = "v1.", "" }},
		{Name: "no priorities", To: func(s *apiService) { s.Spec.GroupPriorityMinimum, s.Spec.VersionPriority = 0, 0 }, Refused: []string{
			"spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
			"spec.versionPriority: Invalid value: 0: must be positive and less than 1000"}},
		{Name: "the highest priorities", To: func(s *apiService) { s.Spec.GroupPriorityMinimum, s.Spec.VersionPriority = 20000, 1000 }},
		{Name: "too high priorities", To: func(s *apiService) { s.Spec.GroupPriorityMinimum, s.Spec.VersionPriority = 20001, 1001 }, Refused: []string{
			"spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000",
			"spec.versionPriority: Invalid value: 1001: must be positive and less than 1000"}},
		{Name: "a nameless service", To: func(s *apiService) { *s.Spec.Service = apiregistrationv1.ServiceReference{Port: new(int32(0))} }, Refused: []string{
			"spec.service.namespace: Required value", "spec.service.name: Required value",
			"spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive"}},
		{Name: "the first port", To: func(s *apiService) { s.Spec.Service.Port = new(int32(1)) }},
		{Name: "the last port", To: func(s *apiService) { s.Spec.Service.Port = new(int32(65535)) }},
		{Name: "no port", To: func(s *apiService) { s.Spec.Service.Port = new(int32(65536)) }, Refused: []string{
			"spec.service.port: Invalid value: 65536: port is not valid: must be between 1 and 65535, inclusive"}},
		{Name: "no group's name", To: func(s *apiService) { s.Name, s.Spec.Group = "v1.a_b", "a_b" }, Refused: []string{
			"spec.group: Invalid value: \"a_b\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"}},
		{Name: "no version", To: func(s *apiService) { s.Name, s.Spec.Version = "1.example.com", "1" }, Refused: []string{
			"spec.version: Invalid value: \"1\": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"}},
		{Name: "verified and not", To: func(s *apiService) { s.Spec.InsecureSkipTLSVerify = true }, Refused: []string{
			"spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present"}},
		{Name: "local with means of verification", To: func(s *apiService) { s.Spec.Service, s.Spec.InsecureSkipTLSVerify = nil, true }, Refused: []string{
			`spec.caBundle: Invalid value: "1 bytes": local APIServices may not have a caBundle`,
			"spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify"}},
		{Name: "local", To: func(s *apiService) { s.Spec.Service, s.Spec.CABundle = nil, nil }},
	}
	registrytest.Create(t, k, remote(), changes)
	registrytest.Update(t, k, "", remote(), changes[3:])
	registrytest.Update(t, k, "status", remote(), []registrytest.Change[*apiService]{
		{Name: "an unknown status", To: func(s *apiService) {
			s.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Type: "Available", Status: "true"}}
		}, Refused: []string{`status.conditions[0].status: Unsupported value: "true": supported values: "False", "True", "Unknown"`}},
	})
}

// TestPreparation: services without a server of their own are available at once; the others when somebody has looked.
func TestPreparation(t *testing.T) {
	k := registrytest.Find(t, apiregistration.Kinds(), "apiservices")
	s := remote()
	s.Spec.Service.Port = nil
	s.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Type: "Available", Status: "True"}}
	k.Rules.Default(s)
	k.Rules.PrepareCreate(t.Context(), s)
	if *s.Spec.Service.Port != 443 || len(s.Status.Conditions) != 0 || s.Generation != 0 {
		t.Errorf("%+v", s)
	}
	cells := func(s *apiService) []any { return k.Columns.Cells(s, time.Now())[:3] }
	if got := cells(s); got[1] != "ns/api" || got[2] != "Unknown" {
		t.Errorf("shown as %v", got)
	}
	s.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Type: "Available", Status: "False", Reason: "ServiceNotFound"}}
	if got := cells(s); got[2] != "False (ServiceNotFound)" {
		t.Errorf("shown as %v", got)
	}
	s.Status.Conditions[0].Reason = ""
	if got := cells(s); got[2] != "False" {
		t.Errorf("shown as %v", got)
	}
	s.Status.Conditions = append([]apiregistrationv1.APIServiceCondition{{Type: "Other", Status: "True"}},
		apiregistrationv1.APIServiceCondition{Type: "Available", Status: "True", Reason: "Passed"})
	if got := cells(s); got[2] != "True" {
		t.Errorf("shown as %v", got)
	}
	s.Spec.Service = nil
	k.Rules.PrepareCreate(t.Context(), s)
	if got := cells(s); got[1] != "Local" || got[2] != "True" || s.Status.Conditions[0].Reason != "Local" ||
		s.Status.Conditions[0].Message != "Local APIServices are always available" {
		t.Errorf("shown as %v with %v", got, s.Status)
	}
}

// TestUpdates: an update leaves the status as it is, an update of the status all else; neither the generation.
func TestUpdates(t *testing.T) {
	k := registrytest.Find(t, apiregistration.Kinds(), "apiservices")
	old := remote()
	old.Generation = 7
	old.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Type: "Available", Status: "True"}}
	change := func(s *apiService) *apiService {
		s = s.DeepCopy()
		s.Generation, s.Spec.VersionPriority, s.Status.Conditions[0].Status = 1, 3, "False"
		s.Labels, s.Annotations, s.Finalizers = map[string]string{"a": "b"}, map[string]string{"a": "b"}, []string{"a/b"}
		s.OwnerReferences = []metav1.OwnerReference{{Name: "o"}}
		return s
	}
	got, want := change(old), change(old)
	k.Rules.PrepareUpdate(t.Context(), got, old)
	want.Generation, want.Status = 7, old.Status
	if !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("updated to %+v, want %+v", got, want)
	}
	got, want = change(old), old.DeepCopy()
	k.Sub.Views["status"].PrepareUpdate(t.Context(), got, old)
	want.Status.Conditions[0].Status = "False"
	if !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("its status updated to %+v, want %+v", got, want)
	}
}
