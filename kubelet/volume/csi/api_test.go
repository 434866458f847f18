package csi_test

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/kubelet/volume/claims"
	"github.com/keelson-dev/keelson/kubelet/volume/csi"
)

var errDown = errors.New("down")

// annotate changes what drivers call the node.
func (b *bench) annotate(ids string) {
	b.Helper()
	at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("nodes"), Name: "node"}
	patch := client.Patch{Type: types.MergePatchType, Data: []byte(`{"metadata":{"annotations":{"csi.volume.kubernetes.io/nodeid":` + ids + `}}}`)}
	if _, err := b.api.Others.Patch(b.Context(), at, patch, metav1.PatchOptions{}); err != nil {
		b.Fatal(err)
	}
}

// listed changes the drivers of the CSINode.
func (b *bench) listed(all ...storagev1.CSINodeDriver) {
	b.Helper()
	own := get[*storagev1.CSINode](b, "csinodes", "", "node").DeepCopy()
	own.Spec.Drivers = all
	at := client.Target{Resource: storagev1.SchemeGroupVersion.WithResource("csinodes"), Name: "node"}
	if _, err := b.api.Others.Update(b.Context(), at, own, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// TestRegistrationWithoutAPI: a registrar is told what the API server said, and the driver registers when that is over.
func TestRegistrationWithoutAPI(t *testing.T) {
	var log lines
	b := start(t, csi.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, tt := range []struct {
		verb, resource string
		skip           int
		want           string
	}{
		{faults.Get, "nodes", 0, "reading node node: down"},
		{faults.Patch, "nodes", 0, "error updating Node object with CSI driver node info: down"},
		{faults.Get, "csinodes", 1, "error updating CSINode object with CSI driver node info: down"},
		{faults.Get, "csinodes", 2, "error updating CSINode object with CSI driver node info: down"},
		{faults.Update, "csinodes", 0, "error updating CSINode object with CSI driver node info: down"},
	} {
		b.stop()
		b.annotate("null")
		b.listed()
		b.api.Inject(faults.Fault{Verb: tt.verb, Resource: tt.resource, Skip: tt.skip, Err: errDown, Times: -1})
		b.script.set(func() { b.script.status = nil })
		b.run()
		b.eventually("refused", func() bool { return b.status() != nil })
		if s := b.status(); s.GetPluginRegistered() || !strings.Contains(s.GetError(), tt.want) {
			t.Errorf("%s %s: told %v", tt.verb, tt.resource, s)
		}
		b.api.Heal()
		b.eventually("registered", func() bool { return b.status().GetPluginRegistered() })
		if node := get[*corev1.Node](b, "nodes", "", "node"); node.Annotations["csi.volume.kubernetes.io/nodeid"] == "" || len(get[*storagev1.CSINode](b, "csinodes", "", "node").Spec.Drivers) != 1 {
			t.Errorf("%s %s: %v", tt.verb, tt.resource, node.Annotations)
		}
	}
	b.stop()
	b.annotate(`"x"`)
	b.script.set(func() { b.script.status = nil })
	b.run()
	b.eventually("refused", func() bool { return b.status() != nil })
	if s := b.status(); !strings.Contains(s.GetError(), `error updating Node object with CSI driver node info: failed to parse node's "csi.volume.kubernetes.io/nodeid" annotation value ("x")`) {
		t.Errorf("told %v", s)
	}
	b.annotate("null")
	b.eventually("registered", func() bool { return b.status().GetPluginRegistered() })

	// Somebody else changes the CSINode at the same time.
	b.stop()
	b.listed()
	b.api.Inject(faults.Fault{Verb: faults.Update, Resource: "csinodes", Err: apierrors.NewConflict(storagev1.Resource("csinodes"), "node", errDown)})
	b.restart()
	if s := b.status(); !s.GetPluginRegistered() {
		t.Errorf("told %v", s)
	}
}

// TestOtherDrivers: a driver that comes or goes leaves what others have said.
func TestOtherDrivers(t *testing.T) {
	b := start(t, csi.Options{})
	b.stop()
	b.annotate(`"{\"other.example.com\":\"o\"}"`)
	b.listed(storagev1.CSINodeDriver{Name: "other.example.com", NodeID: "o"})
	b.restart()
	state := func() string {
		var all []string
		for _, d := range get[*storagev1.CSINode](b, "csinodes", "", "node").Spec.Drivers {
			all = append(all, d.Name+"="+d.NodeID)
		}
		return strings.Join(all, " ") + " " + get[*corev1.Node](b, "nodes", "", "node").Annotations["csi.volume.kubernetes.io/nodeid"]
	}
	if got, want := state(), `other.example.com=o disks.example.com=n-1 {"disks.example.com":"n-1","other.example.com":"o"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	b.leave()
	b.eventually("the driver is gone", func() bool { return state() == `other.example.com=o {"other.example.com":"o"}` })
	b.leave = b.script.serve(t, b.dir)
}

// TestExpandFailures: what keeps a volume from being expanded is told, and the pod has its volume all the same.
func TestExpandFailures(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(b *bench, m *claims.Mount)
		asked  string
		want   string // what is told
		size   string // in the status of the claim
	}{
		"no secret": {func(_ *bench, m *claims.Mount) {
			m.Persistent.Spec.CSI.NodeExpandSecretRef = &corev1.SecretReference{Namespace: "default", Name: "none"}
		}, "stage h, publish h", "Warning VolumeResizeFailed", "1Gi"},
		"not told": {func(b *bench, _ *claims.Mount) {
			b.api.Inject(faults.Fault{Verb: faults.Patch, Resource: "persistentvolumeclaims/status", Err: errDown})
		}, "stage h, publish h, expand h 2147483648", `Warning VolumeResizeFailed NodeExpandVolume.NodeExpandVolume failed for volume "pv" : mounting volume with resize: down`, "1Gi"},
		"not needed": {func(b *bench, _ *claims.Mount) {
			b.script.set(func() {
				b.script.can = slices.DeleteFunc(b.script.can, func(c csispec.NodeServiceCapability_RPC_Type) bool {
					return c == csispec.NodeServiceCapability_RPC_EXPAND_VOLUME
				})
			})
		}, "stage h, publish h", "Normal FileSystemResizeSuccessful", "2Gi"},
		"not staged": {func(b *bench, _ *claims.Mount) {
			b.script.set(func() {
				b.script.can = []csispec.NodeServiceCapability_RPC_Type{csispec.NodeServiceCapability_RPC_EXPAND_VOLUME}
			})
		}, "publish h, expand h 2147483648", "Normal FileSystemResizeSuccessful", "2Gi"},
		"read-only": {func(_ *bench, m *claims.Mount) { m.ReadOnly = true }, "stage h, publish h", "", "1Gi"},
		"shrunk": {func(_ *bench, m *claims.Mount) {
			m.Persistent.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("512Mi")}
		}, "stage h, publish h", "", "1Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, csi.Options{}, object(nil))
			m := mountOf("p")
			m.Claim.Spec = corev1.PersistentVolumeClaimSpec{AccessModes: m.Persistent.Spec.AccessModes, Resources: corev1.VolumeResourceRequirements{Requests: m.Persistent.Spec.Capacity}}
			m.Claim.Status.Phase = corev1.ClaimBound
			m.Claim = controllerstest.Add(t, b.api, m.Claim)
			m.Persistent.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
			tt.change(b, &m)
			b.must(b.setUp(m))
			b.took(tt.asked)
			told := slices.Compact(b.events.Take())
			if len(told) > 1 || tt.want == "" != (len(told) == 0) || len(told) == 1 && !strings.HasPrefix(told[0], tt.want) {
				t.Errorf("events %q, want %s", told, tt.want)
			}
			if r := b.script.expand; r != nil && (r.GetStagingTargetPath() == "") != (name == "not staged") {
				t.Errorf("expanded with %v", r)
			}
			if got := get[*corev1.PersistentVolumeClaim](b, "persistentvolumeclaims", "default", "c").Status.Capacity.Storage(); got.String() != tt.size {
				t.Errorf("the claim has %s, want %s", got, tt.size)
			}
		})
	}
}
