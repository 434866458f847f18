package storagemigration_test

import (
	"context"
	"testing"
	"time"

	svmv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/api/storagemigration/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
	"github.com/keelson-dev/keelson/registry/direct"
	"github.com/keelson-dev/keelson/registry/registrytest"
	"github.com/keelson-dev/keelson/registry/storagemigration"
	"github.com/keelson-dev/keelson/storage/memory"
)

func condition(kind svmv1.MigrationConditionType, status metav1.ConditionStatus) metav1.Condition {
	return metav1.Condition{Type: string(kind), Status: status, Reason: "Reason", LastTransitionTime: metav1.NewTime(time.Unix(1, 0))}
}

func migration() *svmv1.StorageVersionMigration {
	return &svmv1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{Name: "m"},
		Spec:       svmv1.StorageVersionMigrationSpec{Resource: metav1.GroupResource{Group: "apps", Resource: "deployments"}},
	}
}

func TestMigration(t *testing.T) {
	k := registrytest.Find(t, storagemigration.Kinds(), "storageversionmigrations")
	if k.Rules.CreateOnUpdate || !k.Rules.ConditionalUpdate || k.Namespaced {
		t.Errorf("create on update %t, conditional update %t, namespaced %t", k.Rules.CreateOnUpdate, k.Rules.ConditionalUpdate, k.Namespaced)
	}
	changes := []registrytest.Change[*svmv1.StorageVersionMigration]{
		{Name: "core", To: func(m *svmv1.StorageVersionMigration) { m.Spec.Resource = metav1.GroupResource{Resource: "pods"} }},
		{Name: "none", To: func(m *svmv1.StorageVersionMigration) { m.Spec.Resource = metav1.GroupResource{} }, Refused: []string{
			`spec.resource.resource: Required value: resource is required to be set`}},
		{Name: "bad", To: func(m *svmv1.StorageVersionMigration) {
			m.Spec.Resource = metav1.GroupResource{Group: "A", Resource: "1"}
		}, Refused: []string{
			`spec.resource.resource: Invalid value: "1": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`,
			`spec.resource.group: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`}},
	}
	registrytest.Create(t, k, migration(), changes)
	registrytest.Update(t, k, "", migration(), []registrytest.Change[*svmv1.StorageVersionMigration]{
		{Name: "labels", To: func(m *svmv1.StorageVersionMigration) { m.Labels = map[string]string{"l": "v"} }},
		{Name: "another resource", To: func(m *svmv1.StorageVersionMigration) { m.Spec.Resource.Resource = "replicasets" }, Refused: []string{
			`spec: Invalid value: {"Resource":{"group":"apps","resource":"replicasets"}}: field is immutable`}},
	})
	registrytest.Update(t, k, "status", migration(), []registrytest.Change[*svmv1.StorageVersionMigration]{
		{Name: "the spec stays", To: func(m *svmv1.StorageVersionMigration) { m.Spec.Resource.Resource = "" }},
		{Name: "a version", To: func(m *svmv1.StorageVersionMigration) { m.Status.ResourceVersion = "17" }},
		{Name: "no version", To: func(m *svmv1.StorageVersionMigration) { m.Status.ResourceVersion = "x" }, Refused: []string{
			`status.resourceVersion: Invalid value: "x": resource version is not well formed: x`}},
		{Name: "a bad condition", To: func(m *svmv1.StorageVersionMigration) {
			m.Status.Conditions = []metav1.Condition{condition("Running", "Maybe")}
		}, Refused: []string{`status.conditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"`}},
		{Name: "both", To: func(m *svmv1.StorageVersionMigration) {
			m.Status.Conditions = []metav1.Condition{condition("Succeeded", "True"), condition("Failed", "True")}
		}, Refused: []string{
			`status.conditions: Invalid value: [{"type":"Succeeded","status":"True","lastTransitionTime":"1970-01-01T00:00:01Z","reason":"Reason","message":""},{"type":"Failed","status":"True","lastTransitionTime":"1970-01-01T00:00:01Z","reason":"Reason","message":""}]: Both success and failed conditions cannot be true at the same time`}},
	})
	ended := func(kind svmv1.MigrationConditionType) *svmv1.StorageVersionMigration {
		m := migration()
		m.Status = svmv1.StorageVersionMigrationStatus{ResourceVersion: "17", Conditions: []metav1.Condition{condition(kind, "True")}}
		return m
	}
	registrytest.Update(t, k, "status", ended("Succeeded"), []registrytest.Change[*svmv1.StorageVersionMigration]{
		{Name: "another version", To: func(m *svmv1.StorageVersionMigration) { m.Status.ResourceVersion = "18" }, Refused: []string{
			`status.resourceVersion: Invalid value: "18": field is immutable`}},
		{Name: "not any more", To: func(m *svmv1.StorageVersionMigration) { m.Status.Conditions = nil }, Refused: []string{
			`status.conditions: Invalid value: null: Success condition cannot be set to false once it is true`}},
	})
	registrytest.Update(t, k, "status", ended("Failed"), []registrytest.Change[*svmv1.StorageVersionMigration]{
		{Name: "not any more", To: func(m *svmv1.StorageVersionMigration) { m.Status.Conditions[0].Status = "False" }, Refused: []string{
			`status.conditions: Invalid value: [{"type":"Failed","status":"False","lastTransitionTime":"1970-01-01T00:00:01Z","reason":"Reason","message":""}]: Failed condition cannot be set to false once it is true`}},
	})
}

