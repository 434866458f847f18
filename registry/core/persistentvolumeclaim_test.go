package core_test

import (
	"context"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

type claimChange = registrytest.Change[*corev1.PersistentVolumeClaim]

func claim() *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "ns"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: capacity("5Gi")},
		},
	}
}

func capacity(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

func claimKind(t *testing.T) registry.Kind {
	return registrytest.Find(t, core.Kinds(core.Options{}), "persistentvolumeclaims")
}

func TestClaim(t *testing.T) {
	registrytest.Create(t, claimKind(t), claim(), []claimChange{
		{Name: "nothing", To: func(c *corev1.PersistentVolumeClaim) { c.Spec = corev1.PersistentVolumeClaimSpec{} }, Refused: []string{
			"spec.accessModes: Required value: at least 1 access mode is required", "spec.resources[storage]: Required value"}},
		{Name: "words", To: func(c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{"Any"}
			c.Spec.VolumeMode, c.Spec.StorageClassName, c.Spec.VolumeAttributesClassName = new(corev1.PersistentVolumeMode("Tape")), new("-"), new("_")
			c.Spec.Resources.Requests = capacity("0")
			c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b c"}}
		}, Refused: []string{
			`spec.selector.matchLabels: Invalid value: "b c": ` + notLabelValue,
			`spec.accessModes: Unsupported value: "Any": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"`,
			`spec.resources[storage]: Invalid value: "0": must be greater than zero`,
			`spec.storageClassName: Invalid value: "-": ` + notSubdomain,
			`spec.volumeMode: Unsupported value: "Tape": supported values: "Block", "Filesystem"`,
			`spec.volumeAttributesClassName: Invalid value: "_": ` + notSubdomain}},
		{Name: "no class", To: func(c *corev1.PersistentVolumeClaim) {
			c.Spec.StorageClassName, c.Spec.VolumeAttributesClassName = new(""), new("")
		}},
		{Name: "a source of no kind", To: func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: new("_")}
		}, Refused: []string{
			"spec.dataSource.name: Required value", "spec.dataSource.kind: Required value", `spec.dataSource.apiGroup: Invalid value: "_": ` + notSubdomain,
			"spec.dataSourceRef.name: Required value", "spec.dataSourceRef.kind: Required value", `spec.dataSourceRef.apiGroup: Invalid value: "_": ` + notSubdomain}},
		{Name: "two sources", To: func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "a"}
			c.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "b"}
		}, Refused: []string{"spec: Invalid value: {}: must match dataSourceRef"}},
	})
}

