package apps_test

import (
	"reflect"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/apps"
	"github.com/keelson-dev/keelson/registry/registrytest"
)

func statefulSet() *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", Generation: 4},
		Spec:       appsv1.StatefulSetSpec{Selector: selector(), Template: template(), ServiceName: "web"},
	}
}

func claim(name, size string) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		},
	}
}

func partition(partition int32, unavailable string) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) {
		s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition, MaxUnavailable: new(intstr.Parse(unavailable))}
	}
}

func strategy(kind appsv1.StatefulSetUpdateStrategyType) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) {
		partition(1, "2")(s)
		s.Spec.UpdateStrategy.Type = kind
	}
}

type stateful = registrytest.Change[*appsv1.StatefulSet]

func statefulChanges() []stateful {
	const (
		unavailable = `spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: `
		choice      = `: must be 'RollingUpdate' or 'OnDelete'`
	)
	return []stateful{
		{Name: "negative numbers", To: func(s *appsv1.StatefulSet) {
			s.Spec.Replicas, s.Spec.MinReadySeconds, s.Spec.Ordinals = new(int32(-1)), -2, &appsv1.StatefulSetOrdinals{Start: -3}
		}, Refused: []string{
			`spec.replicas: Invalid value: -1: must be greater than or equal to 0`,
			`spec.minReadySeconds: Invalid value: -2: must be greater than or equal to 0`,
			`spec.ordinals.start: Invalid value: -3: must be greater than or equal to 0`,
		}},
		{Name: "no history", To: func(s *appsv1.StatefulSet) { s.Spec.RevisionHistoryLimit = new(int32(-1)) }},
		{Name: "other labels", To: func(s *appsv1.StatefulSet) { s.Spec.Template.Labels["app"] = "db" }, Refused: []string{
			"spec.template.metadata.labels: Invalid value: {\"app\":\"db\"}: `selector` does not match template `labels`"}},
		{Name: "never restarted", To: func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever }, Refused: []string{
			`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`}},
		{Name: "deadline for pods", To: func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.ActiveDeadlineSeconds = new(int64(5)) }, Refused: []string{
			`spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in StatefulSet is not Supported`}},
		{Name: "no container", To: func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers = nil }, Refused: []string{
			`spec.template.spec.containers: Required value`}},
		{Name: "names in the network", To: func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Hostname, s.Spec.Template.Spec.Subdomain = "-", "-" }},
		{Name: "partition and maximum", To: partition(3, "100%")},
		{Name: "negative partition", To: partition(-1, "-1"), Refused: []string{
			`spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0`,
			unavailable + `-1: must be greater than or equal to 0`}},
		{Name: "none unavailable", To: partition(0, "0%"), Refused: []string{unavailable + `"0%": cannot be 0`}},
		{Name: "more than all", To: partition(0, "101%"), Refused: []string{unavailable + `"101%": must not be greater than 100%`}},
		{Name: "words", To: partition(0, "few"), Refused: []string{unavailable + `"few": ` + notPercent, unavailable + `"few": cannot be 0`}},
		{Name: "on delete", To: func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
		}},
		{Name: "on delete in steps", To: strategy(appsv1.OnDeleteStatefulSetStrategyType), Refused: []string{
			`spec.updateStrategy.rollingUpdate: Invalid value: {"Partition":1,"MaxUnavailable":2}: only allowed for updateStrategy 'RollingUpdate'`}},
		{Name: "rolling without parameters", To: func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType}
		}},
		{Name: "unknown strategy", To: strategy("Pray"), Refused: []string{
			`spec.updateStrategy: Invalid value: {"Type":"Pray","RollingUpdate":{"Partition":1,"MaxUnavailable":2}}` + choice}},
		{Name: "recreate", To: func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RecreateStatefulSetStrategyType}
		}, Refused: []string{`spec.updateStrategy: Invalid value: {"Type":"Recreate","RollingUpdate":null}` + choice}},
		{Name: "unknown retention", To: func(s *appsv1.StatefulSet) {
			s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: "Keep", WhenScaled: "Drop"}
		}, Refused: []string{
			`spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: "Keep": supported values: "Retain", "Delete"`,
			`spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "Drop": supported values: "Retain", "Delete"`,
		}},
	}
}

