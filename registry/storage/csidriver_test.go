package storage_test

import (
	"reflect"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/registrytest"
	"github.com/keelson-dev/keelson/registry/storage"
)

type driverChange = registrytest.Change[*storagev1.CSIDriver]

func csiDriver() *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "disk.example.com"}}
}

// driverSpec changes the spec of a driver.
func driverSpec(to func(*storagev1.CSIDriverSpec)) func(*storagev1.CSIDriver) {
	return func(d *storagev1.CSIDriver) { to(&d.Spec) }
}

// tokens changes the tokens that a driver asks for.
func tokens(requests ...storagev1.TokenRequest) func(*storagev1.CSIDriver) {
	return driverSpec(func(s *storagev1.CSIDriverSpec) { s.TokenRequests = requests })
}

func TestCSIDriver(t *testing.T) {
	k := registrytest.Find(t, storage.Kinds(), "csidrivers")
	if k.Namespaced {
		t.Error("namespaced")
	}
	type token = storagev1.TokenRequest
	changes := []driverChange{
		{Name: "tokens", To: tokens(token{}, token{Audience: "a", ExpirationSeconds: new(int64(600))}, token{Audience: "b", ExpirationSeconds: new(int64(1 << 32))})},
		{Name: "an audience twice", To: tokens(token{}, token{Audience: "a"}, token{ExpirationSeconds: new(int64(1))}), Refused: []string{
			`spec.tokenRequests[2].audience: Duplicate value: ""`}},
		{Name: "short tokens", To: tokens(token{ExpirationSeconds: new(int64(599))}), Refused: []string{
			`spec.tokenRequests[0].expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes`}},
		{Name: "long tokens", To: tokens(token{ExpirationSeconds: new(int64(1<<32 + 1))}), Refused: []string{
			`spec.tokenRequests[0].expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds`}},
		{Name: "another policy", To: driverSpec(func(s *storagev1.CSIDriverSpec) { s.FSGroupPolicy = new(storagev1.FSGroupPolicy("x")) }), Refused: []string{
			`spec.fsGroupPolicy: Unsupported value: "x": supported values: "File", "None", "ReadWriteOnceWithFSType"`}},
		{Name: "policies", To: driverSpec(func(s *storagev1.CSIDriverSpec) {
			s.FSGroupPolicy, s.NodeAllocatableUpdatePeriodSeconds = new(storagev1.FileFSGroupPolicy), new(int64(10))
		})},
		{Name: "a short period", To: driverSpec(func(s *storagev1.CSIDriverSpec) { s.NodeAllocatableUpdatePeriodSeconds = new(int64(9)) }), Refused: []string{
			`spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds`}},
		{Name: "secrets without tokens", To: driverSpec(func(s *storagev1.CSIDriverSpec) { s.ServiceAccountTokenInSecrets = new(false) }), Refused: []string{
			`spec.serviceAccountTokenInSecrets: Invalid value: false: serviceAccountTokenInSecrets is set but no tokenRequests are specified`}},
		{Name: "secrets", To: driverSpec(func(s *storagev1.CSIDriverSpec) {
			s.ServiceAccountTokenInSecrets, s.TokenRequests = new(true), []token{{}}
		})},
	}
	registrytest.Create(t, k, csiDriver(), append(changes,
		driverChange{Name: "ephemeral", To: driverSpec(func(s *storagev1.CSIDriverSpec) {
			s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{"Ephemeral", "Persistent"}
		})},
		driverChange{Name: "another mode", To: driverSpec(func(s *storagev1.CSIDriverSpec) {
			s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{"x"}
		}), Refused: []string{`spec.volumeLifecycleModes: Unsupported value: "x": supported values: "Persistent", "Ephemeral"`}},
	))
	registrytest.Update(t, k, "", csiDriver(), append(changes,
		driverChange{Name: "no need to attach", To: driverSpec(func(s *storagev1.CSIDriverSpec) { s.AttachRequired = new(false) }), Refused: []string{
			`spec.attachedRequired: Invalid value: false: field is immutable`}},
		driverChange{Name: "ephemeral", To: driverSpec(func(s *storagev1.CSIDriverSpec) {
			s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{"Ephemeral"}
		}), Refused: []string{`spec.volumeLifecycleModes: Invalid value: ["Ephemeral"]: field is immutable`}},
		driverChange{Name: "what else can change", To: driverSpec(func(s *storagev1.CSIDriverSpec) {
			s.PodInfoOnMount, s.StorageCapacity, s.RequiresRepublish = new(true), new(true), new(true)
			s.SELinuxMount, s.PreventPodSchedulingIfMissing = new(true), new(true)
		})},
	))
	errs := k.Rules.Validate(csiDriver()).ToAggregate()
	const want = "[spec.attachedRequired: Required value, spec.podInfoOnMount: Required value, spec.storageCapacity: Required value, " +
		"spec.seLinuxMount: Required value, spec.preventPodSchedulingIfMissing: Required value]"
	if errs == nil || errs.Error() != want {
		t.Errorf("without defaults: %v, want %s", errs, want)
	}
}