// TestClaimSources: what the two fields of a data source accept, and how they follow each other.
func TestClaimSources(t *testing.T) {
	k := claimKind(t)
	local := func(group, kind string) *corev1.TypedLocalObjectReference {
		ref := &corev1.TypedLocalObjectReference{Kind: kind, Name: "a"}
		if group != "" {
			ref.APIGroup = &group
		}
		return ref
	}
	full := func(group, kind string) *corev1.TypedObjectReference {
		ref := local(group, kind)
		return &corev1.TypedObjectReference{APIGroup: ref.APIGroup, Kind: ref.Kind, Name: ref.Name}
	}
	foreign := full("", "PersistentVolumeClaim")
	foreign.Namespace = new("other")
	own := full("", "PersistentVolumeClaim")
	own.Namespace = new("")
	type fields struct {
		source *corev1.TypedLocalObjectReference
		ref    *corev1.TypedObjectReference
	}
	populator := fields{local("x.io", "Book"), full("x.io", "Book")}
	for name, tt := range map[string]struct{ old, in, want fields }{
		"a claim":                        {in: fields{source: local("", "PersistentVolumeClaim")}, want: fields{local("", "PersistentVolumeClaim"), full("", "PersistentVolumeClaim")}},
		"a snapshot":                     {in: fields{source: local("snapshot.storage.k8s.io", "VolumeSnapshot")}, want: fields{local("snapshot.storage.k8s.io", "VolumeSnapshot"), full("snapshot.storage.k8s.io", "VolumeSnapshot")}},
		"a claim of a group":             {in: fields{source: local("x.io", "PersistentVolumeClaim")}},
		"anything in the old field":      {in: fields{source: local("x.io", "Book")}},
		"anything in the new field":      {in: fields{ref: full("x.io", "Book")}, want: populator},
		"another namespace":              {in: fields{ref: foreign}},
		"its own namespace":              {in: fields{ref: own}, want: fields{local("", "PersistentVolumeClaim"), own}},
		"another namespace as before":    {old: fields{ref: foreign}, in: fields{ref: foreign}, want: fields{ref: foreign}},
		"an old client omits a field":    {old: populator, in: fields{source: local("x.io", "Book")}, want: populator},
		"both are given":                 {in: populator, want: populator},
		"the old one and a foreign one ": {in: fields{source: local("", "PersistentVolumeClaim"), ref: foreign}, want: fields{local("", "PersistentVolumeClaim"), full("", "PersistentVolumeClaim")}},
	} {
		old, obj := claim(), claim()
		old.Spec.DataSource, old.Spec.DataSourceRef = tt.old.source, tt.old.ref
		obj.Spec.DataSource, obj.Spec.DataSourceRef = tt.in.source, tt.in.ref
		updated := obj.DeepCopy()
		if tt.old == (fields{}) {
			if registrytest.Prepare(k, obj); !reflect.DeepEqual(fields{obj.Spec.DataSource, obj.Spec.DataSourceRef}, tt.want) {
				t.Errorf("%s: created with %v %v", name, obj.Spec.DataSource, obj.Spec.DataSourceRef)
			}
		}
		if registrytest.Replace(k, "", updated, old); !reflect.DeepEqual(fields{updated.Spec.DataSource, updated.Spec.DataSourceRef}, tt.want) {
			t.Errorf("%s: updated to %v %v", name, updated.Spec.DataSource, updated.Spec.DataSourceRef)
		}
	}
	stored := claim()
	stored.Spec.DataSource = local("x.io", "Book")
	if k.Rules.Restore(stored); !reflect.DeepEqual(stored.Spec.DataSourceRef, full("x.io", "Book")) {
		t.Errorf("read from an old store: %v", stored.Spec.DataSourceRef)
	}
}

func annotatedClass(class string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: class}
	}
}

const immutableClaim = "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"