func TestStatefulSet(t *testing.T) {
	k := registrytest.Find(t, apps.Kinds(), "statefulsets")
	registrytest.Create(t, k, statefulSet(), append(statefulChanges(), []stateful{
		{Name: "claims", To: func(s *appsv1.StatefulSet) {
			s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claim("data", "1Gi"), claim("data", "2Gi")}
			s.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "data"}}
			s.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		}},
		{Name: "claims that are none", To: func(s *appsv1.StatefulSet) {
			s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claim("data", "1Gi"), claim("Data", "0")}
			s.Spec.VolumeClaimTemplates[0].Spec.AccessModes = nil
		}, Refused: []string{
			`spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required`,
			`spec.volumeClaimTemplates[1].spec.resources[storage]: Invalid value: "0": must be greater than zero`,
			`spec.template.spec.volumes[1].name: Invalid value: "Data": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
		}},
		{Name: "no service", To: func(s *appsv1.StatefulSet) { s.Spec.ServiceName = "" }},
		{Name: "a service that is none", To: func(s *appsv1.StatefulSet) { s.Spec.ServiceName = "a.b" }, Refused: []string{
			`spec.serviceName: Invalid value: "a.b": must not contain dots`}},
		{Name: "unknown management", To: func(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = "Chaos" }, Refused: []string{
			`spec.podManagementPolicy: Invalid value: "Chaos": must be 'OrderedReady' or 'Parallel'`}},
		{Name: "no selector", To: func(s *appsv1.StatefulSet) { s.Spec.Selector = nil }, Refused: []string{
			`spec.selector: Required value`,
			"spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`"}},
		{Name: "empty selector", To: func(s *appsv1.StatefulSet) { s.Spec.Selector = &metav1.LabelSelector{} }, Refused: []string{
			`spec.selector: Invalid value: {}: empty selector is invalid for statefulset`}},
		{Name: "unreadable selector", To: func(s *appsv1.StatefulSet) {
			s.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}
		}, Refused: []string{
			`spec.selector.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator`,
			`spec.selector: Invalid value: {"matchLabels":{"app":"web"},"matchExpressions":[{"key":"a","operator":"Like"}]}`,
		}},
	}...))
	if got := k.Rules.ValidateName("a.b", false); len(got) == 0 {
		t.Error("a name that no pod can have as its host name is accepted")
	}
	wrong := statefulSet()
	wrong.Spec.Template.Labels["/b"] = ""
	registrytest.Prepare(k, wrong)
	if errs := k.Rules.Validate(wrong); len(errs) != 2 || errs[0].Error() != errs[1].Error() {
		t.Errorf("a wrong label, which upstream reports twice: %v", errs)
	}
	undefaulted := statefulSet()
	var got []string
	for _, err := range k.Rules.Validate(undefaulted)[:2] {
		got = append(got, err.Error())
	}
	if want := []string{"spec.podManagementPolicy: Required value", "spec.updateStrategy: Required value"}; !slices.Equal(got, want) {
		t.Errorf("undefaulted: refused with %q", got)
	}
}