// TestPreparation: which parts a write keeps.
func TestPreparation(t *testing.T) {
	k := registrytest.Find(t, storagemigration.Kinds(), "storageversionmigrations")
	m := migration()
	m.Generation, m.Status.ResourceVersion = 3, "17"
	registrytest.Prepare(k, m)
	if m.Generation != 3 { // none is counted, as upstream
		t.Errorf("generation %d", m.Generation)
	}
	if m.Status.ResourceVersion != "" {
		t.Errorf("created with %+v", m.Status)
	}
	old := migration()
	old.Status.ResourceVersion = "17"
	m = migration()
	registrytest.Replace(k, "", m, old)
	if m.Status.ResourceVersion != "17" || m.Generation != 0 {
		t.Errorf("updated to %+v", m)
	}
	m.Labels, m.Spec.Resource.Resource = map[string]string{"l": "v"}, "others"
	registrytest.Replace(k, "status", m, old)
	if m.Spec != old.Spec {
		t.Errorf("the status has changed the spec to %+v", m.Spec)
	}
	if len(m.Labels) != 0 {
		t.Errorf("the status has labels %v", m.Labels)
	}
}

// TestStored: as on upstream's servers, records are in v1beta1.
func TestStored(t *testing.T) {
	k := registrytest.Find(t, storagemigration.Kinds(), "storageversionmigrations")
	older := k.Older[0].New().(*v1beta1.StorageVersionMigration)
	older.Name, older.Spec.Resource.Resource, older.Status.ResourceVersion = "m", "pods", "17"
	m := k.Older[0].ToStored(older).(*svmv1.StorageVersionMigration)
	if k.Older[0].GroupVersion.Version != "v1beta1" || m.Name != "m" || m.Spec.Resource.Resource != "pods" || m.Status.ResourceVersion != "17" {
		t.Errorf("read as %+v", m)
	}
	store := memory.New(memory.Options{})
	reg, err := registry.New(store, storagemigration.Kinds(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- reg.Run(ctx) }()
	api := direct.New(reg, direct.Options{})
	at := client.Target{Resource: svmv1.SchemeGroupVersion.WithResource("storageversionmigrations")}
	if _, err := api.Create(ctx, at, migration(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	record, err := store.Get(ctx, "/registry/storageversionmigrations/m")
	if err != nil {
		t.Fatal(err)
	}
	stored := &v1beta1.StorageVersionMigration{}
	gvk, err := codec.Decode(record.Value, stored)
	if err != nil || gvk != v1beta1.SchemeGroupVersion.WithKind("StorageVersionMigration") || stored.Spec.Resource.Resource != "deployments" {
		t.Errorf("stored as %v %+v, %v", gvk, stored, err)
	}
	at.Name = "m"
	got, err := client.As[*svmv1.StorageVersionMigration](api.Get(ctx, at))
	if err != nil {
		t.Fatal(err)
	}
	if got.Spec.Resource.Resource != "deployments" {
		t.Errorf("read as %+v", got)
	}
	same, err := client.As[*svmv1.StorageVersionMigration](api.Update(ctx, at, got, metav1.UpdateOptions{}))
	if err != nil || same.ResourceVersion != got.ResourceVersion {
		t.Errorf("written though unchanged: %v, %v", same, err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestStatusColumn(t *testing.T) {
	k := registrytest.Find(t, storagemigration.Kinds(), "storageversionmigrations")
	m := migration()
	if name := k.Columns.Definitions[0]; name.Format != "" || name.Name != "Name" {
		t.Errorf("the first column is %+v", name)
	}
	cell := func() any { return k.Columns.Cells(m, time.Now())[2] }
	if got := cell(); got != "Unknown" {
		t.Errorf("new: %v", got)
	}
	m.Status.Conditions = []metav1.Condition{condition("Running", "False"), condition("Succeeded", "True"), condition("Other", "True")}
	if got := cell(); got != "Succeeded" {
		t.Errorf("in the end: %v", got)
	}
	m.Status.Conditions = []metav1.Condition{condition("Running", "True"), condition("Succeeded", "False"), condition("Failed", "Unknown")}
	if got := cell(); got != "Running" {
		t.Errorf("on the way: %v", got)
	}
}