func TestClaimUpdate(t *testing.T) {
	k := claimKind(t)
	grow := func(size string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = capacity(size) }
	}
	const larger = immutableClaim + "@@ -6,7 +6,7 @@\n  \"Resources\": {\n   \"Limits\": null,\n   \"Requests\": {\n-   \"storage\": \"5Gi\"\n+   \"storage\": \"6Gi\"\n   }\n  },\n  \"VolumeName\": \"\",\n"
	registrytest.Update(t, k, "", claim(), []claimChange{
		{Name: "volume", To: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" }},
		{Name: "class", To: func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("a") }},
		{Name: "annotation", To: annotatedClass("a"), Refused: []string{
			`metadata.annotations.volume.beta.kubernetes.io/storage-class: Invalid value: "a": field is immutable`}},
		{Name: "size of an unbound claim", To: grow("6Gi"), Refused: []string{larger}},
		{Name: "mode", To: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) }, Refused: []string{
			immutableClaim + "@@ -11,7 +11,7 @@\n  },\n  \"VolumeName\": \"\",\n  \"StorageClassName\": null,\n- \"VolumeMode\": \"Filesystem\",\n+ \"VolumeMode\": \"Block\",\n  \"DataSource\": null,\n  \"DataSourceRef\": null,\n  \"VolumeAttributesClassName\": null\n",
			`volumeMode: Invalid value: "Block": field is immutable`}},
	})
	bound := claim()
	bound.Spec.VolumeName, bound.Spec.StorageClassName, bound.Spec.VolumeAttributesClassName = "pv", new("a"), new("gold")
	bound.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: capacity("3Gi"), CurrentVolumeAttributesClassName: new("gold")}
	registrytest.Update(t, k, "", bound, []claimChange{
		{Name: "larger", To: grow("6Gi")},
		{Name: "smaller than asked for", To: grow("4Gi")},
		{Name: "as small as it is", To: grow("3Gi"), Refused: []string{"spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"}},
		{Name: "another volume", To: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "" }, Refused: []string{
			immutableClaim + "@@ -9,7 +9,7 @@\n    \"storage\": \"5Gi\"\n   }\n  },\n- \"VolumeName\": \"pv\",\n+ \"VolumeName\": \"\",\n  \"StorageClassName\": \"a\",\n  \"VolumeMode\": \"Filesystem\",\n  \"DataSource\": null,\n"}},
		{Name: "another class", To: func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("b") }, Refused: []string{
			immutableClaim + "@@ -10,7 +10,7 @@\n   }\n  },\n  \"VolumeName\": \"pv\",\n- \"StorageClassName\": \"a\",\n+ \"StorageClassName\": \"b\",\n  \"VolumeMode\": \"Filesystem\",\n  \"DataSource\": null,\n  \"DataSourceRef\": null,\n"}},
		{Name: "other attributes", To: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = new("silver") }},
		{Name: "no attributes", To: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = nil }, Refused: []string{
			"spec.volumeAttributesClassName: Forbidden: update to nil is forbidden when status.currentVolumeAttributesClassName is not nil"}},
		{Name: "empty attributes", To: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = new("") }, Refused: []string{
			"spec.volumeAttributesClassName: Forbidden: update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil"}},
		{Name: "the status stays", To: func(c *corev1.PersistentVolumeClaim) { c.Status = corev1.PersistentVolumeClaimStatus{} }},
	})
	annotated := claim()
	annotatedClass("a")(annotated)
	registrytest.Update(t, k, "", annotated, []claimChange{
		{Name: "to the field", To: func(c *corev1.PersistentVolumeClaim) { c.Annotations, c.Spec.StorageClassName = nil, new("a") }},
		{Name: "to both", To: func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("a") }},
		{Name: "removed", To: func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil }, Refused: []string{
			`metadata.annotations.volume.beta.kubernetes.io/storage-class: Invalid value: "": field is immutable`}},
		{Name: "another", To: func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("b") }, Refused: []string{
			immutableClaim + "@@ -10,7 +10,7 @@\n   }\n  },\n  \"VolumeName\": \"\",\n- \"StorageClassName\": null,\n+ \"StorageClassName\": \"b\",\n  \"VolumeMode\": \"Filesystem\",\n  \"DataSource\": null,\n  \"DataSourceRef\": null,\n"}},
	})
	older := claim() // accepted under older rules
	older.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In", Values: []string{"b c"}}}}
	older.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: new("_"), Kind: "K", Name: "n"}
	k.Rules.Restore(older)
	registrytest.Update(t, k, "", older, nil)
}