func TestStatefulSetUpdate(t *testing.T) {
	k := registrytest.Find(t, apps.Kinds(), "statefulsets")
	stored := statefulSet()
	stored.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claim("data", "1Gi")}
	registrytest.Update(t, k, "", stored, append(statefulChanges(), []stateful{
		{Name: "what never changes", To: func(s *appsv1.StatefulSet) {
			s.Spec.Selector.MatchLabels, s.Spec.Template.Labels = map[string]string{"a": "b"}, map[string]string{"a": "b"}
			s.Spec.ServiceName, s.Spec.PodManagementPolicy = "other.one", appsv1.ParallelPodManagement
			s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claim("more", "2Gi")}
			s.Spec.VolumeClaimTemplates[0].Spec.AccessModes = nil
		}, Refused: []string{
			`spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: field is immutable`,
			`spec.volumeClaimTemplates: Invalid value: [{"name":"more","Spec":{"AccessModes":null,"Selector":null,` +
				`"Resources":{"Limits":null,"Requests":{"storage":"2Gi"}},"VolumeName":"","StorageClassName":null,"VolumeMode":"Filesystem",` +
				`"DataSource":null,"DataSourceRef":null,"VolumeAttributesClassName":null},"Status":{"Phase":"Pending","AccessModes":null,` +
				`"Capacity":null,"Conditions":null,"AllocatedResources":null,"AllocatedResourceStatuses":null,` +
				`"CurrentVolumeAttributesClassName":null,"ModifyVolumeStatus":null,"HealthStatus":null}}]: field is immutable`,
			`spec.serviceName: Invalid value: "other.one": field is immutable`,
			`spec.podManagementPolicy: Invalid value: "Parallel": field is immutable`,
		}},
		{Name: "no claims", To: func(s *appsv1.StatefulSet) { s.Spec.VolumeClaimTemplates = nil }, Refused: []string{
			`spec.volumeClaimTemplates: Invalid value: null: field is immutable`}},
		{Name: "what changes", To: func(s *appsv1.StatefulSet) {
			s.Spec.Ordinals, s.Spec.RevisionHistoryLimit = &appsv1.StatefulSetOrdinals{Start: 5}, new(int32(3))
			s.Spec.MinReadySeconds, s.Spec.Replicas = 3, new(int32(9))
			s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: "Delete"}
			s.Spec.Template.Spec.Containers[0].Image = "web:2"
		}},
	}...))

	broken := statefulSet()
	broken.Spec.Template.Spec.Containers = nil
	broken.Spec.ServiceName = "a.b"
	registrytest.Update(t, k, "", broken, []stateful{
		{Name: "a template that never was valid", To: func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.NodeName = "-" }},
		{Name: "its labels", To: func(s *appsv1.StatefulSet) { s.Spec.Template.Labels["/b"] = "" }, Refused: []string{
			`spec.template.labels: Invalid value: "/b": prefix part must be non-empty`}},
	})

	recreated := statefulSet()
	recreated.Spec.UpdateStrategy.Type = appsv1.RecreateStatefulSetStrategyType
	registrytest.Update(t, k, "", recreated, []stateful{
		{Name: "recreated", To: func(s *appsv1.StatefulSet) { s.Spec.Replicas = new(int32(3)) }},
		{Name: "recreated in steps", To: partition(1, "1"), Refused: []string{
			`spec.updateStrategy.rollingUpdate: Invalid value: {"Partition":1,"MaxUnavailable":1}: only allowed for updateStrategy 'RollingUpdate'`}},
		{Name: "unknown", To: func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.Type = "Pray" }, Refused: []string{
			`spec.updateStrategy: Invalid value: {"Type":"Pray","RollingUpdate":null}: must be 'RollingUpdate', 'OnDelete', or 'Recreate'`}},
	})
}