func TestCSIDriverDefaults(t *testing.T) {
	k := registrytest.Find(t, storage.Kinds(), "csidrivers")
	d := csiDriver()
	k.Rules.Default(d)
	want := storagev1.CSIDriverSpec{
		AttachRequired: new(true), PodInfoOnMount: new(false), StorageCapacity: new(false), RequiresRepublish: new(false),
		SELinuxMount: new(false), PreventPodSchedulingIfMissing: new(false),
		FSGroupPolicy:        new(storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy),
		VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{"Persistent"},
	}
	if !reflect.DeepEqual(d.Spec, want) {
		t.Errorf("defaults %+v", d.Spec)
	}
	set := storagev1.CSIDriverSpec{
		AttachRequired: new(false), PodInfoOnMount: new(true), StorageCapacity: new(true), RequiresRepublish: new(true),
		SELinuxMount: new(true), PreventPodSchedulingIfMissing: new(true),
		FSGroupPolicy:        new(storagev1.NoneFSGroupPolicy),
		VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{"Ephemeral"},
	}
	d.Spec = *set.DeepCopy()
	if k.Rules.Default(d); !reflect.DeepEqual(d.Spec, set) {
		t.Errorf("what is set becomes %+v", d.Spec)
	}
}

// TestCSIDriverGeneration: a new driver has no generation; changes of its spec are counted.
func TestCSIDriverGeneration(t *testing.T) {
	k := registrytest.Find(t, storage.Kinds(), "csidrivers")
	old := csiDriver()
	registrytest.Prepare(k, old)
	next := old.DeepCopy()
	next.Labels = map[string]string{"a": "b"}
	if registrytest.Replace(k, "", next, old); old.Generation != 0 || next.Generation != 0 {
		t.Errorf("generations %d, %d", old.Generation, next.Generation)
	}
	next.Spec.StorageCapacity = new(true)
	if registrytest.Replace(k, "", next, old); next.Generation != 1 {
		t.Errorf("generation %d after a change of the spec", next.Generation)
	}
}

func TestCSIDriverWarnings(t *testing.T) {
	k := registrytest.Find(t, storage.Kinds(), "csidrivers")
	plain, asking, safe := csiDriver(), csiDriver(), csiDriver()
	asking.Spec.TokenRequests = []storagev1.TokenRequest{{}}
	safe.Spec.TokenRequests, safe.Spec.ServiceAccountTokenInSecrets = []storagev1.TokenRequest{{Audience: "x"}}, new(false)
	for name, tt := range map[string]struct {
		obj, old registry.Object
		want     int
	}{
		"create without tokens": {plain, nil, 0}, "create": {asking, nil, 1}, "create safely": {safe, nil, 0},
		"no change": {asking, asking, 0}, "added": {asking, plain, 1}, "changed": {asking, safe, 1}, "removed": {plain, asking, 0},
	} {
		var told []string
		if err := k.Rules.Guard(registry.WithWarnings(t.Context(), func(text string) { told = append(told, text) }), tt.obj, tt.old); err != nil {
			t.Error(err)
		}
		const text = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"
		if len(told) != tt.want || tt.want > 0 && told[0] != text {
			t.Errorf("%s: %q", name, told)
		}
	}
}

// TestCSIDriverColumns: kubectl lists the audiences of tokens and the modes, and says where there are none.
func TestCSIDriverColumns(t *testing.T) {
	plain, full := csiDriver(), csiDriver()
	full.Spec = storagev1.CSIDriverSpec{
		AttachRequired: new(false), PodInfoOnMount: new(true), StorageCapacity: new(true), RequiresRepublish: new(true),
		TokenRequests: []storagev1.TokenRequest{{Audience: "a"}, {Audience: "b"}}, VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{"Persistent", "Ephemeral"},
	}
	now := time.Unix(60, 0)
	columns := registrytest.Find(t, storage.Kinds(), "csidrivers").Columns
	for d, want := range map[*storagev1.CSIDriver][]any{
		plain: {"disk.example.com", true, false, false, "<unset>", false, "<none>", "60s"},
		full:  {"disk.example.com", false, true, true, "a,b", true, "Persistent,Ephemeral", "60s"},
	} {
		d.CreationTimestamp = metav1.NewTime(time.Unix(0, 0))
		if got := columns.Cells(d, now); !reflect.DeepEqual(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}