func TestClaimStatus(t *testing.T) {
	k := claimKind(t)
	bare := claim()
	bare.Spec.AccessModes = nil
	if errs := registrytest.Replace(k, "status", bare.DeepCopy(), bare); len(errs) != 1 || errs[0].Error() != "Spec.accessModes: Required value" {
		t.Errorf("without access modes: %v", errs)
	}
	registrytest.Update(t, k, "status", claim(), []claimChange{
		{Name: "resized", To: func(c *corev1.PersistentVolumeClaim) {
			c.Spec.VolumeName = "x"
			c.Status.Phase, c.Status.Capacity, c.Status.AllocatedResources = corev1.ClaimBound, capacity("1"), capacity("2")
			c.Status.AllocatedResources["example.com/x"] = resource.MustParse("1")
			c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{"storage": corev1.PersistentVolumeClaimNodeResizePending}
			c.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{Status: corev1.PersistentVolumeClaimModifyVolumePending}
			c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimResizing}}
		}},
		{Name: "negative", To: func(c *corev1.PersistentVolumeClaim) {
			c.Status.Capacity, c.Status.AllocatedResources = capacity("-1"), capacity("-1")
		}, Refused: []string{
			"status.capacity[storage]: Invalid value: -1: must be a valid resource quantity",
			"status.allocatedResources[storage]: Invalid value: -1: must be a valid resource quantity"}},
		{Name: "names", To: func(c *corev1.PersistentVolumeClaim) {
			c.Status.AllocatedResources = corev1.ResourceList{"cpu": {}}
			c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{"requests.kubernetes.io/x": "Odd", "-": corev1.PersistentVolumeClaimNodeResizePending}
		}, Refused: []string{
			`status.allocatedResourceStatuses: Invalid value: "-": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			`status.allocatedResourceStatuses: Unsupported value: "requests.kubernetes.io/x": supported values: "storage"`,
			`status.allocatedResourceStatuses: Unsupported value: "requests.kubernetes.io/x": supported values: "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending"`,
			`status.allocatedResources: Unsupported value: "cpu": supported values: "storage"`}},
	})
	sick := func() *corev1.PersistentVolumeClaim {
		c := claim()
		c.Status.HealthStatus = &corev1.VolumeHealthStatus{HealthConditions: []corev1.VolumeHealthCondition{{Reason: "- -"}}}
		return c
	}
	obj := sick()
	if registrytest.Replace(k, "status", obj, claim()); obj.Status.HealthStatus != nil {
		t.Error("a status of health, whose feature is off, was stored")
	}
	if obj = sick(); len(registrytest.Replace(k, "status", obj, sick())) != 1 || obj.Status.HealthStatus == nil {
		t.Error("a status of health that was there is lost, or not validated")
	}
	created := claim()
	created.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: capacity("1")}
	if registrytest.Prepare(k, created); created.Status.Phase != corev1.ClaimPending || created.Status.Capacity != nil {
		t.Errorf("created with status %+v", created.Status)
	}
	spec := claim()
	spec.Status.Phase = corev1.ClaimLost
	if registrytest.Replace(k, "", spec, created); spec.Status.Phase != corev1.ClaimPending {
		t.Error("an update changed the status")
	}
	view := created.DeepCopy()
	view.Spec.VolumeName = "x"
	if registrytest.Replace(k, "status", view, created); view.Spec.VolumeName != "" {
		t.Error("an update of the status changed the spec")
	}
}

func TestClaimDefaults(t *testing.T) {
	c := claim()
	c.Spec.Resources = corev1.VolumeResourceRequirements{Requests: capacity("1u"), Limits: capacity("1u")}
	c.Status = corev1.PersistentVolumeClaimStatus{Capacity: capacity("1u"), AllocatedResources: capacity("1u")}
	claimKind(t).Rules.Default(c)
	for _, list := range []corev1.ResourceList{c.Spec.Resources.Requests, c.Spec.Resources.Limits, c.Status.Capacity, c.Status.AllocatedResources} {
		if q := list[corev1.ResourceStorage]; q.String() != "1m" {
			t.Errorf("%v is not rounded", list)
		}
	}
	if *c.Spec.VolumeMode != corev1.PersistentVolumeFilesystem || c.Status.Phase != corev1.ClaimPending {
		t.Errorf("defaults %+v", c)
	}
}

func TestClaimWarnings(t *testing.T) {
	c := claim()
	annotatedClass("a")(c)
	c.Spec.Resources = corev1.VolumeResourceRequirements{Requests: capacity("1500m"), Limits: capacity("2500m")}
	want := []string{
		`metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "storageClassName" attribute instead`,
		`spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer`,
		`spec.resources.limits[storage]: fractional byte value "2500m" is invalid, must be an integer`,
	}
	var got []string
	ctx := registry.WithWarnings(context.Background(), func(text string) { got = append(got, text) })
	k := claimKind(t)
	if k.Rules.PrepareCreate(ctx, c); !slices.Equal(got, want) {
		t.Errorf("warnings of a create: %q", got)
	}
	got = nil
	if k.Rules.PrepareUpdate(ctx, c, c.DeepCopy()); !slices.Equal(got, want) {
		t.Errorf("warnings of an update: %q", got)
	}
}