func TestStatefulSetStatus(t *testing.T) {
	const nonnegative = ": must be greater than or equal to 0"
	k := registrytest.Find(t, apps.Kinds(), "statefulsets")
	stored := statefulSet()
	stored.Status.CollisionCount = new(int32(2))
	registrytest.Update(t, k, "status", stored, []stateful{
		{Name: "all", To: func(s *appsv1.StatefulSet) {
			s.Status = appsv1.StatefulSetStatus{
				ObservedGeneration: 1, Replicas: 2, ReadyReplicas: 2, CurrentReplicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2, CollisionCount: new(int32(2)),
			}
		}},
		{Name: "the spec stays", To: func(s *appsv1.StatefulSet) { s.Spec.Replicas = new(int32(-1)) }},
		{Name: "negative", To: func(s *appsv1.StatefulSet) {
			s.Status = appsv1.StatefulSetStatus{
				ObservedGeneration: -6, Replicas: -1, ReadyReplicas: -2, CurrentReplicas: -3, UpdatedReplicas: -4, AvailableReplicas: -5, CollisionCount: new(int32(-7)),
			}
		}, Refused: []string{
			`status.replicas: Invalid value: -1` + nonnegative,
			`status.readyReplicas: Invalid value: -2` + nonnegative,
			`status.currentReplicas: Invalid value: -3` + nonnegative,
			`status.updatedReplicas: Invalid value: -4` + nonnegative,
			`status.availableReplicas: Invalid value: -5` + nonnegative,
			`status.observedGeneration: Invalid value: -6` + nonnegative,
			`status.collisionCount: Invalid value: -7` + nonnegative,
			`status.collisionCount: Invalid value: -7: cannot be decremented`,
		}},
		{Name: "too many", To: func(s *appsv1.StatefulSet) {
			s.Status = appsv1.StatefulSetStatus{Replicas: 1, ReadyReplicas: 2, CurrentReplicas: 3, UpdatedReplicas: 4, AvailableReplicas: 5}
		}, Refused: []string{
			`status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas`,
			`status.currentReplicas: Invalid value: 3: cannot be greater than status.replicas`,
			`status.updatedReplicas: Invalid value: 4: cannot be greater than status.replicas`,
			`status.availableReplicas: Invalid value: 5: cannot be greater than status.replicas`,
			`status.availableReplicas: Invalid value: 5: cannot be greater than status.readyReplicas`,
			`status.collisionCount: Invalid value: 0: cannot be decremented`,
		}},
	})
}

func TestStatefulSetDefaults(t *testing.T) {
	k := registrytest.Find(t, apps.Kinds(), "statefulsets")
	s := statefulSet()
	s.Status.Replicas = 9
	s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claim("data", "1500u")}
	s.Spec.Template.Spec.EvictionResponders = []corev1.EvictionResponder{{Name: "example.com/x"}}
	registrytest.Prepare(k, s)
	if s.Status.Replicas != 0 || s.Generation != 1 || s.Spec.Template.Spec.EvictionResponders != nil || s.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		t.Errorf("created as %+v", s)
	}
	want := appsv1.StatefulSetSpec{
		Replicas: new(int32(1)), RevisionHistoryLimit: new(int32(10)), PodManagementPolicy: "OrderedReady", ServiceName: "web",
		UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: "RollingUpdate", RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{
			Partition: new(int32), MaxUnavailable: new(intstr.FromInt32(1)),
		}},
		PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: "Retain", WhenScaled: "Retain"},
		Selector:                             selector(), Template: s.Spec.Template, VolumeClaimTemplates: s.Spec.VolumeClaimTemplates,
	}
	if !reflect.DeepEqual(s.Spec, want) {
		t.Errorf("got  %+v\nwant %+v", s.Spec, want)
	}
	c := s.Spec.VolumeClaimTemplates[0]
	if c.APIVersion != "v1" || c.Kind != "PersistentVolumeClaim" || c.Status.Phase != corev1.ClaimPending || *c.Spec.VolumeMode != corev1.PersistentVolumeFilesystem ||
		c.Spec.Resources.Requests.Storage().String() != "2m" {
		t.Errorf("claim %+v", c)
	}

	kept := statefulSet()
	partition(2, "3")(kept)
	kept.Spec.Replicas, kept.Spec.RevisionHistoryLimit, kept.Spec.PodManagementPolicy = new(int32), new(int32), "Parallel"
	kept.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: "Delete", WhenDeleted: "Delete"}
	before := kept.DeepCopy()
	before.Spec.UpdateStrategy.Type = "RollingUpdate"
	if k.Rules.Default(kept); !reflect.DeepEqual(kept.Spec.UpdateStrategy, before.Spec.UpdateStrategy) || *kept.Spec.Replicas != 0 ||
		*kept.Spec.RevisionHistoryLimit != 0 || kept.Spec.PodManagementPolicy != "Parallel" ||
		!reflect.DeepEqual(kept.Spec.PersistentVolumeClaimRetentionPolicy, before.Spec.PersistentVolumeClaimRetentionPolicy) {
		t.Errorf("defaults overwrote: %+v", kept.Spec)
	}
	bare := statefulSet()
	bare.Spec.UpdateStrategy.Type = "RollingUpdate"
	if k.Rules.Default(bare); bare.Spec.UpdateStrategy.RollingUpdate != nil {
		t.Errorf("parameters of a rolling update whose type was given: %+v", bare.Spec.UpdateStrategy)
	}

	for name, tt := range map[string]struct {
		change func(*appsv1.StatefulSet)
		want   int64
	}{
		"status":     {func(s *appsv1.StatefulSet) { s.Status.Replicas = 5 }, 1},
		"annotation": {func(s *appsv1.StatefulSet) { s.Annotations = map[string]string{"a": "b"} }, 1},
		"replicas":   {func(s *appsv1.StatefulSet) { s.Spec.Replicas = new(int32(5)) }, 2},
	} {
		next := s.DeepCopy()
		tt.change(next)
		if registrytest.Replace(k, "", next, s); next.Generation != tt.want || next.Status.Replicas != 0 {
			t.Errorf("%s: generation %d, want %d; status %+v", name, next.Generation, tt.want, next.Status)
		}
	}
	next := s.DeepCopy()
	next.Spec.Replicas, next.Status.Replicas, next.Labels = new(int32(9)), 5, map[string]string{"a": "b"}
	if registrytest.Replace(k, "status", next, s); next.Status.Replicas != 5 || *next.Spec.Replicas != 1 || next.Labels["a"] != "b" {
		t.Errorf("the view of the status wrote %+v", next)
	}
	used, dropped := s.DeepCopy(), s.DeepCopy()
	used.Spec.Template.Spec.EvictionResponders = []corev1.EvictionResponder{{Name: "example.com/x"}}
	dropped.Spec.Template.Spec.EvictionResponders = used.Spec.Template.Spec.EvictionResponders
	if registrytest.Replace(k, "", dropped, s); dropped.Spec.Template.Spec.EvictionResponders != nil {
		t.Error("an update added the field of a feature that is off")
	}
	still := used.DeepCopy()
	if registrytest.Replace(k, "", still, used); len(still.Spec.Template.Spec.EvictionResponders) != 1 {
		t.Error("an update dropped a stored field")
	}
}

// TestStatefulSetWarnings: what is accepted and yet unwise is warned of.
func TestStatefulSetWarnings(t *testing.T) {
	k := registrytest.Find(t, apps.Kinds(), "statefulsets")
	s := statefulSet()
	s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claim("a", "1Gi"), claim("b", "1500m")}
	s.Spec.VolumeClaimTemplates[1].Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2500m")}
	s.Spec.RevisionHistoryLimit = new(int32(-1))
	k.Rules.Default(s)
	const history = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
	var told []string
	ctx := registry.WithWarnings(t.Context(), func(text string) { told = append(told, text) })
	k.Rules.PrepareCreate(ctx, s)
	want := []string{
		`spec.volumeClaimTemplates[1].resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer`,
		`spec.volumeClaimTemplates[1].resources.limits[storage]: fractional byte value "2500m" is invalid, must be an integer`, history,
	}
	if !slices.Equal(told, want) {
		t.Errorf("warned of %q", told)
	}
	told = nil
	k.Rules.PrepareUpdate(ctx, s.DeepCopy(), s)
	want = []string{
		`spec.volumeClaimTemplates[1].Spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer`,
		`spec.volumeClaimTemplates[1].Spec.resources.limits[storage]: fractional byte value "2500m" is invalid, must be an integer`, history,
	}
	if !slices.Equal(told, want) {
		t.Errorf("warned of %q", told)
	}
}

// TestStatefulSetStrategyDefaults: how many pods may be missing is a matter of rolling updates alone.
func TestStatefulSetStrategyDefaults(t *testing.T) {
	k := registrytest.Find(t, apps.Kinds(), "statefulsets")
	for kind, want := range map[appsv1.StatefulSetUpdateStrategyType]bool{"": true, "RollingUpdate": true, "OnDelete": false} {
		s := statefulSet()
		s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: kind, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{}}
		k.Rules.Default(s)
		if r := s.Spec.UpdateStrategy.RollingUpdate; *r.Partition != 0 || (r.MaxUnavailable != nil) != want {
			t.Errorf("%q: %+v", kind, r)
		}
	}
}
